"""From a value to a place on the page: linear and logarithmic scales with round ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_ROUND_STEPS = (1, 2, 2.5, 5, 10)
_LOG_STEPS = ((1,), (1, 3), (1, 2, 5))


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps [low, high] onto [start, stop] in pixels (start may be the larger one: y grows downwards)."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, here = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, here = math.log10(low), math.log10(high), math.log10(here)
        return self.start + (here - low) / (high - low) * (self.stop - self.start)

    def ticks(self, about: int = 5) -> tuple[float, ...]:
        """Round values inside the scale, about as many as asked."""
        return _log_ticks(self.low, self.high, about) if self.log else _linear_ticks(self.low, self.high, about)


def from_zero(values: Iterable[float], start: float, stop: float) -> Scale:
    """A linear scale from 0 to just above the largest value."""
    top = max(values, default=0.0)
    return Scale(0.0, top * 1.06 if top > 0 else 1.0, start, stop)


def around(values: Iterable[float], start: float, stop: float, *, log: bool = False) -> Scale:
    """A scale that holds all values with a little air; logarithmic ones need values above 0."""
    known = [value for value in values if value > 0] if log else list(values)
    low, high = min(known, default=1.0), max(known, default=10.0)
    if log:
        return Scale(low / 1.15, high * 1.15, start, stop, log=True)
    air = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return Scale(low - air, high + air, start, stop)


def spans_decades(values: Iterable[float], factor: float = 30) -> bool:
    """Whether a logarithmic scale reads better: the values lie further apart than `factor`."""
    known = [value for value in values if value > 0]
    return bool(known) and max(known) / min(known) > factor


def _linear_ticks(low: float, high: float, about: int) -> tuple[float, ...]:
    rough = (high - low) / max(1, about)
    power = 10 ** math.floor(math.log10(rough))
    step = next(step * power for step in _ROUND_STEPS if step * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(number * step for number in range(first, last + 1))


def _log_ticks(low: float, high: float, about: int) -> tuple[float, ...]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: tuple[float, ...] = ()
    for steps in _LOG_STEPS:
        inside = tuple(step * 10.0**decade for decade in decades for step in steps)
        candidate = tuple(value for value in inside if low <= value <= high)
        if len(candidate) > about + 2 and found:
            break
        found = candidate
    return found if len(found) >= 2 else _linear_ticks(low, high, about)
