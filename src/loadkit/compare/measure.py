"""What one launch says: for each metric and group of requests one figure, the median of its rounds or requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from loadkit import metrics
from loadkit.compare.judgement import Better
from loadkit.compare.launch import Launch
from loadkit.record import Record
from loadkit.statistics import Distribution

THROUGHPUT = "throughput"
MATCHED_TPOT = "tpot_matched"
COMPARED = ("decode_rate", "ttft", "ttfat", "e2e")
"""Per-request metrics that every comparison shows; others enter when they are named as primary."""

SPEED = frozenset({THROUGHPUT, MATCHED_TPOT, *COMPARED})


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """Requests that are compared with each other: of one scenario, stage, length tier and declared cache state."""

    scenario: str
    stage: str
    tier: str
    cache: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in (self.scenario, self.stage, self.tier, self.cache) if part)


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A metric of a group."""

    metric: str
    group: Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a metric is read: label, unit and which way is better."""

    label: str
    unit: Literal["ns", "tokens", "tok/s", "tok/chunk"]
    better: Better


def look(metric: str) -> Look:
    """Label, unit and direction of a metric, from the table of metrics for the per-request ones."""
    if metric == THROUGHPUT:
        return Look(label="makespan throughput", unit="tok/s", better="higher")
    if metric == MATCHED_TPOT:
        return Look(label="TPOT, length-matched", unit="ns", better="lower")
    row = metrics.BY_NAME[metric]
    better: Better = "higher" if row.worse == "low" else "lower" if row.worse == "high" else "neither"
    return Look(label=row.label, unit=row.unit, better=better)


def group_of(record: Record) -> Group:
    """Where a request belongs."""
    return Group(record.case.scenario, record.slot.stage, record.case.tier or "", record.case.cache or "")


def groups_of(records: Iterable[Record]) -> dict[Group, list[Record]]:
    """Records by group, groups in the order in which they first appear."""
    groups: dict[Group, list[Record]] = defaultdict(list)
    for record in records:
        groups[group_of(record)].append(record)
    return dict(groups)


def labels_of(groups: Iterable[Group]) -> dict[Group, str]:
    """Short names: only the parts in which the groups differ ("1 way", or "32K · cold")."""
    known = list(groups)
    varying = [len(set(columns)) > 1 for columns in zip(*map(_columns, known), strict=True)] if known else []

    def label(group: Group) -> str:
        parts = [part for part, varies in zip(_columns(group), varying, strict=True) if varies and part]
        return " · ".join(parts) or group.stage or group.scenario

    return {group: label(group) for group in known}


def measures(launch: Launch, names: Sequence[str], lengths: dict[str, int]) -> dict[Measure, float]:
    """The launch's figure for each metric and group; absent where it does not apply or is not above 0.

    `lengths` are the tokens to which `tpot_matched` cuts each case (`shared_lengths`).
    """
    figures: dict[Measure, float] = {}
    for group, records in groups_of(launch.records).items():
        for name in names:
            value = _figure(name, records, lengths)
            if value is not None and value > 0:
                figures[Measure(name, group)] = value
    return figures


def _figure(name: str, records: Sequence[Record], lengths: dict[str, int]) -> float | None:
    if name == THROUGHPUT:
        rounds = [value for value in _throughputs(records) if value is not None]
        return median(rounds) if rounds else None
    if name == MATCHED_TPOT:
        return _median(tpot_of_first(record, lengths.get(case_key(record))) for record in records)
    of: Callable[[Record], float | None] = metrics.BY_NAME[name].of
    return _median(map(of, records))


def case_key(record: Record) -> str:
    """Which question this was, the same on both sides of a comparison."""
    return f"{record.case.scenario}/{record.case.case}/{record.slot.turn}"


def shared_lengths(records: Iterable[Record]) -> dict[str, int]:
    """The shortest completed answer to each question over everything compared (tokens)."""
    shortest: dict[str, int] = {}
    for record in records:
        tokens = metrics.output_tokens(record)
        if tokens and metrics.tpot_ns(record) is not None:
            key = case_key(record)
            shortest[key] = min(tokens, shortest.get(key, tokens))
    return shortest


def tpot_of_first(record: Record, tokens: int | None) -> float | None:
    """Time per output token of the first `tokens` tokens only: (their last event − first event) / (their count − k1).

    Decoding slows down as the context grows, so answers of different length have different TPOT even at equal speed.
    `None` without the tokens of each event, or where no second event lies within them.
    """
    counts = record.events.tokens
    if counts is None or tokens is None or metrics.tpot_ns(record) is None:
        return None
    seen, last = 0, 0
    for place, count in enumerate(counts):
        if seen + count > tokens:
            break
        seen, last = seen + count, place
    later = seen - counts[0]
    return (record.events.at_ns[last] - record.events.at_ns[0]) / later if later > 0 else None


def _throughputs(records: Sequence[Record]) -> Iterable[float | None]:
    rounds: dict[tuple[str, int | None], list[Record]] = defaultdict(list)
    for record in records:
        rounds[(record.slot.stage, record.slot.round)].append(record)
    return [makespan_throughput(group) for group in rounds.values()]


def makespan_throughput(records: Sequence[Record]) -> float | None:
    """Σ N / (last end − first sent) of one round, in tokens per second; `None` unless every request completed with usage."""
    tokens = [metrics.output_tokens(record) for record in records]
    ends = [record.end_ns for record in records if metrics.e2e_ns(record) is not None]
    sent = [record.sent_ns for record in records if record.sent_ns is not None]
    known = [count for count in tokens if count is not None]
    if len(known) < len(records) or len(ends) < len(records) or not sent:
        return None
    span = max(end for end in ends if end is not None) - min(sent)
    return sum(known) * metrics.NS_PER_S / span if span > 0 else None


def _median(values: Iterable[float | None]) -> float | None:
    """Nearest rank, as in every report, so that the figures of a run and of a comparison agree."""
    return Distribution.of(values).median


def _columns(group: Group) -> tuple[str, ...]:
    return (group.scenario, group.stage, group.tier, group.cache)
