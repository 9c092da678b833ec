"""`Stage` and its rounds: throughput, scaling, achieved concurrency, goodput. Each formula stands in the metrics reference."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from loadkit.metrics import NS_PER_S
from loadkit.summary.flow import Window
from loadkit.summary.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over the rounds of a stage: median (mean of the middle two where even), minimum and maximum."""

    median: float
    minimum: float
    maximum: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """`None` where no round has the figure."""
        known = [value for value in values if value is not None]
        return cls(median=statistics.median(known), minimum=min(known), maximum=max(known)) if known else None

    def scaled(self, factor: float) -> Spread:
        return Spread(median=self.median * factor, minimum=self.minimum * factor, maximum=self.maximum * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of a stage. Figures are `None` where their parts are unknown."""

    stage: str
    number: int | None
    ways: int | None
    group: Group
    window: Window | None = None
    peak_in_flight: int = 0
    peak_tok_s: float | None = None
    stream_s: float | None = None
    stream_tokens: float = 0.0

    @property
    def makespan_s(self) -> float | None:
        """last end of a completed request − first sent, in seconds."""
        first, last = self.group.first_sent_ns, self.group.last_completed_ns
        return None if first is None or last is None or last <= first else (last - first) / NS_PER_S

    @property
    def makespan_tok_s(self) -> float | None:
        """Σ N / makespan; unknown as soon as one completed request has no usage."""
        makespan = self.makespan_s
        return None if makespan is None or self.group.tokens_unknown else self.group.tokens / makespan

    @property
    def per_user_tok_s(self) -> float | None:
        """makespan throughput / ways."""
        whole = self.makespan_tok_s
        return None if whole is None or not self.ways else whole / self.ways

    @property
    def achieved_concurrency(self) -> float | None:
        """∫ in-flight dt / (last end or close − first sent)."""
        first, last = self.group.first_sent_ns, self.group.last_end_ns
        return None if first is None or last is None or last <= first else self.group.busy_ns / (last - first)

    @property
    def requests_per_s(self) -> float | None:
        """Completed requests / window, or / makespan where there is no sustained window."""
        if self.window is not None:
            return self.window.requests_per_s
        makespan = self.makespan_s
        return None if makespan is None else self.group.completed / makespan

    @property
    def goodput_per_s(self) -> float | None:
        """Good requests / makespan."""
        makespan = self.makespan_s
        return None if makespan is None else self.group.good / makespan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """All rounds of one stage. `scaling` is against the stage of one way with the same scenarios; never a decode rate."""

    name: str
    ways: int | None
    scenarios: tuple[str, ...]
    workload: str
    load: str
    rounds: tuple[Round, ...]
    group: Group
    scaling: float | None = None

    @property
    def makespan_tok_s(self) -> Spread | None:
        return Spread.of(part.makespan_tok_s for part in self.rounds)

    @property
    def per_user_tok_s(self) -> Spread | None:
        return Spread.of(part.per_user_tok_s for part in self.rounds)

    @property
    def output_tok_s(self) -> Spread | None:
        """Output throughput over the sustained windows of the rounds."""
        return Spread.of(part.window.output_tok_s for part in self.rounds if part.window is not None)

    @property
    def output_label(self) -> str:
        """The least sure label of the windows: exact, estimated (tokens per event unknown) or lower bound."""
        labels = {part.window.label for part in self.rounds if part.window is not None}
        return next((label for label in ("lower bound", "estimated") if label in labels), "exact")

    @property
    def achieved_concurrency(self) -> Spread | None:
        return Spread.of(part.achieved_concurrency for part in self.rounds)

    @property
    def requests_per_s(self) -> Spread | None:
        return Spread.of(part.requests_per_s for part in self.rounds)

    @property
    def goodput_per_s(self) -> Spread | None:
        return Spread.of(part.goodput_per_s for part in self.rounds)

    @property
    def goodput_label(self) -> str:
        """What goodput means here: where no check is declared, "not wrong" is dropped and the name says so."""
        return "goodput" if self.group.checked else "goodput (answers not checked)"

    @property
    def peak_in_flight(self) -> int:
        return max((part.peak_in_flight for part in self.rounds), default=0)


def with_scaling(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Each speed stage with throughput at n ways / (n × throughput at 1 way), where exactly one stage of one way compares.

    Answers of a quality workload differ in length, and so do rungs of a ladder: they have no scaling.
    """
    single: dict[tuple[str, ...], list[float]] = {}
    for stage in stages:
        if stage.ways == 1 and stage.workload == "speed" and (spread := stage.makespan_tok_s) is not None:
            single.setdefault(stage.scenarios, []).append(spread.median)

    def scaling(stage: Stage) -> float | None:
        base, own = single.get(stage.scenarios, []), stage.makespan_tok_s
        if stage.workload != "speed" or own is None or not stage.ways or len(base) != 1:
            return None
        return own.median / (stage.ways * base[0])

    return tuple(replace(stage, scaling=scaling(stage)) for stage in stages)
