"""The measuring transport: HTTP/1.1 over plain sockets as a transport of httpx2, so that `AsyncOpenAI` can speak through it."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2

from loadkit.clock import Clock, SystemClock
from loadkit.transport.first_reads import FirstReads
from loadkit.transport.pool import EXPIRY_S, Pool
from loadkit.transport.receiver import Headers, Receiver
from loadkit.transport.stamps import Stamps
from loadkit.transport.turns import Turns


class MeasuringTransport(httpx2.AsyncBaseTransport):
    """HTTP/1.1 to servers on plain ``http://``, with a stamp for each part of an exchange.

    `exchange` sends ready bytes and tells a `Receiver` everything; that is what the client measures with. As a transport of
    httpx2 (`handle_async_request`) it is an ordinary one: timeouts are those of the request, errors those of httpx2.

    Attributes:
        turns: who begins an exchange takes one; other work for requests shares them.
        first_reads: connections that are read out of turn; who keeps the event loop busy calls its `look_if_due` now and then.
    """

    def __init__(self, *, clock: Clock | None = None, kernel_stamps: bool = True, expiry_s: float = EXPIRY_S):
        self._clock: Clock = SystemClock() if clock is None else clock
        self._stamps = Stamps(self._clock, wanted=kernel_stamps)
        self.first_reads = FirstReads(self._clock.monotonic_ns)
        self._pools: dict[tuple[str, int], Pool] = {}
        self.turns = Turns()
        self._closed = False
        self._expiry_s = expiry_s

    async def exchange(
        self, server: tuple[str, int], head: bytes, body: bytes, receiver: Receiver, *, connect_s: float | None
    ) -> None:
        """Take or open a connection to host and port, and begin the exchange; the rest the receiver hears.

        Raises:
            httpx2.ConnectError, httpx2.ConnectTimeout: there is no connection, or the transport is closed; the receiver has
                heard nothing.
        """
        pool = self._pool(server)
        await self.turns.take()
        self.first_reads.look_if_due()
        connection = await pool.connection(connect_s)
        if self._closed:
            connection.close()
            raise httpx2.ConnectError("the transport is closed")
        connection.exchange(head, body, receiver)

    async def open_ahead(self, server: tuple[str, int], count: int, *, connect_s: float | None) -> None:
        """See that the next `count` exchanges find a connection open.

        Raises:
            httpx2.ConnectError, httpx2.ConnectTimeout: as `exchange`.
        """
        await self._pool(server).open_ahead(count, connect_s)

    def _pool(self, server: tuple[str, int]) -> Pool:
        pool = self._pools.get(server)
        if pool is None:
            pool = Pool(*server, clock=self._clock, stamps=self._stamps, first_reads=self.first_reads, expiry_s=self._expiry_s)
            self._pools[server] = pool
        return pool

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, and return when the headers are there.

        Raises:
            httpx2.TransportError: as the other transports of httpx2 do; its cause is the system's error.
        """
        if request.url.scheme != "http":
            raise httpx2.UnsupportedProtocol(f"the measuring transport speaks plain http, not {request.url.scheme}")
        timeouts: dict[str, Any] = request.extensions.get("timeout", {})
        stream = _Stream(asyncio.get_running_loop(), timeouts.get("read"))
        body = await request.aread()
        await self.exchange(server_of(request.url), head_of(request), body, stream, connect_s=timeouts.get("connect"))
        status, headers = await stream.begun()
        return httpx2.Response(status, headers=headers, stream=stream, extensions={"http_version": b"HTTP/1.1"})

    async def aclose(self) -> None:
        self._closed = True
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self.first_reads.close()
        self._stamps.close()


def server_of(url: httpx2.URL) -> tuple[str, int]:
    """Host and port."""
    return url.host, url.port or 80


def head_of(request: httpx2.Request) -> bytes:
    """Request line and headers, as they go over the wire."""
    lines = [b"%s %s HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%s: %s\r\n" % pair for pair in request.headers.raw]
    lines.append(b"\r\n")
    return b"".join(lines)


class _Stream(httpx2.AsyncByteStream):
    """The receiver of those who read a response the ordinary way."""

    awaits_first = False
    in_no_hurry = False

    def __init__(self, loop: asyncio.AbstractEventLoop, read_s: float | None):
        self._begun: asyncio.Future[tuple[int, Headers]] = loop.create_future()
        self._read_s = read_s
        self._parts: collections.deque[bytes] = collections.deque()
        self._more = asyncio.Event()
        self._over = False
        self._error: Exception | None = None
        self._abort: Callable[[Exception], None] | None = None

    async def begun(self) -> tuple[int, Headers]:
        """Status and headers.

        Raises:
            httpx2.TransportError: the exchange broke off, or the headers did not come in time.
        """
        try:
            async with asyncio.timeout(self._read_s):
                return await self._begun
        except TimeoutError as problem:
            await self.aclose()
            raise httpx2.ReadTimeout(f"no headers within {self._read_s} s") from problem
        except asyncio.CancelledError:
            await self.aclose()
            raise

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

    def sending(
        self,
        at_ns: int,  # noqa: ARG002
        *,
        connected_ns: int | None,  # noqa: ARG002
        abort: Callable[[Exception], None],
        catch_up: Callable[[], None],  # noqa: ARG002
    ) -> None:
        self._abort = abort

    def written(self, at_ns: int) -> None:
        pass

    def headers(self, at_ns: int, read_ns: int, status: int, headers: Headers) -> None:  # noqa: ARG002
        if not self._begun.done():
            self._begun.set_result((status, headers))

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
        if not self._begun.done():
            self._begun.set_exception(error)
