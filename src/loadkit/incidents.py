"""What happened to the host, the container and the server, in words: samples in, incidents out, each told apart from its likes.

Exit code 137 is SIGKILL from anybody. `OOMKilled` is sticky (it stays true over restarts), late (false while PID 1 lives) and
also true for a container whose sibling under one limited parent was the victim. /proc/vmstat counts victims of the host and of
every cgroup alike. So one source alone names nothing: here they are put side by side by time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from loadkit.record import Sample

NEAR_NS = 5_000_000_000  # evidence of one incident reaches the sources within this time of each other
LOW_BYTES = 4 << 30
PRESSURE = 10.0
OOM_EVENTS = frozenset(("oom_kill", "memcg_kill"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One thing that happened. `grave` ones say that the host was not stable; the others are to be known.

    `kind` is one of
        grave   global_oom, cgroup_oom, child_oom, other_oom, oom_unnamed, killed_without_oom, killed_unexplained,
                container_died, container_restarted, restart_loop, container_replaced, container_gone, server_restarted,
                reboot, xid, userspace_kill, guard_abort
        others  false_oom_flag, old_oom_flag, nv_err_no_memory, low_memory, memory_pressure, hung_task, expected_stop
    """

    kind: str
    words: str
    at_ns: int
    wall_ns: int
    grave: bool


def find(samples: Sequence[Sample]) -> tuple[Incident, ...]:
    """All incidents of a span of samples, in order of time. The first sample of each source is what later ones compare with."""
    ordered = sorted(samples, key=lambda sample: sample.monotonic_ns)
    story = _Story(ordered)
    found = [
        *_reboots(ordered),
        *_kernel(story),
        *_unnamed(story),
        *_container(story),
        *_flags(story),
        *_server(ordered),
        *_memory(ordered),
        *_guard(ordered),
    ]
    return tuple(sorted(found, key=lambda incident: incident.at_ns))


class _Story:
    """The samples by source, and the questions that several readers ask of them."""

    def __init__(self, ordered: Sequence[Sample]):
        self.host = [one for one in ordered if one.source == "host" and _is_count(one.data.get("oom_kill"))]
        self.kernel = [one for one in ordered if one.source == "kernel" and "event" in one.data]
        self.cgroup = [one for one in ordered if one.source == "cgroup" and _is_count(one.data.get("oom_kill"))]
        containers = [one for one in ordered if one.source == "container"]
        self.engine = [one for one in containers if one.data.get("event") == "docker" and "action" in one.data]
        self.states = [one for one in containers if _is_state(one.data) and one.data.get("event") != "baseline"]
        self.log_seen = any(one.data.get("event") == "watching" for one in self.kernel)

    def kills(self) -> list[tuple[Sample, Sample | None]]:
        """Each "Killed process" line with the constraint line of the same victim."""
        constraints = [one for one in self.kernel if one.data["event"] == "oom_constraint"]
        return [
            (kill, next((one for one in reversed(constraints) if one.data.get("pid") == kill.data.get("pid")), None))
            for kill in self.kernel
            if kill.data["event"] in OOM_EVENTS
        ]

    def is_ours(self, constraint: Sample | None) -> bool:
        """Whether the victim was in the watched container."""
        if constraint is None:
            return False
        cgroup = str(constraint.data.get("cgroup", ""))
        return any(one.data["id"] in cgroup for one in self.states)

    def pids(self) -> set[int]:
        """Every PID 1 that the container had."""
        return {one.data["pid"] for one in self.states if one.data.get("pid")}

    def own_kills(self, at_ns: int) -> bool:
        """Whether a process of the container itself was killed for memory around this time, by any source that can tell."""
        named = any(self.is_ours(constraint) and _near(kill, at_ns) for kill, constraint in self.kills())
        counted = any(
            rise.data["oom_kill"] > before.data["oom_kill"] and _near(rise, at_ns) for before, rise in _pairs(self.cgroup)
        )
        return named or counted

    def host_kills(self, at_ns: int) -> bool:
        return any(rise.data["oom_kill"] > before.data["oom_kill"] and _near(rise, at_ns) for before, rise in _pairs(self.host))

    def engine_said(self, action: str, at_ns: int) -> Sample | None:
        return next((one for one in self.engine if one.data["action"] == action and _near(one, at_ns)), None)


def _incident(kind: str, words: str, sample: Sample, *, grave: bool = True) -> Incident:
    return Incident(kind=kind, words=words, at_ns=sample.monotonic_ns, wall_ns=sample.wall_ns, grave=grave)


