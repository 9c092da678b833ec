"""How late an event loop comes to what is due: everything else that it does is late by as much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

EVERY_S = 0.05


class LoopProbe:
    """A timer every 50 ms that notes how late it fires; a callback, because a task has more to do at each."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], int]):
        self._loop = loop
        self._now = now
        self._worst_ns = 0
        self._arm()

    def taken(self) -> int:
        """The worst lateness since this was last asked, ns."""
        worst_ns, self._worst_ns = self._worst_ns, 0
        return worst_ns

    def stop(self) -> None:
        self._timer.cancel()

    def _arm(self) -> None:
        self._due_ns = self._now() + int(EVERY_S * 1e9)
        self._timer = self._loop.call_later(EVERY_S, self._fired)

    def _fired(self) -> None:
        self._worst_ns = max(self._worst_ns, self._now() - self._due_ns)
        self._arm()
