"""`Tally`: the mergeable heart of a summary: a group for each kind of request, a flow for each round.

Tallies of parts (records of two workers, say) merge to the tally of the whole, in any order. Every table is a merge of leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadkit.summary.flow import Flow, flow_of, merged_flows, peak_in_flight, peak_tok_s, span_s, window_of
from loadkit.summary.group import Group, group_of, merged
from loadkit.summary.judged import Judged
from loadkit.summary.stage import Round, Stage, with_scaling


class Leaf(NamedTuple):
    """What requests have in common whose figures may be put together without a second thought."""

    stage: str
    ways: int | None
    round: int | None
    load: str
    workload: str
    scenario: str
    tier: str
    cache: str


class RoundKey(NamedTuple):
    """One round of one stage."""

    stage: str
    ways: int | None
    round: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Measured first attempts: `leaves` by what they have in common, `flows` by round."""

    leaves: dict[Leaf, Group] = field(default_factory=dict)
    flows: dict[RoundKey, Flow] = field(default_factory=dict)

    def group(self, wanted: Callable[[Leaf], bool] = lambda _: True) -> Group:
        """All leaves that are wanted, merged."""
        return merged(group for leaf, group in self.leaves.items() if wanted(leaf))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A row of the tables by scenario and tier. `tier` and `cache` are empty where they do not apply or are merged over."""

    scenario: str
    workload: str
    group: Group
    tier: str = ""
    cache: str = ""
    ways: int | None = None


def tally(requests: Iterable[Judged], *, good: Mapping[str, bool] | None = None) -> Tally:
    """The tally of those requests that count. `good` tells by id which are good (see `loadkit.slo`)."""
    leaves: dict[Leaf, list[Judged]] = {}
    rounds: dict[RoundKey, list[Judged]] = {}
    for request in requests:
        if not request.counts:
            continue
        leaf = _leaf(request)
        leaves.setdefault(leaf, []).append(request)
        rounds.setdefault(RoundKey(leaf.stage, leaf.ways, leaf.round), []).append(request)
    return Tally(
        leaves={leaf: group_of(part, good=good) for leaf, part in leaves.items()},
        flows={key: flow_of(part) for key, part in rounds.items()},
    )


def merged_tallies(tallies: Sequence[Tally]) -> Tally:
    """All tallies together; associative and commutative (up to the order of keys, which nothing depends on)."""
    leaves = dict.fromkeys(leaf for part in tallies for leaf in part.leaves)
    rounds = dict.fromkeys(key for part in tallies for key in part.flows)
    return Tally(
        leaves={leaf: merged(part.leaves[leaf] for part in tallies if leaf in part.leaves) for leaf in leaves},
        flows={key: merged_flows(part.flows[key] for part in tallies if key in part.flows) for key in rounds},
    )


def stages_of(whole: Tally) -> tuple[Stage, ...]:
    """Stages in the order of their first request, with their rounds; speed and quality workloads are never put together."""
    keys: dict[tuple[str, int | None, str], list[Leaf]] = {}
    for leaf in sorted(whole.leaves, key=lambda leaf: _first(whole.leaves[leaf])):
        keys.setdefault((leaf.stage, leaf.ways, leaf.workload), []).append(leaf)
    return with_scaling([_stage(whole, leaves) for leaves in keys.values()])


def parts_of(whole: Tally, *, tiers: bool) -> tuple[Part, ...]:
    """Rows by scenario, or by scenario, tier and cache state (those that have one)."""
    rows: dict[tuple[str, ...], list[Leaf]] = {}
    for leaf in whole.leaves:
        if not tiers:
            rows.setdefault((leaf.scenario, leaf.workload, "", ""), []).append(leaf)
        elif leaf.tier:
            rows.setdefault((leaf.scenario, leaf.workload, leaf.tier, leaf.cache), []).append(leaf)
    parts = [
        Part(scenario=key[0], workload=key[1], tier=key[2], cache=key[3], group=merged(whole.leaves[leaf] for leaf in leaves))
        for key, leaves in rows.items()
    ]
    return tuple(sorted(parts, key=lambda part: (part.scenario, tier_tokens(part.tier), part.tier, part.cache)))


def tier_tokens(tier: str) -> float:
    """Length that a tier's name gives, in tokens, for sorting: "8K" → 8192; names without a number come first."""
    digits = "".join(char for char in tier if char.isdigit() or char == ".")
    if not digits.strip("."):
        return 0.0
    return float(digits) * (1024 if "k" in tier.lower() else 1024 * 1024 if "m" in tier.lower() else 1)


def _stage(whole: Tally, leaves: Sequence[Leaf]) -> Stage:
    first = leaves[0]
    numbers = dict.fromkeys(leaf.round for leaf in leaves)
    alone = all(
        leaf.workload == first.workload for leaf in whole.leaves if (leaf.stage, leaf.ways) == (first.stage, first.ways)
    )
    return Stage(
        name=first.stage,
        ways=first.ways,
        scenarios=tuple(sorted({leaf.scenario for leaf in leaves})),
        workload=first.workload,
        load=first.load,
        rounds=tuple(_round(whole, [leaf for leaf in leaves if leaf.round == number], with_flow=alone) for number in numbers),
        group=merged(whole.leaves[leaf] for leaf in leaves),
    )


def _round(whole: Tally, leaves: Sequence[Leaf], *, with_flow: bool) -> Round:
    """`with_flow`: a flow covers all workloads of a round, so it says nothing where they are shown apart."""
    first = leaves[0]
    flow = whole.flows.get(RoundKey(first.stage, first.ways, first.round), Flow()) if with_flow else Flow()
    return Round(
        stage=first.stage,
        number=first.round,
        ways=first.ways,
        group=merged(whole.leaves[leaf] for leaf in leaves),
        window=window_of(flow),
        peak_in_flight=peak_in_flight(flow),
        peak_tok_s=peak_tok_s(flow),
        stream_tokens=sum(flow.tokens),
        stream_s=span_s(flow),
    )


def _leaf(request: Judged) -> Leaf:
    slot, case = request.record.slot, request.record.case
    return Leaf(
        stage=slot.stage,
        ways=slot.ways,
        round=slot.round,
        load=slot.load,
        workload=case.workload,
        scenario=case.scenario,
        tier=case.tier or "",
        cache=case.cache if case.cache in ("cold", "warm") else "",
    )


def _first(group: Group) -> float:
    return float("inf") if group.first_sent_ns is None else group.first_sent_ns