def _reboots(ordered: Sequence[Sample]) -> Iterator[Incident]:
    for before, now in _pairs(sorted(ordered, key=lambda sample: sample.wall_ns)):
        if before.boot_id != now.boot_id:
            yield _incident("reboot", "the host was started anew (another boot id)", now)


def _kernel(story: _Story) -> Iterator[Incident]:
    whole_host: list[tuple[Sample, Sample | None]] = []
    for kill, constraint in story.kills():
        if kill.data["event"] == "oom_kill":
            if whole_host and kill.monotonic_ns - whole_host[-1][0].monotonic_ns > NEAR_NS:
                yield _global(whole_host)
                whole_host = []
            whole_host.append((kill, constraint))
        else:
            yield _cgroup_kill(story, kill, constraint)
    if whole_host:
        yield _global(whole_host)
    for sample in story.kernel:
        yield from _other_lines(sample)


def _global(kills: list[tuple[Sample, Sample | None]]) -> Incident:
    names = ", ".join(dict.fromkeys(str(kill.data.get("comm", "?")) for kill, _ in kills))
    return _incident(
        "global_oom", f"the host ran out of memory: the kernel killed {len(kills)} process(es) ({names})", kills[0][0]
    )


def _cgroup_kill(story: _Story, kill: Sample, constraint: Sample | None) -> Incident:
    who = f"{kill.data.get('comm', '?')} (pid {kill.data.get('pid', '?')})"
    if not (kill.data.get("container") or story.is_ours(constraint)):
        where = "" if constraint is None else f" {constraint.data.get('cgroup', '')}"
        return _incident("other_oom", f"another cgroup{where} is over its own limit: the kernel killed {who}", kill)
    if kill.data.get("pid") in story.pids():
        return _incident("cgroup_oom", f"the container is over its memory limit: the kernel killed its PID 1, {who}", kill)
    died = story.engine_said("die", kill.monotonic_ns)
    if died is None:
        return _incident("child_oom", f"a child in the container was killed for memory while PID 1 lives: {who}", kill)
    return _incident("cgroup_oom", f"the container is over its memory limit: the kernel killed {who}, and it ended", kill)


def _other_lines(sample: Sample) -> Iterator[Incident]:
    data, event = sample.data, sample.data["event"]
    if event == "xid":
        yield _incident("xid", f"the GPU reported Xid {data.get('code')}", sample)
    elif event == "nv_err_no_memory":
        yield _incident("nv_err_no_memory", "the GPU driver could not allocate (no verdict by itself)", sample, grave=False)
    elif event == "userspace_kill":
        who = data.get("comm") or data.get("cgroup") or "a process"
        yield _incident("userspace_kill", f"a watchdog in user space killed {who}, not the kernel", sample)
    elif event == "hung_task":
        yield _incident("hung_task", f"task {data.get('comm')} was blocked for minutes", sample, grave=False)


def _unnamed(story: _Story) -> Iterator[Incident]:
    """A rise of the counter that no kernel line explains."""
    kills = [kill for kill, _ in story.kills()]
    for before, now in _pairs(story.host):
        rise = now.data["oom_kill"] - before.data["oom_kill"]
        if rise <= 0 or any(_near(kill, now.monotonic_ns) for kill in kills):
            continue
        why = "no line of the kernel log names the victim" if story.log_seen else "the kernel log is not seen"
        if story.own_kills(now.monotonic_ns):
            yield _incident("cgroup_oom", f"oom_kill +{rise}: a process of the container was killed ({why})", now)
        else:
            yield _incident("oom_unnamed", f"oom_kill +{rise}: the kernel killed {rise} process(es) for memory ({why})", now)


def _container(story: _Story) -> Iterator[Incident]:
    deaths = [one for one in story.engine if one.data["action"] == "die"]
    for death in deaths:
        yield _death(story, death)
    counts = [one.data["restart_count"] for one in story.states if _is_count(one.data.get("restart_count"))]
    restarts = counts[-1] - counts[0] if counts else 0
    if restarts >= 2:
        words = f"a restart loop: the container was started {restarts} times by its restart policy"
        yield _incident("restart_loop", words, story.states[-1])
    for before, now in _pairs(story.states):
        yield from _change(story, before, now, loop=restarts >= 2)


