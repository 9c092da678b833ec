"""What is known of the run that goes on: fed by the front as things happen, read by the web tab and the progress line.

One `Live` per master or single process. It holds a bounded number of values whatever the length of the run, knows neither
Locust nor a clock (every call says when), and takes facts of any worker in any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadkit.live.markers import Marker, Watch
from loadkit.live.rows import StageRow, Tally
from loadkit.live.series import Series
from loadkit.metrics import tpot_ns, ttft_ns
from loadkit.plan import Stage
from loadkit.record import AnswerVerdict, Heartbeat, Phase, Record, Slot
from loadkit.statistics import minimum_count, nearest_rank

S = 1_000_000_000
WINDOW_NS = 30 * S
"""Live percentiles are of the requests that ended in the last half minute, or of the last eight where those are fewer."""

STAGES_MARKED = 120
"""The page gets all marks every second, and more of them than this can't be told apart on a chart."""

COLUMNS = (
    "ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "output_per_s", "in_flight", "asked",
    "kv_percent", "hit_percent", "memory_gib",
)  # fmt: skip
_FEWEST = 8
_GIB = 1 << 30


@dataclass(slots=True)
class Progress:
    """Where the run stands."""

    stage: str = ""
    ways: int = 0
    round: int | None = None
    rounds: int | None = None
    phase: str = ""
    done: int = 0
    total: int | None = None
    in_flight: int = 0
    failed: int = 0


@dataclass(slots=True)
class Ended:
    """How the run ended; headline and exit code come from the verdict."""

    headline: str
    exit_code: int
    state: str


@dataclass
class Live:
    """See the module."""

    series: Series = field(
        default_factory=lambda: Series(COLUMNS, merges={"memory_gib": min, "ttft_p95_ms": max, "in_flight": max, "asked": max})
    )
    folder: Path | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    ended_as: Ended | None = None
    begun_ns: int | None = None
    number: int = 0
    levels: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.tally = Tally()
        self._stages: deque[Marker] = deque(maxlen=STAGES_MARKED)
        self._events: list[Marker] = []  # `Watch` gives a limited number
        self.progress, self.ended_as = Progress(), None
        self._watch = Watch()
        self.levels = {}
        self._recent: deque[tuple[int, int | None, float | None, int | None]] = deque(maxlen=512)
        self._tokens = TokenRate()
        self._engines: dict[str, int] = {}
        self._starts_told = False
        self._gauges: dict[str, float] = {}
        self._prefix: deque[tuple[float, float]] = deque(maxlen=60)
        self.series.clear()

    def begin(self, folder: Path | None, *, manifest: Mapping[str, Any], stages: Sequence[Stage] = (), at_ns: int) -> None:
        """A run begins: everything of the one before is forgotten."""
        self._forget()
        self.folder, self.manifest, self.begun_ns = folder, manifest, at_ns
        self.number += 1
        measured = [stage for stage in stages if stage.phase is Phase.MEASURED]
        self.progress.total = sum(len(stage.items) for stage in measured) if stages else None
        self.progress.rounds = max((stage.round for stage in measured), default=None)

    @property
    def markers(self) -> list[Marker]:
        """Stages that began (the last ones: a night has thousands) and what happened to the host, in order of time."""
        return sorted((*self._stages, *self._events), key=lambda marker: marker.at_ns)

    def stage_began(self, stage: Stage, at_ns: int) -> None:
        progress = self.progress
        progress.stage, progress.ways, progress.round, progress.phase = stage.name, stage.ways, stage.round, stage.phase.value
        if stage.phase is Phase.MEASURED:
            self._stages.append(Marker(at_ns, "stage", f"{stage.name} r{stage.round}" if stage.round else stage.name))

    def stage_ended(self, stage: Stage, at_ns: int) -> None:  # noqa: ARG002  the next one's begin says the same
        self.progress.ways = 0

    def started(self, slot: Slot, at_ns: int) -> None:  # noqa: ARG002
        self._starts_told = True
        self.progress.in_flight += 1

    def ended(self, record: Record, verdicts: Iterable[AnswerVerdict] = ()) -> None:
        """A request ended; only measured ones enter figures."""
        progress = self.progress
        progress.in_flight = max(0, progress.in_flight - 1)
        closed = record.closed_ns or record.due_ns
        self._tokens.ended(closed, record.usage.completion_tokens)
        if record.slot.phase is not Phase.MEASURED or record.slot.attempt != 1:
            return
        good = self.tally.add(record, tuple(verdicts))
        progress.done += record.slot.turn == 0
        progress.failed += not good
        self._recent.append((closed, ttft_ns(record), tpot_ns(record), record.usage.completion_tokens))

    def heartbeat(self, beat: Heartbeat) -> None:
        self._tokens.counted(beat)
        self._engines[beat.worker] = beat.in_flight

    def sample(self, sample: Mapping[str, Any]) -> None:
        """A sample of the sidecar as JSON (`record.Sample`)."""
        data, at_ns = sample.get("data") or {}, int(sample.get("monotonic_ns", 0))
        self._events.extend(self._watch.see(str(sample.get("source")), data, at_ns))
        known = {name: data[name] for name in ("mem_available_bytes", "kv_usage") if isinstance(data.get(name), int | float)}
        self._gauges.update(known)
        query, hit = data.get("prefix_query_tokens"), data.get("prefix_hit_tokens")
        if isinstance(query, int | float) and isinstance(hit, int | float):
            self._prefix.append((query, hit))

    def finished(self, headline: str, exit_code: int, state: str, at_ns: int) -> None:  # noqa: ARG002
        self.ended_as = Ended(headline, exit_code, state)
        self.progress.in_flight = 0

    def tick(self, at_ns: int) -> None:
        """Add one point to the series; called about once a second while the run goes on."""
        if self.begun_ns is None or self.ended_as is not None or self._all_done:
            return
        recent = list(self._recent)
        late = [row for row in recent if row[0] >= at_ns - WINDOW_NS]
        rows = late if len(late) >= _FEWEST else recent[-_FEWEST:]
        ttft = sorted(row[1] for row in rows if row[1] is not None)
        tpot = sorted(row[2] for row in rows if row[2] is not None)
        self.series.add((at_ns - self.begun_ns) / S, {
            "ttft_p50_ms": _ms(nearest_rank(ttft, 0.5)) if ttft else None,
            "ttft_p95_ms": _ms(nearest_rank(ttft, 0.95) if len(ttft) >= minimum_count(0.95) else ttft[-1]) if ttft else None,
            "tpot_p50_ms": _ms(nearest_rank(tpot, 0.5)) if tpot else None,
            "output_per_s": self._tokens.rate(at_ns),
            "in_flight": float(self.in_flight),
            "asked": float(self.progress.ways) if self.progress.ways else None,
            "kv_percent": _scaled(self._gauges.get("kv_usage"), 100),
            "hit_percent": self._hit_percent(),
            "memory_gib": self.memory_gib,
        })  # fmt: skip

    @property
    def _all_done(self) -> bool:
        """The plan is done and only the report is being made: nothing more will move."""
        progress = self.progress
        return progress.total is not None and progress.done >= progress.total and not self.in_flight

    @property
    def in_flight(self) -> int:
        """Counted one by one where starts are told, else as the engines' last heartbeats say."""
        return self.progress.in_flight if self._starts_told else sum(self._engines.values())

    @property
    def memory_gib(self) -> float | None:
        """MemAvailable of the server's host, last seen."""
        return _scaled(self._gauges.get("mem_available_bytes"), 1 / _GIB)

    def output_per_s(self, at_ns: int) -> float | None:
        return self._tokens.rate(at_ns)

    def rows(self) -> list[StageRow]:
        return self.tally.rows()

    def _hit_percent(self) -> float | None:
        """Share of prompt tokens that the server found in its prefix cache, over the last minute of samples."""
        if len(self._prefix) < 2:
            return None
        query, hit = self._prefix[-1][0] - self._prefix[0][0], self._prefix[-1][1] - self._prefix[0][1]
        return hit / query * 100 if query > 0 else None


