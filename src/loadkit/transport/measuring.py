"""The measuring transport: HTTP/1.1 over plain sockets as a transport of httpx2, so that `AsyncOpenAI` can speak through it."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2

from loadkit.clock import Clock, SystemClock
from loadkit.transport.pool import EXPIRY_S, Pool
from loadkit.transport.receiver import Headers, Receiver
from loadkit.transport.stamps import Stamps

RECEIVER = "loadkit.receiver"
"""Extension of a request: its `Receiver`, which then gets every stamp and the body; the response's own stream stays empty."""


class MeasuringTransport(httpx2.AsyncBaseTransport):
    """HTTP/1.1 to servers on plain ``http://``, with a stamp for each part of an exchange.

    Without a receiver it is an ordinary transport: timeouts are those of the request, errors those of httpx2.
    """

    def __init__(self, *, clock: Clock | None = None, kernel_stamps: bool = True, expiry_s: float = EXPIRY_S):
        self._clock: Clock = SystemClock() if clock is None else clock
        self._stamps = Stamps(self._clock, wanted=kernel_stamps)
        self._pools: dict[tuple[str, int], Pool] = {}
        self._expiry_s = expiry_s

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, and return when the headers are there.

        Raises:
            httpx2.TransportError: as the other transports of httpx2 do; its cause is the system's error.
        """
        if request.url.scheme != "http":
            raise httpx2.UnsupportedProtocol(f"the measuring transport speaks plain http, not {request.url.scheme}")
        ready = isinstance(request.stream, httpx2.ByteStream)
        body = b"".join(request.stream) if ready else await request.aread()  # type: ignore[arg-type]
        timeouts: dict[str, Any] = request.extensions.get("timeout", {})
        receiver: Receiver | None = request.extensions.get(RECEIVER)
        stream = None if receiver is not None else _Stream(timeouts.get("read"))
        begun = _Begun(asyncio.get_running_loop(), receiver or stream)  # type: ignore[arg-type]
        connection = await self._pool(request.url).connection(timeouts.get("connect"))
        connection.exchange(head_of(request), body, begun)
        try:
            status, headers = await begun.headers_seen
        except asyncio.CancelledError:
            begun.drop()
            raise
        return httpx2.Response(status, headers=headers, stream=stream or _EMPTY, extensions={"http_version": b"HTTP/1.1"})

    async def aclose(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self._stamps.close()

    def _pool(self, url: httpx2.URL) -> Pool:
        key = (url.host, url.port or 80)
        pool = self._pools.get(key)
        if pool is None:
            pool = Pool(*key, clock=self._clock, stamps=self._stamps, expiry_s=self._expiry_s)
            self._pools[key] = pool
        return pool


def head_of(request: httpx2.Request) -> bytes:
    """Request line and headers, as they go over the wire."""
    lines = [b"%s %s HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%s: %s\r\n" % pair for pair in request.headers.raw]
    lines.append(b"\r\n")
    return b"".join(lines)


class _Begun:
    """Passes everything on to a receiver, and wakes the sender when the headers are there, or the exchange failed first."""

    __slots__ = ("_abort", "_to", "body", "headers_seen")

    def __init__(self, loop: asyncio.AbstractEventLoop, to: Receiver):
        self.headers_seen: asyncio.Future[tuple[int, Headers]] = loop.create_future()
        self.body = to.body
        self._to = to
        self._abort: Callable[[Exception], None] | None = None

    def sending(self, at_ns: int, *, connected_ns: int | None, abort: Callable[[Exception], None]) -> None:
        self._abort = abort
        self._to.sending(at_ns, connected_ns=connected_ns, abort=abort)

    def written(self, at_ns: int) -> None:
        self._to.written(at_ns)

    def headers(self, at_ns: int, read_ns: int, status: int, headers: Headers) -> None:
        self._to.headers(at_ns, read_ns, status, headers)
        if not self.headers_seen.done():
            self.headers_seen.set_result((status, headers))

    def ended(self, at_ns: int, read_ns: int, *, trusted: bool) -> None:
        self._to.ended(at_ns, read_ns, trusted=trusted)

    def failed(self, error: Exception, at_ns: int, *, trusted: bool) -> None:
        self._to.failed(error, at_ns, trusted=trusted)
        if not self.headers_seen.done():
            self.headers_seen.set_exception(error)

    def drop(self) -> None:
        """The sender was cancelled: nobody wants the answer."""
        if self._abort is not None:
            self._abort(httpx2.ReadError("cancelled"))
        if self.headers_seen.done() and not self.headers_seen.cancelled():
            self.headers_seen.exception()  # it is not lost: the cancellation is what is raised


class _Empty(httpx2.AsyncByteStream):
    """The stream of a response whose body goes to a receiver."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        return
        yield b""  # what makes this a generator


_EMPTY = _Empty()


class _Stream(httpx2.AsyncByteStream):
    """The body of a response for those who read it the ordinary way."""

    def __init__(self, read_s: float | None):
        self._read_s = read_s
        self._parts: collections.deque[bytes] = collections.deque()
        self._more = asyncio.Event()
        self._over = False
        self._error: Exception | None = None
        self._abort: Callable[[Exception], None] | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._parts:
                yield self._parts.popleft()
            if self._error is not None:
                raise self._error
            if self._over:
                return
            self._more.clear()
            try:
                async with asyncio.timeout(self._read_s):
                    await self._more.wait()
            except TimeoutError as problem:
                raise httpx2.ReadTimeout(f"nothing came for {self._read_s} s") from problem

    async def aclose(self) -> None:
        if not self._over and self._abort is not None:
            self._abort(httpx2.ReadError("the response was closed"))

    def sending(self, at_ns: int, *, connected_ns: int | None, abort: Callable[[Exception], None]) -> None:  # noqa: ARG002
        self._abort = abort

    def written(self, at_ns: int) -> None:
        pass

    def headers(self, at_ns: int, read_ns: int, status: int, headers: Headers) -> None:
        pass

    def body(self, data: bytes, at_ns: int, read_ns: int, since_ns: int) -> None:  # noqa: ARG002
        self._parts.append(data)
        self._more.set()

    def ended(self, at_ns: int, read_ns: int, *, trusted: bool) -> None:  # noqa: ARG002
        self._over = True
        self._more.set()

    def failed(self, error: Exception, at_ns: int, *, trusted: bool) -> None:  # noqa: ARG002
        self._over = True
        self._error = error
        self._more.set()
