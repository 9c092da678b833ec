"""What a transport tells the one who asked: when each part of an exchange happened, and the bytes of the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Headers = list[tuple[bytes, bytes]]


class Receiver(Protocol):
    """Called by a transport on the event loop, in this order; nothing is called after `ended` or `failed`.

    Times are monotonic nanoseconds. `failed` gets an exception of httpx2 whose cause is the system's.
    """

    @property
    def awaits_first(self) -> bool:
        """Whether the token is still to come whose time of arrival matters most: until then this one is read before others."""

    @property
    def in_no_hurry(self) -> bool:
        """Whether `body` may come some reads late, with their times: asked once, when the first token is there."""

    def sending(
        self, at_ns: int, *, connected_ns: int | None, abort: Callable[[Exception], None], catch_up: Callable[[], None]
    ) -> None:
        """The first byte is about to be written, on a connection opened at `connected_ns`, or a reused one (`None`).

        `abort(error)` ends the exchange at once, closes the connection and leads to `failed(error)`. `catch_up()` hands over
        what was put off because the receiver is in no hurry; at the end that is done without asking.
        """

    def written(self, at_ns: int) -> None:
        """The last byte was handed to the kernel."""

    def headers(self, at_ns: int, read_ns: int, status: int, headers: Headers) -> None:
        """The response's headers are complete (interim 1xx responses are passed over)."""

    def body(self, data: bytes, at_ns: int, read_ns: int, since_ns: int) -> None:
        """What one read brought, free of framing.

        `at_ns` is the kernel's stamp of the last byte and `read_ns` the time right after the read; without kernel stamps the
        two are equal. No byte of it had arrived at `since_ns`.
        """

    def ended(self, at_ns: int, read_ns: int, *, trusted: bool) -> None:
        """The answer is complete. `trusted`: every `at_ns` was a kernel stamp of an undisturbed clock."""

    def failed(self, error: Exception, at_ns: int, *, trusted: bool) -> None:
        """The exchange broke off."""


def nothing_waits() -> None:
    """The `catch_up` of a transport that puts nothing off."""
