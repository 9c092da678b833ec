"""The live table: one row per scenario and stage, kept up to date by each request that ends, in bounded memory.

The figures are those of the metrics reference over what has ended so far; the report at the end is made from the records.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from loadkit.metrics import tpot_ns, ttft_ns
from loadkit.record import Answer, AnswerVerdict, Outcome, Record
from loadkit.statistics import Distribution

_KEPT = 2000
"""Values per row that medians are taken from: the last ones."""


@dataclass(slots=True)
class Span:
    """First request sent, last end and tokens of one round: its makespan throughput."""

    first_ns: int
    last_ns: int
    tokens: int = 0

    def rate_per_s(self) -> float | None:
        return self.tokens * 1e9 / (self.last_ns - self.first_ns) if self.last_ns > self.first_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """What the table shows of one scenario in one stage."""

    scenario: str
    stage: str
    ways: int | None
    ended: int
    failed: int
    wrong: int
    makespan_per_s: float | None
    ttft_median_ns: float | None
    ttft_maximum_ns: float | None
    tpot_median_ns: float | None


@dataclass(slots=True)
class _Row:
    ways: int | None
    ended: int = 0
    failed: int = 0
    wrong: int = 0
    ttft: deque[int] = field(default_factory=lambda: deque(maxlen=_KEPT))
    ttft_maximum: int | None = None
    tpot: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    rounds: dict[int, Span] = field(default_factory=dict)


class Tally:
    """Counts records into rows."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], _Row] = {}

    def add(self, record: Record, verdicts: tuple[AnswerVerdict, ...] = ()) -> bool:
        """Count one measured record; whether it completed with no fault found in its answer."""
        row = self._rows.setdefault((record.case.scenario, record.slot.stage), _Row(ways=record.slot.ways))
        completed = record.outcome is Outcome.COMPLETED
        wrong = any(verdict.answer not in (Answer.CORRECT, Answer.UNVERIFIED) for verdict in verdicts)
        row.ended += 1
        row.failed += not completed
        row.wrong += wrong
        self._time(row, record)
        return completed and not wrong

    def _time(self, row: _Row, record: Record) -> None:
        ttft, tpot = ttft_ns(record), tpot_ns(record)
        if ttft is not None:
            row.ttft.append(ttft)
            row.ttft_maximum = ttft if row.ttft_maximum is None else max(row.ttft_maximum, ttft)
        if tpot is not None:
            row.tpot.append(tpot)
        if record.sent_ns is not None and record.end_ns is not None:
            span = row.rounds.setdefault(record.slot.round or 0, Span(record.sent_ns, record.end_ns))
            span.first_ns, span.last_ns = min(span.first_ns, record.sent_ns), max(span.last_ns, record.end_ns)
            span.tokens += record.usage.completion_tokens or 0

    def rows(self) -> list[StageRow]:
        """In the order in which they first appeared."""
        return [
            StageRow(
                scenario=scenario, stage=stage, ways=row.ways, ended=row.ended, failed=row.failed, wrong=row.wrong,
                makespan_per_s=_middle([rate for span in row.rounds.values() if (rate := span.rate_per_s()) is not None]),
                ttft_median_ns=_middle(row.ttft), ttft_maximum_ns=row.ttft_maximum, tpot_median_ns=_middle(row.tpot),
            )
            for (scenario, stage), row in self._rows.items()
        ]  # fmt: skip


def _middle(values: deque[int] | deque[float] | list[float]) -> float | None:
    return Distribution.of(values).median
