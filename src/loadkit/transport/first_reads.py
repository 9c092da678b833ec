"""Connections whose first token is awaited are read ahead of the others.

Where a thousand streams fill the core, one round of the event loop takes longer than the next chunk is away. A later chunk that
is read late keeps its place (the record says which came together); a first token would lose its stamp, because the kernel keeps
one for bytes that it merges, the last one's.
"""

from __future__ import annotations

import select
from collections.abc import Callable

PERIOD_NS = 500_000
"""Between two looks: half of what a stamp may be off (1 ms), and a look costs a microsecond or two."""

NEVER = 1 << 63


class FirstReads:
    """The sockets that are looked at out of turn.

    Whoever has read a socket, and handed on what it brought, compares the time with `due_ns`, and calls `look` once it is past;
    whoever does other work calls `look_if_due`: there is no other place where a busy loop can be interrupted. Without epoll
    (macOS) nothing is ever due.
    """

    def __init__(self, now: Callable[[], int]):
        self.due_ns = NEVER
        self._now = now
        self._epoll: select.epoll | None = None
        self._readable: dict[int, Callable[[], None]] = {}

    def add(self, fd: int, readable: Callable[[], None]) -> None:
        """From now on `readable` is called as soon as possible after `fd` can be read."""
        if not hasattr(select, "epoll"):
            return
        if self._epoll is None:
            self._epoll = select.epoll()
        self._epoll.register(fd, select.EPOLLIN)
        self._readable[fd] = readable
        self.due_ns = min(self.due_ns, self._now() + PERIOD_NS)

    def discard(self, fd: int) -> None:
        """Its first token is there, or it is about to be closed."""
        if self._readable.pop(fd, None) is not None and self._epoll is not None:
            self._epoll.unregister(fd)
            if not self._readable:
                self.due_ns = NEVER

    def look_if_due(self) -> None:
        """Between two pieces of work of some hundred microseconds."""
        if self.due_ns != NEVER and self._now() >= self.due_ns:
            self.look()

    def look(self) -> None:
        """Call those that can be read now."""
        if self._epoll is None:
            return
        self.due_ns = NEVER  # they compare as well
        for fd, _ in self._epoll.poll(0):
            readable = self._readable.get(fd)
            if readable is not None:
                readable()
        if self._readable:
            self.due_ns = self._now() + PERIOD_NS

    def close(self) -> None:
        """Forget all of them."""
        self._readable.clear()
        self.due_ns = NEVER
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None
