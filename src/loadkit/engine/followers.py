"""Requests that wait for another one's end: what a user sends in a row goes out back to back, without a turn through Locust.

Where the answers of a thousand users end together, Locust takes about a millisecond for each, and the next requests would go
out over more than a second: the load would sag each time.
"""

from __future__ import annotations

from typing import NamedTuple

from loadkit.client import Body
from loadkit.request import Request


class Ready(NamedTuple):
    """A request with all made that takes time."""

    request: Request
    body: Body


class Followers:
    """At most one behind each request; `name in followers` says whether a request waits here."""

    def __init__(self) -> None:
        self._behind: dict[str, Ready] = {}
        self._before: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._before

    def add(self, ready: Ready, after: str) -> None:
        self._behind[after] = ready
        self._before[ready.request.id] = after

    def take(self, after: str) -> Ready | None:
        """The one behind that request, which waits no longer."""
        ready = self._behind.pop(after, None)
        if ready is not None:
            del self._before[ready.request.id]
        return ready

    def withdraw(self, name: str) -> bool:
        """Take that one back; False where it is none that waits."""
        return self.take(self._before.get(name, "")) is not None

    def clear(self) -> None:
        self._behind.clear()
        self._before.clear()
