"""What every section of the page is made from: the run, its summary and verdict, and the groups shown together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from loadkit.language import Language, gloss, say
from loadkit.record import Outcome
from loadkit.report.html.svg import COLOURS
from loadkit.run_folder import Run
from loadkit.summary import Judged, Summary
from loadkit.verdict import Verdict


@dataclass(frozen=True)
class View:
    """One run as it is shown, in one language."""

    run: Run
    summary: Summary
    verdict: Verdict
    language: Language

    def say(self, sentence: str, /, **values: object) -> str:
        return say(sentence, self.language, **values)

    def gloss(self, text: str) -> str:
        return gloss(text, self.language)

    @cached_property
    def counting(self) -> tuple[Judged, ...]:
        """The requests that enter figures."""
        return tuple(request for request in self.summary.requests if request.counts)

    @cached_property
    def worth_showing(self) -> tuple[Judged, ...]:
        """Those that can be chosen one by one: what enters figures, and whatever failed outside (warm-ups, retries)."""
        return tuple(request for request in self.summary.requests if request.counts or not request.completed)

    @cached_property
    def groups(self) -> dict[str, tuple[Judged, ...]]:
        """Requests by stage, or by scenario and tier where there are more stages than colours; the largest groups of them."""
        by_stage = grouped(self.counting, lambda request: request.record.slot.stage or request.record.case.scenario)
        if len(by_stage) <= COLOURS:
            return by_stage
        by_tier = grouped(self.counting, _scenario_and_tier)
        largest = sorted(by_tier, key=lambda name: len(by_tier[name]), reverse=True)[:COLOURS]
        return {name: found for name, found in by_tier.items() if name in largest}


def failed(requests: Iterable[Judged]) -> int:
    """How many did not complete, and not because we cancelled them: in distributions they count as infinitely long."""
    return sum(request.record.outcome not in (Outcome.COMPLETED, Outcome.CANCELLED) for request in requests)


def grouped(requests: Iterable[Judged], key: Callable[[Judged], str]) -> dict[str, tuple[Judged, ...]]:
    """Requests by `key(request)`, in the order in which the keys first appear."""
    found: dict[str, list[Judged]] = {}
    for request in requests:
        found.setdefault(key(request), []).append(request)
    return {name: tuple(members) for name, members in found.items()}


def _scenario_and_tier(request: Judged) -> str:
    case = request.record.case
    return f"{case.scenario} {case.tier}" if case.tier else case.scenario
