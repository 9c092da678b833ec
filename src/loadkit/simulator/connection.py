"""HTTP/1.1 on a plain transport: what a stream, its faults and its truthful stamps need and ASGI would hide.

Events are written straight to the socket, so that the stamp of an event is taken right before the kernel gets it; what the
kernel does not take at once goes through the transport's buffer, and is counted as buffered.
"""

from __future__ import annotations

import asyncio
import email.utils
import os
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Literal, Protocol, cast

import httptools

from loadkit.simulator.faults.table import Fault
from loadkit.simulator.frames import KEEP_ALIVE
from loadkit.simulator.truth import TruthLog, Witness

now_ns = time.monotonic_ns

KEEP_ALIVE_S = 5.0
"""uvicorn's, and so vLLM's: an idle connection is closed after 5 s."""

JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream; charset=utf-8"


Part = Literal["token", "finish", "last", "role", "usage", "done", "error", "hidden"]
"""What an event is: `token` shows something, `finish` ends without showing anything, `last` does both."""


class Outlet(Protocol):
    """Where the bytes of a response go: the exchange itself, or something that spoils them first."""

    @property
    def witness(self) -> Witness: ...

    def begin_stream(self) -> None: ...

    def event(self, payload: bytes, part: Part = "token") -> int:
        """Write one event; the time just before it was handed over (ns), 0 if it was not."""
        ...

    def end_stream(self) -> None: ...

    def answer(self, status: int, body: bytes, *, kind: str = JSON_TYPE, extra: str = "") -> None: ...


class App(Protocol):
    """What answers requests."""

    truth: TruthLog
    keep_alive_interval_s: float

    def handle(self, exchange: Exchange) -> None: ...

    def requested(self, exchange: Exchange, size: int) -> None: ...

    def accept_delay_s(self) -> float: ...


class Exchange:
    """One request and its response."""

    def __init__(self, connection: Connection, method: str, path: str, headers: dict[str, str], body: bytes):
        self.connection = connection
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.began_ns = time.monotonic_ns()
        kept = connection.app.truth.kept
        self._witness = Witness(kept=kept, path=path, received_ns=self.began_ns, request_id=headers.get("x-request-id"))
        self.outlet: Outlet = self
        self.fault: Fault | None = None
        self.gone: Callable[[], None] | None = None
        self.over = False
        self.last_ns = 0
        self.size = 0
        self.pump: asyncio.Task[None] | None = None
        self._silence: asyncio.TimerHandle | None = None

    @property
    def witness(self) -> Witness:
        return self._witness

    @staticmethod
    def now() -> int:
        return time.monotonic_ns()

    def begin_stream(self) -> None:
        self.witness.status = 200
        self.witness.headers_ns = self.write(head(200, STREAM_TYPE, None, close=self.connection.closing))
        interval = self.connection.app.keep_alive_interval_s
        if interval > 0:
            self._watch_silence(interval)

    def event(self, payload: bytes, part: Part = "token") -> int:  # noqa: ARG002  # for outlets that treat them differently
        """One SSE event as one HTTP chunk and one write."""
        if self.over:
            return 0
        data = b"%x\r\n%b\r\n" % (len(payload), payload)
        self.last_ns = at = now_ns()
        if not self.connection.send(data):
            self._witness.buffered += 1
        return at

    def end_stream(self) -> None:
        self.write(b"0\r\n\r\n")
        self.finish()

    def answer(self, status: int, body: bytes, *, kind: str = JSON_TYPE, extra: str = "") -> None:
        """A whole response."""
        self.witness.status, self.size = status, len(body)
        at = self.write(head(status, kind, len(body), close=self.connection.closing, extra=extra) + body)
        self.witness.headers_ns = self.witness.done_ns = at
        self.finish()

    def write(self, data: bytes) -> int:
        self.last_ns = at = now_ns()
        if not self.over and not self.connection.send(data):
            self._witness.buffered += 1
        return at

    def finish(self) -> None:
        """The response is complete: log the truth, let the connection go on."""
        if self.end():
            self.connection.next_request()

    def end(self) -> bool:
        """Nothing more is written; the truth is logged. False if that was so already."""
        if self.over:
            return False
        self.over = True
        self._quiet()
        self.connection.app.truth.write(self.witness)
        self.connection.app.requested(self, self.size)
        return True

    def lost(self) -> None:
        """The client closed the connection before the response was complete."""
        if self.over:
            return
        self.witness.aborted = True
        if self.gone is not None:
            self.gone()
        if self.pump is not None:
            self.pump.cancel()
        self.end()

    def _watch_silence(self, interval_s: float) -> None:
        def look() -> None:
            idle = (time.monotonic_ns() - self.last_ns) / 1e9
            if idle >= interval_s:
                self.event(KEEP_ALIVE)
                idle = 0.0
            self._silence = loop.call_later(interval_s - idle, look)

        loop = self.connection.loop
        self._silence = loop.call_later(interval_s, look)

    def _quiet(self) -> None:
        if self._silence is not None:
            self._silence.cancel()


