"""Right answers on both sides: shares, their difference, and a test on questions rather than on repetitions of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from loadkit.compare import proportion
from loadkit.compare.launch import Launch, Side
from loadkit.compare.measure import case_key
from loadkit.record import Answer, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Right answers of a scenario, side by side; every attempt whose answer was to be checked is in the denominator.

    `test` is McNemar where both sides were asked the same questions, Fisher otherwise, and then `second` is Boschloo where
    it is quick. For McNemar a question counts once, however often it was repeated: the side that got it right more often has
    it, since at temperature 0 repetitions of a question are no new evidence.
    """

    scenario: str
    a: proportion.Share
    b: proportion.Share
    difference: proportion.Difference
    test: proportion.ShareTest
    second: proportion.ShareTest | None = None


def answers(a: Side, b: Side, *, alpha: float = 0.05) -> tuple[Answers, ...]:
    """One row for each scenario whose answers were checked on both sides."""
    asked_a, asked_b = _asked(a), _asked(b)
    return tuple(
        _compared(scenario, asked_a[scenario], asked_b[scenario], alpha=alpha)
        for scenario in asked_a
        if asked_a[scenario] and asked_b.get(scenario)
    )


@dataclass(frozen=True, slots=True)
class _Attempt:
    question: str
    right: bool


def _compared(scenario: str, a: list[_Attempt], b: list[_Attempt], *, alpha: float) -> Answers:
    share_a, share_b = (proportion.share(sum(one.right for one in side), len(side), alpha=alpha) for side in (a, b))
    often_a, often_b = _how_often(a), _how_often(b)
    if often_a.keys() == often_b.keys():
        only_a = sum(often_a[question] > often_b[question] for question in often_a)
        only_b = sum(often_b[question] > often_a[question] for question in often_a)
        test, second = proportion.mcnemar(only_a, only_b), None
    else:
        test, second = proportion.fisher(share_a, share_b), proportion.boschloo(share_a, share_b)
    spread = proportion.difference(share_a, share_b)
    return Answers(scenario=scenario, a=share_a, b=share_b, difference=spread, test=test, second=second)


def _how_often(attempts: Iterable[_Attempt]) -> dict[str, Fraction]:
    tried: dict[str, list[bool]] = defaultdict(list)
    for attempt in attempts:
        tried[attempt.question].append(attempt.right)
    return {question: Fraction(sum(results), len(results)) for question, results in tried.items()}


def _asked(side: Side) -> dict[str, list[_Attempt]]:
    """Attempts by scenario, of scenarios that had at least one answer checked."""
    attempts: dict[str, list[_Attempt]] = defaultdict(list)
    for launch in side.launches:
        for scenario, attempt in _attempts(launch):
            attempts[scenario].append(attempt)
    return attempts


def _attempts(launch: Launch) -> Iterator[tuple[str, _Attempt]]:
    """Requests that failed or were lost are attempts that are not right; cancelled ones were never asked to the end."""
    checked = {one.record.case.scenario for one in launch.attempts if one.answer not in (None, Answer.UNVERIFIED)}
    for one in launch.attempts:
        record = one.record
        judged = one.completed and one.answer not in (None, Answer.UNVERIFIED)
        if record.case.scenario in checked and (judged or record.outcome not in (Outcome.COMPLETED, Outcome.CANCELLED)):
            yield record.case.scenario, _Attempt(case_key(record), right=judged and one.answer is Answer.CORRECT)
