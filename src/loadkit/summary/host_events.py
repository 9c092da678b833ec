"""Events on the server's host, found in the sidecar's samples: what happened, between which two samples, how grave it is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from loadkit import incidents
from loadkit.metrics import NS_PER_S
from loadkit.record import Heartbeat, Sample
from loadkit.summary.judged import HostState

GAP_NS = 5 * NS_PER_S
LOW_MEMORY_BYTES = 4 << 30
PSI_FULL_AVG10 = 10.0
AFTERMATH_NS = 5 * NS_PER_S
"""Events this long after the last request still belong to the run: counters are sampled, and the kernel kills late."""
_ASKED_STOP_NS = 30 * NS_PER_S
_KILLS = ("oom_kill", "memcg_kill")
_UNKNOWN = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvent:
    """Something that happened to the host between `from_ns` and `to_ns` (run clock). `charged`: ids of requests in flight."""

    state: HostState
    rule: str
    text: str
    from_ns: int
    to_ns: int
    wall_ns: int
    charged: tuple[str, ...] = ()


def host_events(samples: Sequence[Sample], heartbeats: Sequence[Heartbeat], begin: int, end: int) -> Iterator[HostEvent]:
    """Every event that touches [begin, end + aftermath]; the samples before `begin` are the baseline."""
    by_source = {source: [s for s in samples if s.source == source and s.missing is None] for source in _SOURCES}
    told = incidents.find([sample for sample in samples if begin - GAP_NS <= sample.monotonic_ns <= end + AFTERMATH_NS])
    stops = [*_guard_stops(by_source["guard"]), *_announced(by_source["container"])]
    sibling = any(one.kind == "false_oom_flag" for one in told)  # OOMKilled is set, but no process of this container was killed
    candidates = [
        *_rises(by_source["host"], "oom_kill", "oom_kill +{n}"),
        *_rises(by_source["cgroup"], "oom_kill", "cgroup oom_kill +{n}", apart="path"),
        *_kernel(by_source["kernel"], stops),
        *_container(by_source["container"], stops, ignored="oom_killed" if sibling else ""),
        *_changes(by_source["server"], "process_start_time_s", "server restarted"),
        *_boots(samples),
        *_silences(samples, heartbeats, begin, end),
        *_episodes(
            by_source["host"], "mem_available_bytes", lambda value: value < LOW_MEMORY_BYTES, "MemAvailable below 4 GiB"
        ),
        *_episodes(by_source["host"], "psi_memory_full_avg10", lambda v: v > PSI_FULL_AVG10, "memory PSI full above 10"),
    ]
    return (event for event in candidates if event.to_ns >= begin and event.from_ns <= end + AFTERMATH_NS)


def _guard_stops(samples: Iterable[Sample]) -> list[int]:
    return [one.monotonic_ns for one in samples if one.data.get("action") in ("stopping", "stopped", "killing")]


def _announced(samples: Iterable[Sample]) -> list[int]:
    """Stops of the container that somebody asked the sidecar to expect."""
    return [one.monotonic_ns for one in samples if one.data.get("expected")]


_SOURCES = ("host", "kernel", "container", "cgroup", "server", "guard")


def _event(state: HostState, rule: str, text: str, before: Sample, after: Sample) -> HostEvent:
    return HostEvent(
        state=state, rule=rule, text=text, from_ns=before.monotonic_ns, to_ns=after.monotonic_ns, wall_ns=after.wall_ns
    )


def _rises(samples: Iterable[Sample], key: str, words: str, *, apart: str = "") -> Iterator[HostEvent]:
    """A counter that rose between two samples of one thing (told apart by the key `apart`)."""
    last: dict[Any, Sample] = {}
    for sample in samples:
        value = sample.data.get(key)
        if value is None:
            continue
        which = sample.data.get(apart) if apart else None
        before = last.get(which)
        if before is not None and value > before.data[key] and before.boot_id == sample.boot_id:
            text = words.format(n=value - before.data[key])
            yield _event("unstable", key, text if which is None else f"{text} ({which})", before, sample)
        last[which] = sample


def _changes(samples: Iterable[Sample], key: str, words: str) -> Iterator[HostEvent]:
    """A value that must stay what it was."""
    before: Sample | None = None
    for sample in samples:
        value = sample.data.get(key, _UNKNOWN)
        if value is _UNKNOWN or value is None:
            continue
        if before is not None and value != before.data[key]:
            yield _event("unstable", key, words, before, sample)
        before = sample


def _kernel(samples: Iterable[Sample], stops: Sequence[int]) -> Iterator[HostEvent]:
    """Killed processes and GPU faults; driver allocation failures alone are only suspect."""
    for sample in samples:
        event, data = sample.data.get("event"), sample.data
        if event in _KILLS:
            where = "in a cgroup" if event == "memcg_kill" else "by the host"
            text = f"kernel killed {data.get('comm') or 'a process'} (pid {data.get('pid')}) {where}"
            yield _event("unstable", "killed process", text, sample, sample)
        elif event == "userspace_kill":
            yield _event("unstable", "killed process", f"user space killed {data.get('comm') or 'a process'}", sample, sample)
        elif event == "xid" and not _asked_for(sample, stops):
            yield _event("unstable", "xid", f"GPU fault: {data.get('text', 'Xid')}"[:120], sample, sample)
        elif event == "nv_err_no_memory":
            yield _event("suspect", "nv_err_no_memory", "NVIDIA driver: NV_ERR_NO_MEMORY", sample, sample)


def _asked_for(sample: Sample, stops: Sequence[int]) -> bool:
    """Around a stop that we asked for, a container ends and its GPU channel may complain."""
    return any(abs(stop - sample.monotonic_ns) <= _ASKED_STOP_NS for stop in stops)


def _container(samples: Iterable[Sample], stops: Sequence[int], *, ignored: str) -> Iterator[HostEvent]:
    """OOMKilled, restarted, gone, or another process than before: one event for each change. Exit code 137 proves nothing."""
    last: dict[Any, Sample] = {}
    for sample in samples:
        if sample.data.get("event") == "docker" or "running" not in sample.data:
            continue
        name = sample.data.get("name") or sample.data.get("id")
        before, last[name] = last.get(name), sample
        if before is None or _asked_for(sample, stops):
            continue
        words = next((text for key, text in _CONTAINER_RULES if key != ignored and _worse(key, before, sample)), None)
        if words is not None:
            old, new = before.data, sample.data
            text = words.format(restarts=f"{old.get('restart_count')} → {new.get('restart_count')}")
            yield _event("unstable", "container", f"container {name} {text}", before, sample)


def _worse(key: str, before: Sample, after: Sample) -> bool:
    """Whether this part of the state changed for the worse: a flag may also be taken back, and a container come up."""
    old, new = before.data.get(key), after.data.get(key)
    if old is None or new is None or old == new:
        return False
    return not (key == "oom_killed" and not new) and not (key == "running" and new)


_CONTAINER_RULES = (
    ("oom_killed", "was OOM-killed"),
    ("running", "stopped running"),
    ("id", "was replaced"),
    ("restart_count", "restarted ({restarts})"),
    ("started_at", "was started again"),
    ("pid", "has another process"),
)


def _boots(samples: Sequence[Sample]) -> Iterator[HostEvent]:
    for before, after in pairwise(samples):
        if before.boot_id and after.boot_id and before.boot_id != after.boot_id:
            yield _event("unstable", "boot id", "host rebooted", before, after)


def _silences(samples: Sequence[Sample], heartbeats: Sequence[Heartbeat], begin: int, end: int) -> Iterator[HostEvent]:
    """Gaps in all samples: unstable where the engine was silent too, else the sidecar's own failure (unverified)."""
    if not samples:
        return
    beats = sorted(beat.at_ns for beat in heartbeats)
    inside = [sample for sample in samples if begin - GAP_NS <= sample.monotonic_ns <= end + GAP_NS]
    edge_begin = replace(samples[0], monotonic_ns=begin, wall_ns=samples[0].wall_ns - samples[0].monotonic_ns + begin)
    edge_end = replace(samples[-1], monotonic_ns=end, wall_ns=samples[-1].wall_ns - samples[-1].monotonic_ns + end)
    line = [edge_begin, *(sample for sample in inside if begin < sample.monotonic_ns < end), edge_end]
    if not any(sample.monotonic_ns <= begin for sample in inside):
        first = next((sample for sample in samples if sample.monotonic_ns > begin), None)
        line = [edge_begin, *([first] if first else []), *line[1:]]
    for before, after in pairwise(sorted(line, key=lambda sample: sample.monotonic_ns)):
        gap = after.monotonic_ns - before.monotonic_ns
        if gap <= GAP_NS:
            continue
        both = _silent(beats, before.monotonic_ns, after.monotonic_ns)
        state: HostState = "unstable" if both else "unverified"
        words = (
            f"no sample and no heartbeat for {gap / NS_PER_S:.0f} s"
            if both
            else f"no sample for {gap / NS_PER_S:.0f} s (sidecar)"
        )
        yield _event(state, "gap", words, before, after)


def _silent(beats: Sequence[int], begin: int, end: int) -> bool:
    """Whether the heartbeats show a gap of their own that overlaps (begin, end) by more than 5 s."""
    if not beats:
        return False
    near = beats[max(bisect_left(beats, begin) - 1, 0) : bisect_right(beats, end) + 1]
    return any(min(after, end) - max(before, begin) > GAP_NS for before, after in pairwise(near))


def _episodes(samples: Iterable[Sample], key: str, bad: Any, words: str) -> Iterator[HostEvent]:
    """Neighbouring samples with a bad value are one event."""
    first: Sample | None = None
    last: Sample | None = None
    for sample in samples:
        value = sample.data.get(key)
        if value is not None and bad(value):
            first, last = first or sample, sample
        elif value is not None and first is not None and last is not None:
            yield _event("suspect", key, words, first, last)
            first = last = None
    if first is not None and last is not None:
        yield _event("suspect", key, words, first, last)
