"""The run on one time axis: requests as bars in lanes, host memory, KV cache and events below; as compact columns for the page.

Times are milliseconds since the first stamp of the run. Columns are JSON lists of small integers: 10,000 requests take 300 KB.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from loadkit.metrics import first_event_ns
from loadkit.record import Outcome, Phase, Record, Sample, Start
from loadkit.run_folder import Run

SAMPLE_POINTS = 2400
"""A curve of more samples is drawn from the lowest and the highest of each slice, so that no dip is lost."""

KINDS = ("completed", "failed", "cancelled", "lost", "warmup")
_GIB = 1 << 30


def columns(run: Run, events: Sequence[tuple[int, str, str]] = ()) -> dict[str, Any]:
    """Everything the timeline draws. `events` are (run clock ns, severity, words) of the host, from the summary."""
    offsets = clock_offsets(run)
    bars = sorted([*(_bar(record, offsets) for record in run.records if record.sent_ns is not None), *_lost(run, offsets)])
    start = _first(run, bars)
    lanes = _lanes(bars)
    return {
        "wall_ms": _wall_ms(run, start),
        "start": [_ms(bar[0] - start) for bar in bars],
        "first": [None if bar[2] is None else _ms(bar[2] - bar[0]) for bar in bars],
        "length": [_ms(bar[1] - bar[0]) for bar in bars],
        "lane": lanes,
        "kind": [KINDS.index(bar[3]) for bar in bars],
        "name": [bar[4] for bar in bars],
        "stages": _stages(run, start),
        "memory": _curve(run.samples, "host", "mem_available_bytes", start, 1 / _GIB),
        "memory_total": max((sample.data.get("mem_total_bytes") or 0 for sample in run.samples), default=0) / _GIB or None,
        "kv": _curve(run.samples, "server", "kv_usage", start, 100),
        "running": _curve(run.samples, "server", "running", start, 1),
        "waiting": _curve(run.samples, "server", "waiting", start, 1),
        "events": [[_ms(at - start), severity, words] for at, severity, words in events],
    }


def clock_offsets(run: Run) -> dict[str, int]:
    """Per worker what its stamps need added to stand on the run's clock (0 on the same host)."""
    return {anchor.worker: anchor.offset_ns for anchor in run.anchors}


Bar = tuple[int, int, int | None, str, str]
"""Begin, end, first token (or None), kind, request id; in run clock ns."""


def _bar(record: Record, offsets: dict[str, int]) -> Bar:
    shift = offsets.get(record.slot.worker, 0)
    begin = (record.sent_ns or record.due_ns) + shift
    ended = record.end_ns or record.closed_ns
    end = begin if ended is None else ended + shift
    first = first_event_ns(record)
    return begin, max(begin, end), None if first is None else first + shift, _kind(record), record.id


def _kind(record: Record) -> str:
    if record.outcome is Outcome.COMPLETED:
        return "completed" if record.slot.phase is Phase.MEASURED else "warmup"
    return "cancelled" if record.outcome in (Outcome.CANCELLED, Outcome.NOT_SENT) else "failed"


def _lost(run: Run, offsets: dict[str, int]) -> list[Bar]:
    """Requests that began and never ended: drawn up to the last sign of life."""
    last = max((beat.at_ns for beat in run.heartbeats), default=max((start.due_ns for start in run.starts), default=0))

    def bar(start: Start) -> Bar:
        due = start.due_ns + offsets.get(start.slot.worker, 0)
        return due, max(due, last), None, "lost", start.id

    return [bar(start) for start in run.lost]


def _first(run: Run, bars: Sequence[Bar]) -> int:
    stamps = [bar[0] for bar in bars[:1]] + [line["at_ns"] for line in run.plan[:1] if isinstance(line.get("at_ns"), int)]
    return min(stamps, default=min((sample.monotonic_ns for sample in run.samples), default=0))


def _wall_ms(run: Run, start: int) -> int | None:
    if not run.anchors:
        return None
    anchor = run.anchors[0]
    return (anchor.wall_ns + start - anchor.monotonic_ns - anchor.offset_ns) // 1_000_000


def _lanes(bars: Sequence[Bar]) -> list[int]:
    """Each bar in the lowest lane that is free when it begins: as many lanes as requests were in flight at once."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    found, opened = [], 0
    for begin, end, *_ in bars:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, opened = opened, opened + 1
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found


def _stages(run: Run, start: int) -> list[list[Any]]:
    """[from ms, to ms or None, name, round, phase] of each stage as it was run."""
    found: list[list[Any]] = []
    for line in run.plan:
        if line.get("kind") == "stage_begin":
            found.append([_ms(line["at_ns"] - start), None, line.get("stage", ""), line.get("round"), line.get("phase")])
        elif line.get("kind") == "stage_end" and found:
            found[-1][1] = _ms(line["at_ns"] - start)
    return found


def _curve(samples: Sequence[Sample], source: str, key: str, start: int, factor: float) -> list[list[float]]:
    """[times ms, values]; empty where the key was never seen."""
    points = [
        (_ms(sample.monotonic_ns - start), round(sample.data[key] * factor, 3))
        for sample in samples
        if sample.source == source and isinstance(sample.data.get(key), int | float)
    ]
    kept = _extremes(points, SAMPLE_POINTS)
    return [[at for at, _ in kept], [value for _, value in kept]] if kept else []


def _extremes(points: list[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """At most `most` points, the lowest and highest of each slice in their order."""
    if len(points) <= most:
        return points
    slices = most // 2
    kept: list[tuple[int, float]] = []
    for number in range(slices):
        piece = points[number * len(points) // slices : (number + 1) * len(points) // slices]
        ends = {min(piece, key=lambda point: point[1]), max(piece, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept


def _ms(value_ns: int) -> int:
    return round(value_ns / 1e6)
