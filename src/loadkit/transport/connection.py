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
from loadkit.transport.first_reads import FirstReads
from loadkit.transport.receiver import Headers, Receiver
from loadkit.transport.stamps import ANCILLARY_BYTES, TIMESPEC, Stamps

_timespec = TIMESPEC.unpack

READ_BYTES = 16 * 1024
"""Most of one read: what is decoded in one bite (about 70 events) before others get their turn."""

MOST_HELD = 16
"""Reads that wait to be decoded together. Where streams are paced each read finds the caches cold, and what runs now and then,
over many, costs less than what runs each time. More gained little."""

HELD_BYTES = 2048
"""A longer read is decoded at once: what waits has to be small, for there may be a thousand connections."""


def _size_line(length: int) -> bytes:
    """What a chunk begins with that takes `length` bytes with its framing (RFC 9112, 7.1); too long where there is none."""
    for digits in (2, 3):
        line = b"%x\r\n" % max(length - digits - 4, 0)
        if len(line) == digits + 2:
            return line
    return b"0" * (length + 1)


SIZE_LINES = tuple(map(_size_line, range(HELD_BYTES + 1)))
"""By the length of a read: how it begins if it is one whole HTTP chunk and no more."""

ENDS_WITH_JSON = b"}\n\n\r\n"
"""How a chunk ends that ends with an event, unless that is ``[DONE]``."""


