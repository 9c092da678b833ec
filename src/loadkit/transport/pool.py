"""Connections kept alive between exchanges: as many as are needed at once, and none older than the server keeps them."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import httpx2

from loadkit.clock import Clock
from loadkit.transport.connection import Connection
from loadkit.transport.first_reads import FirstReads
from loadkit.transport.resets import Resets
from loadkit.transport.stamps import Stamps

EXPIRY_S = 4.0
"""Idle connections are closed after this: vLLM's server (uvicorn) closes them after 5 s, and one that it closes while a
request is on its way costs that request."""

RENEW_S = 1.0


class Pool:
    """Connections to one server. It has no limit of its own: a request never waits for a connection of another one."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        clock: Clock,
        stamps: Stamps,
        first_reads: FirstReads,
        expiry_s: float = EXPIRY_S,
    ):
        self._host = host
        self._port = port
        self._clock = clock
        self._stamps = stamps
        self._first_reads = first_reads
        self._expiry_ns = int(expiry_s * 1e9)
        self._idle: list[Connection] = []  # the one used last is taken first
        self._open: set[Connection] = set()
        self._resets = Resets()
        self._opening = 0
        self._addresses: list[Any] = []
        self._tick: asyncio.TimerHandle | None = None

    async def connection(self, connect_s: float | None) -> Connection:
        """An idle connection, or a new one.

        Raises:
            httpx2.ConnectError: refused, unreachable or no such name; its cause is the system's error.
            httpx2.ConnectTimeout: not connected within `connect_s` seconds.
        """
        oldest = self._clock.monotonic_ns() - self._expiry_ns
        while self._idle:
            idle = self._idle.pop()
            if idle.idle_since_ns >= oldest and not idle.closed:
                return idle
            idle.close()
        return await self._opened(connect_s)

    async def open_ahead(self, count: int, connect_s: float | None) -> None:
        """See that `count` requests can begin at one moment without connecting; those being opened count.

        Connections that idled for half of their time don't count, because the moment may be a while off.

        Raises:
            httpx2.ConnectError, httpx2.ConnectTimeout: as `connection`.
        """
        young_ns = self._clock.monotonic_ns() - self._expiry_ns // 2
        young = sum(idle.idle_since_ns >= young_ns and not idle.closed for idle in self._idle)
        missing = max(0, count - young - self._opening)
        if missing:
            self._opening += missing
            await asyncio.gather(*(self._open_one_ahead(connect_s) for _ in range(missing)))

    async def _open_one_ahead(self, connect_s: float | None) -> None:
        try:
            connection = await self._opened(connect_s)
        finally:
            self._opening -= 1
        connection.idle_since_ns = self._clock.monotonic_ns()
        self._idle.append(connection)

    async def _opened(self, connect_s: float | None) -> Connection:
        try:
            async with asyncio.timeout(connect_s):
                return await self._connect()
        except TimeoutError as problem:
            raise httpx2.ConnectTimeout(f"no connection to {self._host}:{self._port} within {connect_s} s") from problem

    def close(self) -> None:
        """Close all connections, also those in use."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        for connection in list(self._open):
            connection.close()
        self._idle.clear()
        self._resets.close()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        self._watch(loop)
        failure: OSError | None = None
        for family, address in await self._resolved(loop):
            sock = None
            try:
                sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await _connected(loop, sock, address)
                return self._kept(sock, loop)
            except OSError as problem:
                failure = failure or problem
                if sock is not None:
                    sock.close()
            except asyncio.CancelledError:
                if sock is not None:
                    sock.close()
                raise
        self._addresses.clear()
        raise httpx2.ConnectError(f"can't connect to {self._host}:{self._port}: {failure}") from failure

    def _kept(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> Connection:
        connection = Connection(
            sock,
            loop=loop,
            clock=self._clock,
            stamps=self._stamps,
            first_reads=self._first_reads,
            free=self._idle.append,
            gone=self._gone,
        )
        self._open.add(connection)
        self._resets.add(sock.fileno(), connection.readable, loop)
        return connection

    def _gone(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._resets.discard(connection.fd)

    async def _resolved(self, loop: asyncio.AbstractEventLoop) -> list[Any]:
        """Family and address, looked up once and again after a failure: a lookup per connection would be in every latency."""
        if not self._addresses:
            try:
                found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            except OSError as problem:
                raise httpx2.ConnectError(f"can't resolve {self._host}: {problem}") from problem
            self._addresses = [(family, address) for family, _, _, _, address in found]
        return list(self._addresses)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._tick is None:
            self._tick = loop.call_later(RENEW_S, self._each_second, loop)

    def _each_second(self, loop: asyncio.AbstractEventLoop) -> None:
        """Relate the clocks again and close what idled too long; stops where nothing is open."""
        self._tick = None
        self._stamps.renew()
        oldest = self._clock.monotonic_ns() - self._expiry_ns
        for idle in [connection for connection in self._idle if connection.idle_since_ns < oldest]:
            idle.close()
        self._idle[:] = [connection for connection in self._idle if not connection.closed]
        if self._open:
            self._watch(loop)


async def _connected(loop: asyncio.AbstractEventLoop, sock: socket.socket, address: Any) -> None:
    """Connect without blocking. On loopback the handshake is over when `connect` returns, and nothing is waited for."""
    code = sock.connect_ex(address)
    if code == errno.EINPROGRESS:
        await _writable(loop, sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, errno.errorcode.get(code, "connect"))


async def _writable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    ready = loop.create_future()
    loop.add_writer(sock.fileno(), _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(sock.fileno())


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
