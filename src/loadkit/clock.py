"""Time as a value that is passed in; this module is the only reader of a clock.

Durations and stamps are integer nanoseconds of CLOCK_MONOTONIC, which is one clock for all processes of a host.
Wall time only labels: one `Anchor` per process relates the two, and is renewed where the wall clock may step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Where time comes from. Tests pass a clock that jumps."""

    def monotonic_ns(self) -> int: ...

    def wall_ns(self) -> int: ...


class SystemClock:
    """The clocks of this host."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


@dataclass(frozen=True, slots=True)
class Anchor:
    """One moment read on both clocks, so that monotonic stamps can be shown as wall time.

    `error_ns` bounds how far apart the two readings may be: the wall clock was read between two monotonic readings.
    """

    monotonic_ns: int
    wall_ns: int
    error_ns: int

    def wall_of(self, monotonic_ns: int) -> int:
        return self.wall_ns + (monotonic_ns - self.monotonic_ns)

    def monotonic_of(self, wall_ns: int) -> int:
        return self.monotonic_ns + (wall_ns - self.wall_ns)


def anchor(clock: Clock, *, tries: int = 5) -> Anchor:
    """Relate the clocks: the wall clock read between two monotonic ones, the tightest of a few tries."""

    def once() -> Anchor:
        before = clock.monotonic_ns()
        wall = clock.wall_ns()
        after = clock.monotonic_ns()
        return Anchor(monotonic_ns=(before + after) // 2, wall_ns=wall, error_ns=(after - before + 1) // 2)

    return min((once() for _ in range(tries)), key=lambda reading: reading.error_ns)
