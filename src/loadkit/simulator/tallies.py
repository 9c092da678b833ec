"""Counters and histograms that cost next to nothing to update; prometheus_client only renders them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Histogram:
    """Counts per bucket (the last one is +Inf), as Prometheus has them."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, the way they are exposed."""
        running, listed = 0, []
        for bound, count in zip([*self.bounds, float("inf")], self.counts, strict=True):
            running += count
            listed.append(("+Inf" if bound == float("inf") else str(float(bound)), float(running)))
        return listed


def one_two_five(limit: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50 … up to `limit`: vLLM's build_1_2_5_buckets."""
    values: list[float] = []
    power = 1
    while True:
        for step in (1, 2, 5):
            if step * power > limit:
                return tuple(values)
            values.append(float(step * power))
        power *= 10


def floats(values: Sequence[float]) -> tuple[float, ...]:
    """Bounds of buckets."""
    return tuple(float(value) for value in values)


TTFT = floats(
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560]
)
TOKEN_TIME = floats([0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80])
REQUEST_TIME = floats([0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680])
ITERATION = floats([1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384])
PREEMPTIONS = floats([1, 2, 3, 4, 5, 10, 20])
CHOICES = floats([1, 2, 5, 10, 20])
HTTP_COARSE = floats([0.1, 0.5, 1])
HTTP_FINE = floats([0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60])
