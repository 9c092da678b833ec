"""Long-context retrieval: right answers by length and depth, and how much context is really effective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadkit.record import Answer, Outcome
from loadkit.summary.judged import HostState, Judged
from loadkit.summary.tally import tier_tokens

NEEDED_SHARE = 0.85
"""Accuracy at a length that still counts as effective, as a share of the short base score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of the grid: checked answers at a length (`tier`) and a depth of the needle (share of the document, 0 to 1)."""

    scenario: str
    tier: str
    depth: float
    correct: int
    checked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One length. `prompt_tokens` are the smallest and largest that the server reported; `host` the worst of its requests.

    `quality` and `capacity` are `None` where it is not known: nothing was checked, no host was seen, or this side stopped some.
    """

    tier: str
    attempted: int
    completed: int
    checked: int
    correct: int
    prompt_tokens: tuple[int, int] | None
    tokens_verified: bool | None
    host: HostState
    quality: bool | None
    capacity: bool | None

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.checked if self.checked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveContext:
    """Quality: the largest length for which, at it and every shorter one, accuracy ≥ 85 % of the base. Capacity: the same for
    everything completed, tokens verified and no host event; `capacity_unverified` where no host was seen."""

    scenario: str
    base: float
    base_of: str
    rungs: tuple[Rung, ...]
    quality: str | None
    capacity: str | None
    capacity_unverified: bool


def grid(requests: Sequence[Judged]) -> tuple[Cell, ...]:
    """Cells of all scenarios whose cases carry the tag `depth`, first attempts only."""
    cells: dict[tuple[str, str, float], list[Judged]] = {}
    for request in requests:
        depth = request.record.case.tags.get("depth")
        if request.counts and request.answer is not None and isinstance(depth, (int, float)) and not isinstance(depth, bool):
            cells.setdefault((request.record.case.scenario, request.record.case.tier or "", float(depth)), []).append(request)
    return tuple(
        Cell(scenario=key[0], tier=key[1], depth=key[2], correct=_correct(part), checked=len(part))
        for key, part in sorted(cells.items(), key=lambda item: (item[0][0], tier_tokens(item[0][1]), item[0][2]))
    )


def effective_contexts(requests: Sequence[Judged]) -> tuple[EffectiveContext, ...]:
    """One for each scenario with lengths and checks."""
    counting = [request for request in requests if request.counts]
    short = [r for r in counting if r.answer is not None and not r.record.case.tier and r.record.case.workload == "quality"]
    by_scenario: dict[str, list[Judged]] = {}
    for request in counting:
        if request.record.case.tier and request.record.case.workload == "quality":
            by_scenario.setdefault(request.record.case.scenario, []).append(request)
    return tuple(
        _effective(name, part, short)
        for name, part in sorted(by_scenario.items())
        if any(request.answer is not None for request in part)
    )


def same_answers(requests: Sequence[Judged]) -> tuple[int, int]:
    """(pairs with the same answer, pairs): the same question asked cold and warm, as the tag `pair` joins them.

    Prefix reuse on hybrid models has corrupted answers at temperature 0 while every figure looked healthy (vLLM #53912).
    """
    pairs: dict[str, list[Judged]] = {}
    for request in requests:
        pair = request.record.case.tags.get("pair")
        if request.counts and request.completed and isinstance(pair, str):
            pairs.setdefault(pair, []).append(request)
    both = [part for part in pairs.values() if {"cold", "warm"} <= {request.record.case.cache for request in part}]
    return sum(len({_answer(request) for request in part}) == 1 for part in both), len(both)


def _answer(request: Judged) -> str | None:
    """The answer's text, or its hash where texts are not kept."""
    return request.record.answer_sha256 or request.record.answer


def _effective(scenario: str, requests: Sequence[Judged], short: Sequence[Judged]) -> EffectiveContext:
    tiers: dict[str, list[Judged]] = {}
    for request in requests:
        tiers.setdefault(request.record.case.tier or "", []).append(request)
    ordered = sorted(tiers, key=lambda tier: (tier_tokens(tier), tier))
    base_requests = list(short) or [request for request in tiers[ordered[0]] if request.answer is not None]
    base = _correct(base_requests) / len(base_requests) if base_requests else 0.0
    rungs = tuple(_rung(tier, tiers[tier], base) for tier in ordered)
    return EffectiveContext(
        scenario=scenario,
        base=base,
        base_of="short" if short else ordered[0],
        rungs=rungs,
        quality=_last_unbroken((rung.tier, rung.quality is True) for rung in rungs),
        capacity=_last_unbroken((rung.tier, rung.capacity is not False and rung.completed == rung.attempted) for rung in rungs),
        capacity_unverified=any(rung.capacity is None for rung in rungs),
    )


def _rung(tier: str, requests: Sequence[Judged], base: float) -> Rung:
    checked = [request for request in requests if request.answer is not None]
    completed = [request for request in requests if request.completed]
    stopped = sum(request.record.outcome is Outcome.CANCELLED for request in requests)
    lengths = [tokens for request in completed if (tokens := request.record.usage.prompt_tokens) is not None]
    verified = _tokens_verified(completed)
    states = {request.host for request in requests}
    host: HostState = next((state for state in ("unstable", "suspect", "unverified") if state in states), "stable")
    correct = _correct(checked)
    sound = len(completed) + stopped == len(requests) and host not in ("unstable", "suspect") and verified is not False
    return Rung(
        tier=tier,
        attempted=len(requests),
        completed=len(completed),
        checked=len(checked),
        correct=correct,
        prompt_tokens=(min(lengths), max(lengths)) if lengths else None,
        tokens_verified=verified,
        host=host,
        quality=base > 0 and correct / len(checked) >= NEEDED_SHARE * base if checked else None,
        capacity=False if not sound else None if stopped or host == "unverified" or verified is None else True,
    )


def _tokens_verified(completed: Sequence[Judged]) -> bool | None:
    """usage.prompt_tokens equals the plan, for every request that has one; `None` without any."""
    pairs = [
        (request.record.case.planned_prompt_tokens, request.record.usage.prompt_tokens)
        for request in completed
        if request.record.case.planned_prompt_tokens is not None
    ]
    return all(planned == actual for planned, actual in pairs) if pairs else None


def _last_unbroken(rungs: Iterable[tuple[str, bool]]) -> str | None:
    last = None
    for tier, holds in rungs:
        if not holds:
            break
        last = tier
    return last


def _correct(requests: Sequence[Judged]) -> int:
    return sum(request.answer is Answer.CORRECT for request in requests)
