"""One socket: writes a request, reads what comes, stamps it and hands it on; nothing else happens where bytes arrive."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import httptools
import httpx2

from loadkit.clock import Clock
from loadkit.transport.receiver import Headers, Receiver
from loadkit.transport.stamps import ANCILLARY_BYTES, TIMESPEC, Stamps

READ_BYTES = 16 * 1024
"""Most of one read: what is decoded in one bite (about 70 events) before others get their turn."""


class Connection:
    """A connection that carries one exchange at a time; kept between them, watched for the server's closing it.

    `free` is called when an exchange ended and the connection can carry another one; `gone` when it is closed.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        stamps: Stamps,
        free: Callable[[Connection], None],
        gone: Callable[[Connection], None],
    ):
        self.idle_since_ns = 0
        self.connected_ns: int | None = clock.monotonic_ns()
        self._sock = sock
        self._fd = sock.fileno()
        self._recvmsg = sock.recvmsg
        self._loop = loop
        self._now = clock.monotonic_ns
        self._stamps = stamps
        self._free = free
        self._gone = gone
        self._parser: Any = httptools.HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._unsent: memoryview | None = None
        self._write_error: OSError | None = None
        self._parts: list[bytes] = []
        self._headers: Headers = []
        self._stamped = stamps.enable(sock)
        self._trusted = self._stamped
        self._epoch = 0
        self._since_ns = 0
        self._got_headers = False
        self._announce = False
        self._until_close = False
        self._complete = False
        self._reusable = False
        self._closed = False
        loop.add_reader(self._fd, self._readable)

    @property
    def closed(self) -> bool:
        return self._closed

    def exchange(self, head: bytes, body: bytes, receiver: Receiver) -> None:
        """Begin an exchange: write as much as the kernel takes, and go on as it takes more."""
        self._receiver = receiver
        self._got_headers = self._announce = self._until_close = self._complete = False
        self._write_error = None
        self._trusted = self._stamped
        self._epoch = self._stamps.epoch
        connected, self.connected_ns = self.connected_ns, None
        self._since_ns = self._now()
        receiver.sending(self._since_ns, connected_ns=connected, abort=partial(self._abort, receiver))
        self._write(head, body)

    def close(self) -> None:
        """Close at once; an exchange under way is dropped without a word to its receiver."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._sock.close()
        self._receiver = None
        self._parser = None  # the parser holds our methods: without this each connection is a cycle for the collector
        self._gone(self)

    # --- writing

    def _write(self, head: bytes | memoryview, body: bytes) -> None:
        try:
            sent = self._sock.sendmsg((head, body))
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as problem:
            self._write_error = problem  # the server may have answered before it closed: the reader finds out
            return
        if sent < len(head) + len(body):
            self._unsent = memoryview(b"".join((head, body)))[sent:]
            self._loop.add_writer(self._fd, self._writable)
        elif self._receiver is not None:
            self._receiver.written(self._now())

    def _writable(self) -> None:
        rest, self._unsent = self._unsent, None
        self._loop.remove_writer(self._fd)
        if rest is not None and self._receiver is not None:
            self._write(rest, b"")

    # --- reading

    def _readable(self) -> None:
        now = self._now
        before = now()
        try:
            data, ancillary, _, _ = self._recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            self._broken(self._lost(str(problem)), self._write_error or problem)
            return
        read = now()
        receiver = self._receiver
        if receiver is None:
            self.close()  # idle: the server closed it, or says what nobody asked
            return
        if ancillary:
            seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2])
            at = seconds * 1_000_000_000 + nanoseconds - self._stamps.offset_ns
            if at > read or at < self._since_ns:
                at = self._implausible(at, read)
        else:
            at = read
            self._trusted = self._trusted and not data
        if not data:
            self._end_of_file(at, read)
            return
        self._take(data, at, read, receiver)
        if len(data) < READ_BYTES:  # the socket was drained: whatever comes next arrived after this read began
            self._since_ns = before

    def _take(self, data: bytes, at: int, read: int, receiver: Receiver) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            if not self._complete:
                self._broken(httpx2.RemoteProtocolError(f"not HTTP/1.1: {problem}"), problem)
                return
            self._reusable = False  # a whole answer, and something after it
        try:
            self._hand_on(at, read, receiver)
        except Exception as bug:  # ours: whoever waits for the answer gets it, instead of a timeout
            self._fail(bug)
            raise

    def _hand_on(self, at: int, read: int, receiver: Receiver) -> None:
        if self._announce:
            self._announce = False
            headers, self._headers = self._headers, []
            receiver.headers(at, read, self._parser.get_status_code(), headers)
        parts = self._parts
        if parts:
            content = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            receiver.body(content, at, read, self._since_ns)
        if self._complete and self._receiver is receiver:
            self._end(at, read)

    def _implausible(self, at: int, read: int) -> int:
        """A stamp from the future or from before the last one: within the error of the anchor, or the clock was stepped."""
        within = self._since_ns - 50_000 <= at <= read + 50_000
        self._trusted = self._trusted and within
        return min(max(at, self._since_ns), read)

    def _end_of_file(self, at: int, read: int) -> None:
        if self._until_close and self._got_headers:
            self._reusable = False
            self._end(at, read)
            return
        self._broken(self._lost("the server closed the connection"), self._write_error)

    def _lost(self, what: str) -> httpx2.TransportError:
        return httpx2.WriteError(what) if self._write_error else httpx2.ReadError(what)

    # --- ends

    def _end(self, at: int, read: int) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        trusted = self._still_trusted()
        if self._reusable and self._unsent is None:
            self.idle_since_ns = read
            self._free(self)
        else:
            self.close()
        receiver.ended(at, read, trusted=trusted)

    def _abort(self, receiver: Receiver, error: Exception) -> None:
        """End an exchange from outside; one that has ended already is left alone, and so is the next on this connection."""
        if self._receiver is receiver:
            self._fail(error)

    def _broken(self, error: Exception, cause: BaseException | None) -> None:
        error.__cause__ = cause
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        receiver, self._receiver = self._receiver, None
        trusted = self._still_trusted()
        self.close()
        if receiver is not None:
            receiver.failed(error, self._now(), trusted=trusted)

    def _still_trusted(self) -> bool:
        return self._trusted and self._stamps.renew() == self._epoch

    # --- called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            self._headers.clear()
            return
        self._got_headers = self._announce = True
        names = {name.lower(): value for name, value in self._headers}
        framed = b"content-length" in names or b"chunked" in names.get(b"transfer-encoding", b"").lower()
        self._until_close = not framed and status not in (204, 304)

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)

    def on_message_complete(self) -> None:
        if self._got_headers:
            self._complete = True
            self._reusable = self._parser.should_keep_alive()
