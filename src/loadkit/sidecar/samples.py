"""What a sample may hold: every key of every source with its unit and meaning; the reference page is made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadkit.clock import Clock
from loadkit.record import Sample

KEYS: dict[str, dict[str, str]] = {
    "host": {
        "mem_total_bytes": "MemTotal",
        "mem_available_bytes": "MemAvailable: what can be had without swapping; the figure that the guard looks at",
        "mem_free_bytes": "MemFree; low is normal where files are cached",
        "cached_bytes": "Cached",
        "swap_total_bytes": "SwapTotal",
        "swap_used_bytes": "SwapTotal − SwapFree",
        "psi_memory_some_avg10": "percent of the last 10 s in which some task waited for memory (absent where PSI is off)",
        "psi_memory_full_avg10": "percent of the last 10 s in which all tasks waited for memory",
        "psi_memory_some_total_us": "microseconds since boot, some",
        "psi_memory_full_total_us": "microseconds since boot, full",
        "oom_kill": "/proc/vmstat oom_kill: processes killed since boot, for the host and for any cgroup",
        "cpu_percent": "busy share of all cores since the sample before, 0 to 100",
        "load1": "load average of one minute",
    },
    "kernel": {
        "event": "watching (once: the log is seen) | overrun | one of `kernel_log.KernelEvent.event`",
        "how": "of `watching`: /dev/kmsg or journal",
        "text": "the line as the kernel wrote it",
        "seq": "number of the kernel record",
        "boot_us": "the kernel's own stamp, microseconds since boot",
        "pid": "the process that was killed, or that the line is about",
        "comm": "its name, cut to 15 characters by the kernel",
        "constraint": "CONSTRAINT_NONE: the host is out of memory; CONSTRAINT_MEMCG: a cgroup is at its limit",
        "cgroup": "the victim's cgroup",
        "limit_cgroup": "the cgroup whose limit was hit",
        "global_oom": "true: the host ran out",
        "anon_rss_kb": "the victim's anonymous memory; CUDA memory is not in it",
        "code": "of `xid`: its number",
        "container": "true: the cgroup belongs to the watched container",
    },
    "container": {
        "event": "baseline (once per container: what all later ones are compared with) | docker (an engine event) | gone",
        "id": "full id",
        "name": "name",
        "running": "State.Running",
        "started_at": "State.StartedAt as the engine prints it",
        "pid": "State.Pid on the host",
        "restart_count": "RestartCount",
        "oom_killed": "State.OOMKilled: sticky, late, and true for a mere sibling of a victim; never evidence by itself",
        "health": "State.Health.Status, absent where the image has no health check",
        "exit_code": "State.ExitCode; 137 is SIGKILL from anybody",
        "image": "of `baseline`: image name",
        "image_digest": "of `baseline`: repository digest, or the image id where it was never pulled",
        "labels": "of `baseline`: labels, secrets masked",
        "arguments": "of `baseline`: path and arguments, secrets masked",
        "environment": "of `baseline`: variables of CUDA, VLLM, NCCL, TORCH and the like, secrets masked",
        "restart_policy": "of `baseline`: restart policy's name",
        "memory_limit_bytes": "of `baseline`: HostConfig.Memory, 0 is none",
        "action": "of `docker`: create, start, oom, die, kill, stop, restart, destroy, health_status…",
        "time_ns": "of `docker`: the engine's wall clock",
        "signal": "of `docker` kill: the signal's number",
        "expected": "true: a stop that was announced (`/expect-stop`)",
    },
    "cgroup": {
        "path": "the container's memory cgroup",
        "version": "1 or 2",
        "oom": "v2 memory.events oom, v1 memory.failcnt: times at the limit",
        "oom_kill": "processes of it that were killed",
        "current_bytes": "charged now; CUDA memory is not in it",
        "limit_bytes": "its limit, absent where there is none",
    },
    "gpu": {
        "index": "number of the GPU",
        "name": "its name",
        "utilisation_percent": "share of time with a kernel running",
        "power_w": "watts",
        "temperature_c": "degrees",
        "clock_mhz": "SM clock",
        "throttle": "reasons for a lowered clock, in words",
        "memory_used_bytes": "absent where the driver says Not Supported (GB10): unknown, not 0",
        "process_memory_bytes": "sum over compute processes; absent where the driver does not tell",
        "not_supported": "which of these the driver does not know",
    },
    "server": {
        "event": "identity (at first sight and after a restart)",
        "up": "/metrics or /health was answered",
        "health": "HTTP status of /health",
        "scrape_ms": "how long /metrics took",
        "dialect": "vllm, sglang, llamacpp, trtllm",
        "engines": "engines (data parallel ranks) in the counters",
        "process_start_time_s": "wall time of the server's start, as it says",
        "restarted": "true: the start time or a counter says that it is another process than before",
        "server_seen": "true: the sidecar sees the server's own process; false: a tunnel or forward; absent: unknown",
        "server_pid": "that process",
        "server_how": "how it was found",
        "running": "requests being computed (gauge, maximum over engines)",
        "waiting": "requests queued (gauge, maximum over engines)",
        "kv_usage": "used share of the KV cache, 0 to 1 (gauge, maximum over engines)",
        "prefix_query_tokens": "counter",
        "prefix_hit_tokens": "counter",
        "preemptions": "counter",
        "generation_tokens": "counter",
        "prompt_tokens": "counter",
        "success": "finished requests by reason; those that a client gave up are not in it",
        "spec_drafts": "counter",
        "spec_draft_tokens": "counter",
        "spec_accepted_tokens": "counter",
        "version": "of `identity`: /version",
        "cache_config": "of `identity`: labels of cache_config_info (block size, number of blocks, …)",
        "server_info": "of `identity`: /server_info where it is allowed, secrets masked",
    },
    "guard": {
        "event": "thresholds (once)",
        "level": "ok | warn | stop_new | abort",
        "armed": "whether it acts",
        "action": "closing_streams | stopping | stopped | killing | killed | failed | recovered | not_recovered",
        "reason": "in a sentence; recorded before the action is taken",
        "mem_available_bytes": "at that moment",
        "slope_bytes_per_s": "how fast MemAvailable changes",
        "crossed_ns": "when the reading was taken that led to the abort, monotonic",
        "took_ms": "of stopped and killed: since crossed_ns; of recovered: since the stop",
        "warn_bytes": "threshold",
        "stop_new_bytes": "threshold",
        "abort_bytes": "threshold",
        "container": "the only container that it may stop: name and id of the baseline",
    },
    "services": {
        "at": "start | period | oom | before_stop | recovered | end",
        "failed_units": "system:name and user:name of failed units",
        "victims": "units that lost a process to the OOM killer → their state now",
    },
    "recorder": {
        "event": "started | ended | disk_full | disk_back | rotated",
        "late_ns": "how late the quickest sampler was at worst since the sample before",
        "rss_bytes": "the sidecar's own memory",
        "cpu_ns": "the sidecar's own CPU time since its start",
        "lines": "lines written",
        "unwritten_lines": "lines that wait in memory because the disk is full",
        "lost_lines": "lines that were dropped because memory for them ran out too",
        "memory_locked": "of `started`: own memory is locked",
        "oom_score_adj": "of `started`: own oom_score_adj",
        "settings": "of `started`: what it was asked to watch, secrets left out",
    },
}  # fmt: skip
"""source → key → meaning. A key that is absent from a sample is unknown, never 0."""


class Missing(Exception):
    """A source can't be read now; the message says why, for a person, and `data` what is known all the same."""

    def __init__(self, reason: str, data: dict[str, Any] | None = None):
        super().__init__(reason)
        self.data = {} if data is None else data


@dataclass(frozen=True, slots=True)
class Stamper:
    """Makes samples of this boot, stamped now."""

    clock: Clock
    boot_id: str

    def sample(self, source: str, data: dict[str, Any] | None = None, *, missing: str | None = None) -> Sample:
        return Sample(
            source=source,
            monotonic_ns=self.clock.monotonic_ns(),
            wall_ns=self.clock.wall_ns(),
            boot_id=self.boot_id,
            data={} if data is None else data,
            missing=missing,
        )


def boot_id(proc: Path) -> str:
    """The boot that this host runs; containers see the host's."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()
