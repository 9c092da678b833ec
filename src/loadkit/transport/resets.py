"""Connections that were reset are read to their end.

Where an error comes together with data, uvloop calls the reader once and never again (`UVPoll._fatal_error`): a read that found
the data would wait for the error until a deadline. An epoll of our own, which asks for nothing and so reports errors alone, is
watched by the event loop like a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable


class Resets:
    """Calls `readable` of a socket with an error until it is discarded; does nothing without epoll (macOS)."""

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._readable: dict[int, Callable[[], None]] = {}

    def add(self, fd: int, readable: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Watch a connected socket."""
        if not hasattr(select, "epoll"):
            return
        if self._epoll is None:
            self._epoll, self._loop = select.epoll(), loop
            loop.add_reader(self._epoll.fileno(), self._look)
        self._epoll.register(fd, 0)
        self._readable[fd] = readable

    def discard(self, fd: int) -> None:
        """It is about to be closed."""
        if self._readable.pop(fd, None) is not None and self._epoll is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Watch nothing any more."""
        self._readable.clear()
        if self._epoll is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
        self._epoll = self._loop = None

    def _look(self) -> None:
        if self._epoll is None:
            return
        for fd, _ in self._epoll.poll(0):
            readable = self._readable.get(fd)
            if readable is not None:
                readable()
