"""The host's memory, pressure, swap, CPU and OOM counter (Documentation/filesystems/proc.rst, accounting/psi.rst)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loadkit.sidecar.samples import Missing

_MEMINFO = {
    b"MemTotal": "mem_total_bytes",
    b"MemAvailable": "mem_available_bytes",
    b"MemFree": "mem_free_bytes",
    b"Cached": "cached_bytes",
    b"SwapTotal": "swap_total_bytes",
}


class Host:
    """Reads the files anew at each look; the CPU share is since the look before."""

    source = "host"

    def __init__(self, proc: Path = Path("/proc")):
        self._proc = proc
        self._cpu: tuple[int, int] | None = None

    def look(self) -> list[dict[str, Any]]:
        data: dict[str, Any] = memory(self._read("meminfo"))
        if "mem_available_bytes" not in data:
            raise Missing(f"{self._proc}/meminfo has no MemAvailable")
        pressure_file = self._optional("pressure/memory")  # absent with psi=0
        if pressure_file is not None:
            data |= pressure(pressure_file)
        data |= oom_kills(self._optional("vmstat") or b"")
        data |= self._cpu_share()
        load = self._optional("loadavg")
        if load:
            data["load1"] = float(load.split()[0])
        return [data]

    def _cpu_share(self) -> dict[str, float]:
        now = cpu_times(self._optional("stat") or b"")
        before, self._cpu = self._cpu, now
        if now is None or before is None or now[1] <= before[1]:
            return {}
        return {"cpu_percent": round(100 * (now[0] - before[0]) / (now[1] - before[1]), 1)}

    def _read(self, name: str) -> bytes:
        try:
            return (self._proc / name).read_bytes()
        except OSError as problem:
            raise Missing(f"{self._proc / name}: {problem.strerror}") from problem

    def _optional(self, name: str) -> bytes | None:
        try:
            return (self._proc / name).read_bytes()
        except OSError:
            return None


def memory(meminfo: bytes) -> dict[str, int]:
    """The figures of /proc/meminfo in bytes (the file's kB are KiB)."""
    found: dict[str, int] = {}
    swap_free = None
    for line in meminfo.splitlines():
        name, _, rest = line.partition(b":")
        if name in _MEMINFO:
            found[_MEMINFO[name]] = int(rest.split()[0]) * 1024
        elif name == b"SwapFree":
            swap_free = int(rest.split()[0]) * 1024
    if swap_free is not None and "swap_total_bytes" in found:
        found["swap_used_bytes"] = found["swap_total_bytes"] - swap_free
    return found


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
    for line in vmstat.splitlines():
        if line.startswith(b"oom_kill "):
            return {"oom_kill": int(line.split()[1])}
    return {}


def cpu_times(stat: bytes) -> tuple[int, int] | None:
    """Busy and all ticks of all cores; waiting for a disk counts as idle."""
    first = stat.split(b"\n", 1)[0].split()
    if len(first) < 6 or first[0] != b"cpu":
        return None
    ticks = [int(tick) for tick in first[1:9]]  # guest time is in user time already
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
