"""The host between launches: its memory, kills, failed units, temperature; and the gate that the next launch waits at."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from loadkit.experiment.plan import GIB
from loadkit.experiment.waiting import Orders, wait_until

WARMER_AT_MOST_C = 5.0
"""A launch waits until the GPU is within this of what it was before the first one (where it can be read)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """One look. `None` is unknown; `failed_units` are systemd's, of the system and of the user."""

    mem_available_bytes: int
    oom_kill: int | None
    failed_units: tuple[str, ...] | None
    gpu_temperature_c: float | None
    gpu_clock_mhz: float | None
    boot_id: str

    def facts(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> HostState:
        """Read back from `facts`; keys of other kinds are passed over."""
        units = facts["failed_units"]
        known: dict[str, Any] = {name: facts[name] for name in cls.__slots__}
        return cls(**{**known, "failed_units": None if units is None else tuple(units)})


def look(proc: Path = Path("/proc")) -> HostState:
    """How the host is now. `proc` is injected by tests."""
    temperature, clock = _gpu()
    return HostState(
        mem_available_bytes=mem_available_bytes(),
        oom_kill=oom_kill(proc),
        failed_units=failed_units(),
        gpu_temperature_c=temperature,
        gpu_clock_mhz=clock,
        boot_id=(proc / "sys/kernel/random/boot_id").read_text().strip(),
    )


def mem_available_bytes() -> int:
    """MemAvailable."""
    return int(psutil.virtual_memory().available)


def oom_kill(proc: Path = Path("/proc")) -> int | None:
    """Processes killed for memory since boot, of any cgroup; `None` where the kernel does not count them."""
    for line in (proc / "vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return None


def failed_units() -> tuple[str, ...] | None:
    """`systemctl --failed` of the system and the user; `None` where there is no systemd."""
    if not shutil.which("systemctl"):
        return None
    found: list[str] = []
    answered = False
    for whose in ((), ("--user",)):
        command = ["systemctl", *whose, "--failed", "--plain", "--no-legend"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if result.returncode == 0:
            answered = True
            found += [line.split()[0] for line in result.stdout.splitlines() if line.split()]
    return tuple(sorted(found)) if answered else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether the host came to be as before within the limit. `reasons` say what was not, in words."""

    open: bool
    waited_s: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What has to hold before a launch: memory within `slack_bytes` of the baseline, nothing running, quiet for `quiet_s`.

    `still_running` names what does run, or gives `None`.
    """

    baseline: HostState
    slack_bytes: float
    quiet_s: float
    still_running: Callable[[], str | None]


def wait_at_gate(demands: Demands, *, limit_s: float, orders: Orders | None, now_s: Callable[[], float]) -> Gate:
    """Wait until the demands are met, and no process has been killed for memory for a while.

    Raises:
        loadkit.experiment.waiting.Interrupted: the user asked to stop.
    """
    begun = quiet_since = now_s()
    kills = oom_kill()
    reasons: tuple[str, ...] = ()

    def as_before() -> bool:
        nonlocal reasons, kills, quiet_since
        if (now_kills := oom_kill()) != kills:
            kills, quiet_since = now_kills, now_s()
        reasons = tuple(_unmet(demands))
        if not reasons and now_s() - quiet_since < demands.quiet_s:
            reasons = ("a process was killed for memory just now",) if quiet_since > begun else ("settling",)
        return not reasons

    met = wait_until(as_before, limit_s=limit_s, orders=orders)
    return Gate(open=met, waited_s=now_s() - begun, reasons=reasons)


def _unmet(demands: Demands) -> list[str]:
    running = demands.still_running()
    reasons = [f"{running} still runs"] if running else []
    missing = demands.baseline.mem_available_bytes - mem_available_bytes()
    if missing > demands.slack_bytes:
        reasons.append(f"MemAvailable is {missing / GIB:.1f} GiB below the baseline")
    temperature, _ = _gpu()
    if demands.baseline.gpu_temperature_c is not None and temperature is not None:
        warmer = temperature - demands.baseline.gpu_temperature_c
        if warmer > WARMER_AT_MOST_C:
            reasons.append(f"the GPU is {warmer:.0f} °C warmer than at the baseline")
    return reasons


def new_kills(before: HostState, after: HostState) -> int:
    """Rise of the kill counter; 0 where it is unknown or the host was restarted."""
    if before.oom_kill is None or after.oom_kill is None or before.boot_id != after.boot_id:
        return 0
    return after.oom_kill - before.oom_kill


def _gpu() -> tuple[float | None, float | None]:
    """Temperature and SM clock of the first GPU, where NVML is installed and answers."""
    try:
        import pynvml
    except ImportError:
        return None, None
    try:
        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        temperature = float(pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU))
        return temperature, float(pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM))
    except pynvml.NVMLError:
        return None, None