class Connection(asyncio.Protocol):
    """One client connection; requests on it are answered one after another."""

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop, open_ones: set[Connection]):
        self.app = app
        self.loop = loop
        self.closing = False
        self.stale = False
        self._buffering = False
        self._open_ones = open_ones
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._file = -1
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._exchange: Exchange | None = None
        self._waiting: list[bytes] = []
        self._idle: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports inherit from nothing
        self._file = transport.get_extra_info("socket").fileno()
        self._open_ones.add(self)
        self._rest()
        delay_s = self.app.accept_delay_s()
        if delay_s:
            self._transport.pause_reading()
            self.loop.call_later(delay_s, self._transport.resume_reading)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._open_ones.discard(self)
        self._file = -1
        if self._idle is not None:
            self._idle.cancel()
        if self._exchange is not None:
            self._exchange.lost()

    def data_received(self, data: bytes) -> None:
        if self.stale:
            self.close()
            return
        if self._exchange is not None:  # pipelined: keep it until the response is out
            self._waiting.append(data)
            return
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError:
            self.send(head(400, "text/plain; charset=utf-8", 28, close=True) + b"Invalid HTTP request received")
            self.close()

    def send(self, data: bytes) -> bool:
        """Hand bytes to the kernel; False if some had to be buffered (or nobody is there to take them)."""
        if self._file < 0:
            return False
        if self._buffering and not self._drained():
            cast(asyncio.Transport, self._transport).write(data)
            return False
        try:
            sent = os.write(self._file, data)
        except BlockingIOError:
            sent = 0
        except OSError:  # the client is gone; the loop tells us through connection_lost
            cast(asyncio.Transport, self._transport).abort()
            return False
        if sent == len(data):
            return True
        cast(asyncio.Transport, self._transport).write(data[sent:])
        self._buffering = True
        return False

    def _drained(self) -> bool:
        """Whether the transport's buffer is empty again, so that bytes may go past it."""
        transport = cast(asyncio.Transport, self._transport)
        self._buffering = bool(transport.get_write_buffer_size())
        return not self._buffering

    def next_request(self) -> None:
        self._exchange = None
        if self.closing:
            self.close()
            return
        self._parser = httptools.HttpRequestParser(self)
        if self._waiting:
            data, self._waiting = b"".join(self._waiting), []
            self.loop.call_soon(self.data_received, data)
        else:
            self._rest()

    def close(self) -> None:
        if self._transport is not None:
            self._file = -1
            self._transport.close()

    def abort(self, *, reset: bool = False) -> None:
        """Drop the connection: with `reset` as RST, else as an ordinary end without the rest of the response."""
        if self._transport is None:
            return
        self._file = -1
        if reset:
            import socket
            import struct

            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_headers_complete(self) -> None:
        if self._headers.get("expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        path = self._url.decode("latin-1")
        self.closing = not self._parser.should_keep_alive()
        exchange = Exchange(self, method, path, self._headers, b"".join(self._body))
        self._url, self._headers, self._body = b"", {}, []
        self._exchange = exchange
        self.app.handle(exchange)

    def _rest(self) -> None:
        self._idle = self.loop.call_later(KEEP_ALIVE_S, self.close)


def chunk(payload: bytes) -> bytes:
    """An HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def head(status: int, kind: str, length: int | None, *, close: bool = False, extra: str = "") -> bytes:
    """A response's status line and headers, in uvicorn's order; without a length the body is chunked."""
    size = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [
        f"HTTP/1.1 {status} {_phrase(status)}",
        f"date: {email.utils.formatdate(usegmt=True)}",
        "server: uvicorn",
        *([extra] if extra else []),
        size,
        *([f"content-type: {kind}"] if kind else []),
        *(["connection: close"] if close else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