def eta_s(live: Live, at_ns: int) -> float | None:
    """Seconds to go at the pace so far; unknown before the first request has ended, or where no end is planned."""
    progress = live.progress
    if progress.total is None or not progress.done or live.begun_ns is None or live.ended_as is not None:
        return None
    return (at_ns - live.begun_ns) / S * max(0, progress.total - progress.done) / progress.done


class TokenRate:
    """Output tokens per second: counted by the engines where they report it, else by the requests that ended lately."""

    WINDOW_NS = 10 * S

    def __init__(self) -> None:
        self._counted: dict[str, deque[tuple[int, int]]] = {}
        self._ended: deque[tuple[int, int]] = deque(maxlen=4096)

    def counted(self, beat: Heartbeat) -> None:
        if beat.tokens_total is None:
            self._counted.pop(beat.worker, None)
        else:
            self._counted.setdefault(beat.worker, deque(maxlen=8)).append((beat.at_ns, beat.tokens_total))

    def ended(self, at_ns: int, tokens: int | None) -> None:
        if tokens is not None:
            self._ended.append((at_ns, tokens))

    def rate(self, at_ns: int) -> float | None:
        fresh = [beats for beats in self._counted.values() if len(beats) > 1 and at_ns - beats[-1][0] < 4 * S]
        if fresh:
            return sum(map(_slope, fresh))
        if self._counted or not self._ended:
            return 0.0 if self._counted else None
        tokens = sum(count for ended, count in self._ended if ended >= at_ns - self.WINDOW_NS)
        return tokens * S / self.WINDOW_NS


def _slope(beats: deque[tuple[int, int]]) -> float:
    """Tokens per second over the last three heartbeats."""
    recent = list(beats)[-4:]
    span = recent[-1][0] - recent[0][0]
    return (recent[-1][1] - recent[0][1]) * S / span if span > 0 else 0.0


def _ms(value_ns: float) -> float:
    return round(value_ns / 1e6, 3)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else round(value * factor, 3)
