"""One sampler's rhythm: looks at its source at a period of its own, in a thread of its own, and fails alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from loadkit.clock import Clock
from loadkit.sidecar.samples import Missing

AGAIN_NS = 10_000_000_000  # how often a source that stays missing is written down


class Sampler(Protocol):
    """A source: `look` returns the data of no, one or several samples, or raises `Missing` with the reason."""

    source: str

    def look(self) -> list[dict[str, Any]]: ...


Record = Callable[[str, dict[str, Any], str | None], None]
"""(source, data, missing) → a sample is written."""


class Pulse:
    """Looks at due times that do not drift: after a late look the next one is due as planned, missed ones are skipped."""

    def __init__(
        self,
        sampler: Sampler,
        *,
        period_s: float,
        record: Record,
        say: Callable[[str], None],
        clock: Clock,
        ended: threading.Event,
    ):
        self.sampler = sampler
        self._period_ns = int(period_s * 1e9)
        self._record = record
        self._say = say
        self._clock = clock
        self._ended = ended
        self._trouble: str | None = None
        self._trouble_ns = 0
        self._worst_late_ns = 0
        self.looked = threading.Event()

    def run(self) -> None:
        due_ns = self._clock.monotonic_ns()
        while not self._ended.is_set():
            self.look()
            self.looked.set()
            due_ns += self._period_ns
            now_ns = self._clock.monotonic_ns()
            if now_ns > due_ns:
                self._late(now_ns - due_ns)
                due_ns += (now_ns - due_ns) // self._period_ns * self._period_ns
            if self._ended.wait(max(0, due_ns - now_ns) / 1e9):
                return
            self._late(self._clock.monotonic_ns() - due_ns)

    def look(self) -> None:
        """One look now; what it finds is recorded, also that it finds nothing."""
        try:
            found = self.sampler.look()
        except Missing as problem:
            self._missing(problem)
            return
        if self._trouble is not None:
            self._say(f"{self.sampler.source}: seen again")
            self._trouble = None
        for data in found:
            self._record(self.sampler.source, data, None)

    def worst_late_ns(self) -> int:
        """The worst lateness since this was asked last."""
        worst, self._worst_late_ns = self._worst_late_ns, 0
        return worst

    def _missing(self, problem: Missing) -> None:
        """Said once, then recorded as unknown; what is known all the same (the server is down) is recorded at each look."""
        reason, now_ns = str(problem), self._clock.monotonic_ns()
        new = reason != self._trouble
        if new:
            self._say(f"{self.sampler.source}: {reason}")
        if new or problem.data or now_ns - self._trouble_ns >= AGAIN_NS:
            self._record(self.sampler.source, problem.data, reason)
            self._trouble_ns = now_ns
        self._trouble = reason

    def _late(self, late_ns: int) -> None:
        self._worst_late_ns = max(self._worst_late_ns, late_ns)