class Connection:
    """A connection that carries one exchange at a time; kept between them, watched for the server's closing it.

    `free` is called when an exchange ended and the connection can carry another one; `gone` when it is closed.
    """

    __slots__ = (
        "_announced", "_closed", "_complete", "_epoch", "_feed", "_first_reads", "_free", "_gone", "_got_headers",
        "_headers", "_held", "_held_read", "_held_stamps", "_holding", "_loop", "_now", "_parser", "_parts", "_receiver",
        "_recvmsg", "_reusable", "_since_ns", "_sock", "_stamped", "_stamps", "_trusted", "_unsent", "_until_close", "_usual",
        "_write_error", "connected_ns", "fd", "idle_since_ns", "on_body",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        stamps: Stamps,
        first_reads: FirstReads,
        free: Callable[[Connection], None],
        gone: Callable[[Connection], None],
    ):
        self.idle_since_ns = 0
        self.connected_ns: int | None = clock.monotonic_ns()
        self._sock = sock
        self.fd = sock.fileno()
        self._recvmsg = sock.recvmsg
        self._loop = loop
        self._now = clock.monotonic_ns
        self._stamps = stamps
        self._first_reads = first_reads
        self._free = free
        self._gone = gone
        self._receiver: Receiver | None = None
        self._unsent: memoryview | None = None
        self._write_error: OSError | None = None
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # called by the parser for each HTTP chunk
        self._headers: Headers = []
        self._held: list[bytes] = []  # reads that wait to be decoded, and the next two go with it
        self._held_stamps: list[bytes | None] = []
        self._held_read: list[int] = []
        self._holding = False  # the parser stands between two chunks: one of them, if it is a usual one, may wait
        self._stamped = stamps.enable(sock)
        self._trusted = self._stamped
        self._epoch = 0
        self._since_ns = 0
        self._got_headers = False
        self._announced = False
        self._usual = False  # the first token was handed on and the end is not there: all that comes is body
        self._until_close = False
        self._complete = False
        self._reusable = False
        self._closed = False
        self._parser: Any = httptools.HttpResponseParser(self)
        self._feed: Any = self._parser.feed_data
        loop.add_reader(self.fd, self.readable)

    @property
    def closed(self) -> bool:
        return self._closed

    def exchange(self, head: bytes, body: bytes, receiver: Receiver) -> None:
        """Begin an exchange: write as much as the kernel takes, and go on as it takes more."""
        self._receiver = receiver
        self._got_headers = self._announced = self._usual = self._holding = False
        self._until_close = self._complete = self._reusable = False
        self._write_error = None
        self._trusted = self._stamped
        self._epoch = self._stamps.epoch
        connected, self.connected_ns = self.connected_ns, None
        self._since_ns = self._now()
        self._write(head, body)
        receiver.sending(self._since_ns, connected_ns=connected, abort=partial(self._abort, receiver), catch_up=self.catch_up)
        if self._unsent is None and self._write_error is None:
            receiver.written(self._now())
        if receiver.awaits_first:
            self._first_reads.add(self.fd, self.readable)

    def close(self) -> None:
        """Close at once; an exchange under way is dropped without a word to its receiver."""
        if self._closed:
            return
        self._closed = True
        self._first_reads.discard(self.fd)
        self._loop.remove_reader(self.fd)
        self._loop.remove_writer(self.fd)
        self._gone(self)
        self._sock.close()
        self._receiver = None
        self._parser = self._feed = (
            None  # the parser holds our methods: without this each connection is a cycle for the collector
        )

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
            self._loop.add_writer(self.fd, self._writable)

    def _writable(self) -> None:
        rest, self._unsent = self._unsent, None
        self._loop.remove_writer(self.fd)
        if rest is not None and self._receiver is not None:
            self._write(rest, b"")
            if self._unsent is None and self._write_error is None:
                self._receiver.written(self._now())

    # --- reading

    def readable(self) -> None:
        """Read once. Only the stamp is needed now: the rest may wait, where the receiver says so and the stream goes on."""
        receive, now = self._recvmsg, self._now  # a method in a slot is called faster by a local name
        try:
            data, ancillary, _, _ = receive(READ_BYTES, ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            self.catch_up()
            self._broken(self._lost(str(problem)), self._write_error or problem)
            return
        read = now()
        stamp = ancillary[0][2] if ancillary else None
        if self._holding and data[-5:] == ENDS_WITH_JSON and len(data) <= HELD_BYTES:
            end = len(data)
            if data.startswith(SIZE_LINES[end]) and data.find(b"\n", 5) == end - 4 and data.find(b"\r", 5) == end - 2:
                # One whole chunk of one line: neither the end, nor an error of framing, nor ``[DONE]`` can hide in it.
                held = self._held
                held.append(data)
                self._held_stamps.append(stamp)
                self._held_read.append(read)
                if len(held) >= MOST_HELD:
                    self.catch_up()
                if read >= self._first_reads.due_ns:
                    self._first_reads.look()
                return
        self.catch_up()
        self._take(data, stamp, read)
        self._first_reads.look_if_due()  # after its own bytes: it may be among them, with more to read by now

    def catch_up(self) -> None:
        """Hand on the chunks that wait, in their order."""
        receiver = self._receiver
        if not self._held or receiver is None:
            return
        waiting = zip(self._held, self._held_stamps, self._held_read, strict=True)
        self._held, self._held_stamps, self._held_read = [], [], []
        try:
            for data, stamp, read in waiting:
                since, at = self._since_ns, self._arrival(stamp, read)
                self._since_ns = at
                receiver.body(data[len(SIZE_LINES[len(data)]) : -2], at, read, since)
        except Exception as bug:  # ours, as below
            self._fail(bug)
            raise

    def _take(self, data: bytes, stamp: bytes | None, read: int) -> None:
        """Take what one read brought: free it of framing and hand it on."""
        receiver = self._receiver
        if receiver is None or not data:
            self._nothing(read)
            return
        since, at = self._since_ns, self._arrival(stamp, read)
        if len(data) < READ_BYTES:  # the socket was drained: what comes next arrives after what this read brought
            self._since_ns = at
        try:
            self._feed(data)
            self._holding = self._usual and receiver.in_no_hurry and _ends_with_event(data, self._parts)
            if self._usual and len(self._parts) == 1:
                receiver.body(self._parts.pop(), at, read, since)
            else:
                self._hand_on(at, read, since, receiver)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            self._unparsable(problem, at, read, since, receiver)
        except Exception as bug:  # ours: whoever waits for the answer gets it, instead of a timeout
            self._fail(bug)
            raise

    def _arrival(self, stamp: bytes | None, read: int) -> int:
        """When the last byte of a read arrived: the kernel's stamp on the monotonic clock; the time of the read without one."""
        if stamp is None:
            self._trusted = False
            return read
        seconds, nanoseconds = _timespec(stamp)
        at: int = seconds * 1_000_000_000 + nanoseconds - self._stamps.offset_ns
        return at if self._since_ns <= at <= read else self._implausible(at, read)

    def _nothing(self, read: int) -> None:
        """The server closed the connection, or says on an idle one what nobody asked."""
        if self._receiver is None:
            self.close()
        elif self._until_close and self._got_headers:
            self._reusable = False
            self._end(read, read)
        else:
            self._broken(self._lost("the server closed the connection"), self._write_error)

    def _unparsable(self, problem: Exception, at: int, read: int, since: int, receiver: Receiver) -> None:
        if self._complete:  # a whole answer, and something after it
            self._reusable = False
            self._hand_on(at, read, since, receiver)
            return
        self._hand_on(at, read, since, receiver)  # what stood before it
        if self._receiver is receiver:
            self._broken(httpx2.RemoteProtocolError(f"not HTTP/1.1: {problem}"), problem)

    def _hand_on(self, at: int, read: int, since: int, receiver: Receiver) -> None:
        if self._got_headers and not self._announced:
            self._announced = True
            headers, self._headers = self._headers, []
            receiver.headers(at, read, self._parser.get_status_code(), headers)
        if self._parts:
            content = b"".join(self._parts)
            self._parts.clear()
            receiver.body(content, at, read, since)
        if self._complete:
            if self._receiver is receiver:
                self._end(at, read)
        elif self._announced and not receiver.awaits_first:
            self._usual = True
            self._first_reads.discard(self.fd)

    def _implausible(self, at: int, read: int) -> int:
        """A stamp from the future or from before the last one: within the error of the anchor, or the clock was stepped."""
        within = self._since_ns - 50_000 <= at <= read + 50_000
        self._trusted = self._trusted and within
        return min(max(at, self._since_ns), read)

    def _lost(self, what: str) -> httpx2.TransportError:
        return httpx2.WriteError(what) if self._write_error else httpx2.ReadError(what)

    # --- ends

    def _end(self, at: int, read: int) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        self._first_reads.discard(self.fd)
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
            self.catch_up()
            self._fail(error)

    def _broken(self, error: Exception, cause: BaseException | None) -> None:
        if cause is not None:
            error.__cause__ = cause.with_traceback(None)  # whose frames hold the receiver, and that holds the error: a cycle
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        receiver, self._receiver = self._receiver, None
        trusted = self._still_trusted()
        self.close()
        if receiver is not None:
            receiver.failed(error, self._now(), trusted=trusted)

    def _still_trusted(self) -> bool:
        epoch = self._stamps.renew()
        return self._trusted and epoch == self._epoch

    # --- called by the parser

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second answer")  # the parser stops here, and what is in hand is the first one

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 and status != 101:
            self._headers.clear()
            return
        self._got_headers = True
        names = {name.lower(): value for name, value in self._headers}
        framed = b"content-length" in names or b"chunked" in names.get(b"transfer-encoding", b"").lower()
        self._until_close = not framed and status not in (204, 304)

    def on_message_complete(self) -> None:
        if self._got_headers:
            self._complete = True
            self._usual = self._holding = False
            self._reusable = self._parser.should_keep_alive()


def _ends_with_event(data: bytes, parts: list[bytes]) -> bool:
    """Whether a read ended with an HTTP chunk, and so between two: the chunk's own line end follows an event's blank line."""
    return data[-4:] == b"\n\n\r\n" and bool(parts) and parts[-1][-2:] == b"\n\n"
