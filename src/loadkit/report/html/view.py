"""What every section of the page is made from: the run, its summary and verdict, and the groups shown together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from loadkit.language import Language, say
from loadkit.record import AnswerVerdict, Outcome, Phase, Record
from loadkit.report.html.svg import COLOURS
from loadkit.run_folder import Run
from loadkit.summary import Summary
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

    @cached_property
    def measured(self) -> tuple[Record, ...]:
        """First attempts of measured requests: the only ones that enter figures."""
        return tuple(record for record in self.run.records if record.slot.phase is Phase.MEASURED and record.slot.attempt == 1)

    @cached_property
    def checks(self) -> dict[str, tuple[AnswerVerdict, ...]]:
        """Verdicts on answers by request."""
        found: dict[str, list[AnswerVerdict]] = {}
        for check in self.run.checks:
            found.setdefault(check.id, []).append(check)
        return {identity: tuple(verdicts) for identity, verdicts in found.items()}

    @cached_property
    def groups(self) -> dict[str, tuple[Record, ...]]:
        """Measured requests by stage, or by scenario and tier where there are more stages than colours."""
        by_stage = grouped(self.measured, lambda record: record.slot.stage or record.case.scenario)
        if len(by_stage) <= COLOURS:
            return by_stage
        by_tier = grouped(self.measured, lambda record: " ".join(filter(None, (record.case.scenario, record.case.tier))))
        largest = {name for name, _ in Counter({name: len(found) for name, found in by_tier.items()}).most_common(COLOURS)}
        return {name: found for name, found in by_tier.items() if name in largest}

    def failed(self, records: Iterable[Record]) -> int:
        """How many did not complete: in distributions they count as infinitely long."""
        return sum(record.outcome is not Outcome.COMPLETED for record in records)


def grouped(records: Iterable[Record], key: Callable[[Record], str]) -> dict[str, tuple[Record, ...]]:
    """Records by `key(record)`, in the order in which the keys first appear."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(key(record), []).append(record)
    return {name: tuple(members) for name, members in found.items()}
