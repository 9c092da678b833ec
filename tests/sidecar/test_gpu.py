"""What a GB10 answers to NVML (recorded: memory calls are not supported), and a machine without a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest

from loadkit.sidecar.gpu import Gpus
from loadkit.sidecar.samples import KEYS, Missing


class NotSupported(Exception):
    """NVMLError_NotSupported."""


class Gb10:
    """NVML on a DGX Spark, driver 580: everything but memory is known, and per-process memory is N/A."""

    NVMLError = NotSupported
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    lost = False

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"handle {index}"

    def nvmlDeviceGetName(self, handle: str) -> str:  # noqa: N802
        return "NVIDIA GB10"

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=96, memory=0),
            "nvmlDeviceGetPowerUsage": 41_873,
            "nvmlDeviceGetTemperature": 71,
            "nvmlDeviceGetClockInfo": 2411,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4 | 0x20,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=2702, usedGpuMemory=None)],
        }

        def answer(*_: Any) -> Any:
            if self.lost or name not in answers:
                raise NotSupported("Not Supported")
            return answers[name]

        return answer


def test_not_supported_memory_is_unknown():
    """GB10 has no memory figures: they are absent and named, never 0."""
    (data,) = Gpus(Gb10()).look()
    assert data == {
        "index": 0,
        "name": "NVIDIA GB10",
        "utilisation_percent": 96,
        "power_w": 41.9,
        "temperature_c": 71,
        "clock_mhz": 2411,
        "throttle": ["power cap", "thermal (software)"],
        "not_supported": ["memory_used_bytes", "process_memory_bytes"],
    }
    assert data.keys() <= KEYS["gpu"].keys()


def test_a_gpu_that_fell_off_the_bus_is_said():
    """Nothing answers any more: missing, not a sample full of gaps."""
    nvml = Gb10()
    gpus = Gpus(nvml)
    gpus.look()
    nvml.lost = True
    with pytest.raises(Missing, match=r"GPU 0 .* does not answer"):
        gpus.look()


def test_a_machine_without_a_driver_is_said():
    """The real NVML here, or the lack of the package, gives a reason."""
    try:
        found = Gpus().look()
    except Missing as problem:
        assert "NVML" in str(problem) or "nvidia-ml-py" in str(problem)
    else:
        assert found[0]["name"]
