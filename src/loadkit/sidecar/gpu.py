"""The GPUs through NVML: utilisation, power, temperature, clock, why it is throttled, and memory where the driver knows it.

On GB10 the memory calls answer Not Supported: that is unknown, never 0 (the host's MemAvailable is what counts there).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from loadkit.sidecar.samples import Missing

THROTTLE = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}  # nvmlClocksEventReasons of nvml.h


class Nvml(Protocol):
    """The part of `pynvml` that is used; a test passes what a GB10 answered."""

    NVMLError: type[Exception]
    NVML_TEMPERATURE_GPU: int
    NVML_CLOCK_SM: int

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802


class Gpus:
    """One sample per GPU and look.

    Raises (from `look`):
        Missing: no nvidia-ml-py, no driver, or no GPU.
    """

    source = "gpu"

    def __init__(self, nvml: Any = None):
        self._nvml = nvml
        self._devices: list[tuple[int, Any, str]] | None = None

    def look(self) -> list[dict[str, Any]]:
        nvml = self._loaded()
        if self._devices is None:
            self._devices = self._found(nvml)
        return [reading(nvml, index, handle, name) for index, handle, name in self._devices]

    def _loaded(self) -> Any:
        if self._nvml is None:
            try:
                import pynvml
            except ImportError as problem:
                raise Missing("no nvidia-ml-py, so no GPU figures; for an NVIDIA GPU: pip install 'loadkit[gpu]'") from problem
            self._nvml = pynvml
        return self._nvml

    def _found(self, nvml: Any) -> list[tuple[int, Any, str]]:
        try:
            nvml.nvmlInit()
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            named = [(index, handle, _text(nvml.nvmlDeviceGetName(handle))) for index, handle in enumerate(handles)]
        except nvml.NVMLError as problem:
            raise Missing(f"NVML: {problem}") from problem
        if not named:
            raise Missing("NVML knows no GPU")
        return named


def reading(nvml: Any, index: int, handle: Any, name: str) -> dict[str, Any]:
    """What one GPU answers; a figure that it does not know is left out and named in `not_supported`.

    Raises:
        Missing: the driver is gone (GPU is lost, driver unloaded).
    """
    asked: dict[str, Callable[[], Any]] = {
        "utilisation_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "power_w": lambda: round(nvml.nvmlDeviceGetPowerUsage(handle) / 1000, 1),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "throttle": lambda: _reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
        "process_memory_bytes": lambda: _process_memory(nvml.nvmlDeviceGetComputeRunningProcesses(handle)),
    }
    data: dict[str, Any] = {"index": index, "name": name}
    unknown = []
    for key, ask in asked.items():
        value = None
        with suppress(nvml.NVMLError):
            value = ask()
        if value is None:
            unknown.append(key)
        else:
            data[key] = value
    if len(unknown) == len(asked):
        raise Missing(f"GPU {index} ({name}) does not answer any more")
    return data | ({"not_supported": unknown} if unknown else {})


def _reasons(bits: int) -> list[str]:
    return [words for bit, words in THROTTLE.items() if bits & bit]


def _process_memory(processes: list[Any]) -> int | None:
    """Sum over compute processes; `None` as soon as the driver does not tell for one of them."""
    used = [process.usedGpuMemory for process in processes]
    return None if any(one is None for one in used) else sum(used)


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
