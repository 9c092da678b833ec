"""The host axis: what the sidecar's samples say about the time in which requests were in flight.

Rules as in the method (host rules): neither a healthy container nor right answers are evidence of a stable host, and missing
evidence is `unverified`, never a pass.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loadkit import incidents
from loadkit.incidents import Incident
from loadkit.record import Sample
from loadkit.run_folder import Run
from loadkit.summary.host_events import AFTERMATH_NS, GAP_NS, HostEvent, host_events
from loadkit.summary.judged import HostState, Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The axis of a run. `reasons` are short phrases for the headline; `notes` belong to a stable host too.

    `told` says in words what the sources say together (who was killed, by whom, why). `mem_available_min_bytes` is the lowest
    during the run, at `mem_available_min_wall_ns`. `guard_abort` holds the guard's reason if it ended the run.
    """

    state: HostState
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    events: tuple[HostEvent, ...] = ()
    told: tuple[Incident, ...] = ()
    samples: int = 0
    kernel_log_seen: bool = False
    mem_available_min_bytes: int | None = None
    mem_available_min_wall_ns: int | None = None
    guard_abort: str | None = None


def judge_host(run: Run, requests: Sequence[Judged]) -> tuple[Host, tuple[Judged, ...]]:
    """The host axis of the run, and the requests with theirs: each event is charged to every request in flight."""
    begin, end = span_of(run, requests)
    around = sorted(run.samples, key=lambda sample: sample.monotonic_ns)
    flights = [(request.record.id, *_flight(request, end)) for request in requests]
    found = [] if begin is None or end is None else list(host_events(around, run.heartbeats, begin, end))
    events = tuple(_charged(event, flights) for event in sorted(found, key=lambda event: (event.to_ns, event.rule)))
    host = _axis(around, events, begin, end)
    return host, tuple(_with_host(requests, flights, events, host, around))


def span_of(run: Run, requests: Sequence[Judged]) -> tuple[int | None, int | None]:
    """First moment that a request was due or sent, and the last that one was in flight (ns of the run's clock)."""
    starts = [request.record.sent_ns or request.record.due_ns for request in requests]
    ends = [end for request in requests if (end := request.record.closed_ns or request.record.end_ns) is not None]
    if any(request.record.outcome == "in_flight_lost" for request in requests):
        ends += [beat.at_ns for beat in run.heartbeats] or [start for start in starts if start is not None]
    return min(starts, default=None), max(ends, default=None)


def _axis(samples: Sequence[Sample], events: tuple[HostEvent, ...], begin: int | None, end: int | None) -> Host:
    lowest = min(
        (s for s in samples if _during(s, begin, end) and s.data.get("mem_available_bytes") is not None),
        key=lambda sample: sample.data["mem_available_bytes"],
        default=None,
    )
    kernel_seen = any(sample.source == "kernel" and sample.missing is None for sample in samples)
    guard = next(
        (s for s in samples if s.source == "guard" and s.data.get("level") == "abort" and s.data.get("armed", True)), None
    )
    missing = _missing_evidence(samples, begin, end)
    unstable = [event for event in events if event.state == "unstable"]
    suspect = [event for event in events if event.state == "suspect"]
    gaps = [event.text for event in events if event.state == "unverified"]
    if unstable:
        state: HostState = "unstable"
        reasons = [event.text for event in unstable]
    elif missing or gaps:
        state, reasons = "unverified", [*missing, *gaps]
    elif suspect:
        state, reasons = "suspect", [event.text for event in suspect]
    else:
        state, reasons = "stable", []
    return Host(
        state=state,
        reasons=tuple(dict.fromkeys(reasons)),
        notes=() if kernel_seen or not samples else ("kernel log not seen",),
        events=events,
        told=incidents.find([sample for sample in samples if _during(sample, begin, end)]),
        samples=len(samples),
        kernel_log_seen=kernel_seen,
        mem_available_min_bytes=None if lowest is None else lowest.data["mem_available_bytes"],
        mem_available_min_wall_ns=None if lowest is None else lowest.wall_ns,
        guard_abort=None if guard is None else str(guard.data.get("reason") or "guard aborted the run"),
    )


def _missing_evidence(samples: Sequence[Sample], begin: int | None, end: int | None) -> list[str]:
    """What a stable host needs and is not there: the sidecar, the server's own process, oom_kill, boot id."""
    if begin is None:
        return ["no request in flight"]
    during = [sample for sample in samples if _during(sample, begin, end)]
    if not during:
        return ["no sidecar"]
    seen = [sample.data["server_seen"] for sample in samples if sample.data.get("server_seen") is not None]
    found = []
    if any(value is False for value in seen):
        found.append("server not on this host")
    elif not seen:
        found.append("server's process not seen")
    if not any(sample.data.get("oom_kill") is not None for sample in during if sample.source == "host"):
        found.append("no oom_kill counter")
    if not all(sample.boot_id for sample in during):
        found.append("no boot id")
    return found


def _during(sample: Sample, begin: int | None, end: int | None) -> bool:
    return begin is not None and end is not None and begin - GAP_NS <= sample.monotonic_ns <= end + AFTERMATH_NS


def _flight(request: Judged, end: int | None) -> tuple[int, int] | tuple[None, None]:
    record = request.record
    start = record.sent_ns if record.outcome != "in_flight_lost" else record.due_ns
    if start is None:
        return None, None
    stop = record.closed_ns or record.end_ns
    return start, stop if stop is not None else max(end or start, start)


def _charged(event: HostEvent, flights: Sequence[tuple[Any, ...]]) -> HostEvent:
    return replace(
        event,
        charged=tuple(
            id_ for id_, start, stop in flights if start is not None and start <= event.to_ns and stop >= event.from_ns
        ),
    )


_WORST: dict[HostState, int] = {"stable": 0, "suspect": 1, "unverified": 2, "unstable": 3}


def _with_host(
    requests: Sequence[Judged],
    flights: Sequence[tuple[Any, ...]],
    events: Sequence[HostEvent],
    host: Host,
    samples: Sequence[Sample],
) -> Iterator[Judged]:
    memory = [sample for sample in samples if sample.data.get("mem_available_bytes") is not None]
    times = [sample.monotonic_ns for sample in memory]
    charges: dict[str, HostState] = {}
    for event in events:
        for id_ in event.charged:
            charges[id_] = max(charges.get(id_, "stable"), event.state, key=_WORST.__getitem__)
    unproven = any(reason in _NO_EVIDENCE for reason in host.reasons) or not samples
    for request, (id_, start, stop) in zip(requests, flights, strict=True):
        state = charges.get(id_, "stable")
        if state != "unstable" and (unproven or start is None):
            state = "unverified"
        lowest = None
        if start is not None:
            span = memory[max(bisect_left(times, start) - 1, 0) : bisect_right(times, stop) + 1]
            lowest = min((sample.data["mem_available_bytes"] for sample in span), default=None)
        yield replace(request, host=state, mem_available_min_bytes=lowest)


_NO_EVIDENCE = (
    "no request in flight",
    "no sidecar",
    "server not on this host",
    "server's process not seen",
    "no oom_kill counter",
    "no boot id",
)