def _death(story: _Story, death: Sample) -> Incident:
    code, at_ns = death.data.get("exit_code"), death.monotonic_ns
    if death.data.get("expected"):
        return _incident("expected_stop", f"the container ended (exit code {code}), as announced", death, grave=False)
    if story.own_kills(at_ns) or (story.engine_said("oom", at_ns) and story.host_kills(at_ns)):
        return _incident("container_died", f"the container died of memory (exit code {code})", death)
    kill = story.engine_said("kill", at_ns)
    if kill is not None:
        signal = kill.data.get("signal", "?")
        words = f"the container was killed by order (signal {signal}, exit code {code}), not for memory"
        return _incident("killed_without_oom", words, death)
    if code == 137:
        return _incident("killed_unexplained", "exit code 137: somebody sent SIGKILL; no sign of memory", death)
    return _incident("container_died", f"the container ended by itself (exit code {code})", death)


def _change(story: _Story, before: Sample, now: Sample, *, loop: bool) -> Iterator[Incident]:
    old, new = before.data, now.data
    if new["id"] != old["id"]:
        yield _incident("container_replaced", f"another container runs under the name {new.get('name')}", now)
    elif new.get("running") and new.get("started_at") != old.get("started_at") and not loop:
        yield _incident("container_restarted", f"the container was started anew at {new.get('started_at')}", now)
    elif old["running"] and not new["running"] and story.engine_said("die", now.monotonic_ns) is None:
        code = new.get("exit_code")
        yield _incident("container_gone", f"the container does not run any more (exit code {code})", now)


def _flags(story: _Story) -> Iterator[Incident]:
    """OOMKilled that is old, or that no victim of this container explains."""
    if not story.states:
        return
    first = story.states[0]
    if first.data.get("oom_killed"):
        yield _incident("old_oom_flag", "OOMKilled was true before: it is sticky, and no evidence", first, grave=False)
        return
    flagged = next((one for one in story.states if one.data.get("oom_killed")), None)
    if flagged is None:
        return
    begin = first.monotonic_ns
    own = any(story.is_ours(constraint) for _, constraint in story.kills()) or any(
        now.data["oom_kill"] > before.data["oom_kill"] for before, now in _pairs(story.cgroup) if now.monotonic_ns >= begin
    )
    counted = [rise for before, rise in _pairs(story.host) if rise.data["oom_kill"] > before.data["oom_kill"]]
    if not own and (story.log_seen or not counted):
        words = "OOMKilled is true, but no process of this container was killed: a sibling under the same limit was"
        yield _incident("false_oom_flag", words, flagged, grave=False)


def _server(ordered: Sequence[Sample]) -> Iterator[Incident]:
    for sample in ordered:
        if sample.source == "server" and sample.data.get("restarted"):
            yield _incident("server_restarted", "the server is another process than before (start time or counters)", sample)


def _memory(ordered: Sequence[Sample]) -> Iterator[Incident]:
    """The begin of each stretch of low memory and of pressure."""
    host = [one for one in ordered if one.source == "host" and _is_count(one.data.get("mem_available_bytes"))]
    for before, now in _pairs([None, *host]):
        low, was_low = _is_low(now), before is not None and _is_low(before)
        if low and not was_low:
            gib = now.data["mem_available_bytes"] / (1 << 30)
            yield _incident("low_memory", f"MemAvailable fell below 4 GiB ({gib:.2f} GiB)", now, grave=False)
        full, was_full = _presses(now), before is not None and _presses(before)
        if full and not was_full:
            words = f"all tasks waited for memory (PSI full avg10 {now.data['psi_memory_full_avg10']:g})"
            yield _incident("memory_pressure", words, now, grave=False)


def _guard(ordered: Sequence[Sample]) -> Iterator[Incident]:
    for sample in ordered:
        data = sample.data
        if sample.source == "guard" and data.get("level") == "abort" and data.get("armed") and "action" not in data:
            yield _incident("guard_abort", f"the guard stopped the run: {data.get('reason', '')}", sample)


def _is_low(sample: Sample) -> bool:
    return bool(sample.data["mem_available_bytes"] < LOW_BYTES)


def _presses(sample: Sample) -> bool:
    full = sample.data.get("psi_memory_full_avg10")
    return isinstance(full, (int, float)) and full > PRESSURE


def _is_count(value: Any) -> bool:
    """A damaged file may hold anything: a report must not stumble over it."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_state(data: dict[str, Any]) -> bool:
    return isinstance(data.get("id"), str) and isinstance(data.get("running"), bool)


def _near(sample: Sample, at_ns: int) -> bool:
    return abs(sample.monotonic_ns - at_ns) <= NEAR_NS


def _pairs(samples: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return pairwise(samples)
