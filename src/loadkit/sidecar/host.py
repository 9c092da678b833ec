"""The host's memory, pressure, swap, CPU and OOM counter (Documentation/filesystems/proc.rst, accounting/psi.rst)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from loadkit.clock import Clock, SystemClock
from loadkit.sidecar.samples import Missing

_MEMINFO = re.compile(rb"^(MemTotal|MemFree|MemAvailable|Cached|SwapTotal|SwapFree): +([0-9]+)", re.MULTILINE)
_NAMES = {
    b"MemTotal": "mem_total_bytes",
    b"MemAvailable": "mem_available_bytes",
    b"MemFree": "mem_free_bytes",
    b"Cached": "cached_bytes",
    b"SwapTotal": "swap_total_bytes",
}
SELDOM_NS = 950_000_000  # CPU and load: /proc/stat sums up every interrupt of every core


class Host:
    """Reads the files anew at each look; CPU share and load once a second, the share since it was read last."""

    source = "host"

    def __init__(self, proc: Path = Path("/proc"), *, clock: Clock | None = None):
        self._proc = str(proc)
        self._clock = SystemClock() if clock is None else clock
        self._cpu: tuple[int, int] | None = None
        self._seldom_ns = 0

    def look(self) -> list[dict[str, Any]]:
        try:
            data: dict[str, Any] = memory(self._read("meminfo"))
        except OSError as problem:
            raise Missing(f"{self._proc}/meminfo: {problem.strerror}") from problem
        if "mem_available_bytes" not in data:
            raise Missing(f"{self._proc}/meminfo has no MemAvailable")
        with suppress(OSError):
            data |= pressure(self._read("pressure/memory"))  # absent with psi=0
        with suppress(OSError):
            data |= oom_kills(self._read("vmstat"))
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._seldom_ns >= SELDOM_NS:
            self._seldom_ns = now_ns
            with suppress(OSError):
                data |= self._cpu_share() | {"load1": float(self._read("loadavg").split()[0])}
        return [data]

    def _cpu_share(self) -> dict[str, float]:
        now = cpu_times(self._read("stat"))
        before, self._cpu = self._cpu, now
        if now is None or before is None or now[1] <= before[1]:
            return {}
        return {"cpu_percent": round(100 * (now[0] - before[0]) / (now[1] - before[1]), 1)}

    def _read(self, name: str) -> bytes:
        """One open, one read, one close: a file object costs as much as what it reads."""
        file = os.open(f"{self._proc}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, 65536)
        finally:
            os.close(file)


def memory(meminfo: bytes) -> dict[str, int]:
    """The figures of /proc/meminfo in bytes (the file's kB are KiB)."""
    found = {name: int(number) * 1024 for name, number in _MEMINFO.findall(meminfo)}
    named = {_NAMES[name]: size for name, size in found.items() if name in _NAMES}
    if b"SwapFree" in found and b"SwapTotal" in found:
        named["swap_used_bytes"] = found[b"SwapTotal"] - found[b"SwapFree"]
    return named


def pressure(psi: bytes) -> dict[str, float | int]:
    """The lines `some avg10=0.00 … total=0` and `full …` of /proc/pressure/memory."""
    found: dict[str, float | int] = {}
    for line in psi.splitlines():
        kind, *fields = line.split()
        values = dict(field.split(b"=", 1) for field in fields)
        found[f"psi_memory_{kind.decode()}_avg10"] = float(values[b"avg10"])
        found[f"psi_memory_{kind.decode()}_total_us"] = int(values[b"total"])
    return found


def oom_kills(vmstat: bytes) -> dict[str, int]:
    """`oom_kill` of /proc/vmstat (Linux 4.13 on); it counts victims of the host and of every cgroup alike."""
    begin = vmstat.find(b"\noom_kill ")
    if begin < 0:
        return {}
    return {"oom_kill": int(vmstat[begin + 10 :].split(b"\n", 1)[0])}


def cpu_times(stat: bytes) -> tuple[int, int] | None:
    """Busy and all ticks of all cores; waiting for a disk counts as idle."""
    first = stat.split(b"\n", 1)[0].split()
    if len(first) < 6 or first[0] != b"cpu":
        return None
    ticks = [int(tick) for tick in first[1:9]]  # guest time is in user time already
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
