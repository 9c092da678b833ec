"""One answer as it comes in: stamps and events in columns, deadlines per phase, and the facts for the record at the end."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from operator import sub

import orjson

from loadkit.deadlines import Silence, TimedOut, deadline, shortest_s
from loadkit.record import ErrorPhase, Events
from loadkit.request import Timeouts
from loadkit.stream import Decoder, Done, Event, Finished, Problem, Token, error_message
from loadkit.transport.receiver import nothing_waits
from loadkit.transport.unpacking import Unpacking

MAX_PLAIN_BYTES = 64 * 1024 * 1024
"""An answer in one piece, or an error body, is kept up to this size."""

DONE_GRACE_S = 1.0
"""After ``[DONE]`` the end of the body is waited for this long, so that the connection can be used again."""

HeaderList = list[tuple[bytes, bytes]]


class Reception:
    """What a transport tells about one exchange (`transport.Receiver`); `over` is resolved when nothing more will come.

    Times come in pairs, the kernel's stamp and the read time, because only the end says whether the kernel's can be trusted.
    """

    __slots__ = (
        "_abort", "_at", "_closed", "_end", "_headers", "_is_over", "_kinds", "_life_ns", "_limits", "_loop", "_merged", "_now",
        "_packed", "_phase_ns", "_plain", "_plain_bytes", "_read", "_timer", "_tokens", "_usual", "_written_ns", "catch_up",
        "connected_ns", "decoder", "done", "error", "finished", "over", "phase", "problem", "reason", "sent_ns", "status",
        "stopped", "streamed", "trusted",
    )  # fmt: skip

    in_no_hurry = True  # nobody looks at an answer before its end but for deadlines and running counts, and these catch up

    def __init__(
        self, *, loop: asyncio.AbstractEventLoop, now: Callable[[], int], timeouts: Timeouts, stream: bool, keep_text: bool
    ):
        self.decoder = Decoder(keep_text=keep_text)
        self._usual = self.decoder.usual
        self.over: asyncio.Future[None] = loop.create_future()
        self.phase = ErrorPhase.CONNECT
        self.sent_ns: int | None = None
        self.connected_ns: int | None = None
        self._written_ns: int | None = None
        self._headers: tuple[int, int] | None = None  # kernel stamp and read time, and so are the next two
        self._end: tuple[int, int] | None = None
        self._closed: tuple[int, int] | None = None
        self.status: int | None = None
        self.reason = ""
        self.streamed = stream
        self.done = False
        self.finished = False
        self.problem: Problem | None = None
        self.error: Exception | None = None
        self.trusted = False
        self._loop = loop
        self._now = now
        self._limits = timeouts
        self._at = array("q")  # one entry for each read that brought tokens, and so is the next
        self._read = array("q")
        self._merged: list[tuple[int, int, int]] = []  # reads with several: position, how many, when none had come
        self._kinds: list[str] = []
        self._tokens: array[int] | None = array("q")
        self._plain: list[bytes] | None = None
        self._plain_bytes = 0
        self._packed: Unpacking | None = None
        self._is_over = False
        self.stopped = False
        self._life_ns = 0  # the last read but for the usual ones, whose times stand in the columns
        self._phase_ns = 0
        self._abort: Callable[[Exception], None] | None = None
        self.catch_up: Callable[[], None] = nothing_waits  # takes what the transport put off; `tokens_seen` is exact then
        self._timer: asyncio.TimerHandle | None = None

    @property
    def reused_connection(self) -> bool:
        return self.sent_ns is not None and self.connected_ns is None

    @property
    def awaits_first(self) -> bool:
        return not self._at

    @property
    def ended_already(self) -> bool:
        """Nothing more comes; `over` says the same, but a task that is cancelled takes that along."""
        return self._is_over

    @property
    def tokens_seen(self) -> int | None:
        """Output tokens so far, but for reads that wait; `None` where tokens came and the server did not say how many."""
        running = self.decoder.running_tokens
        return 0 if running is None and not self._at else running

    # --- told by the transport

    def sending(
        self, at_ns: int, *, connected_ns: int | None, abort: Callable[[Exception], None], catch_up: Callable[[], None]
    ) -> None:
        self.sent_ns = at_ns
        self.connected_ns = connected_ns
        self._abort = abort
        self.catch_up = catch_up
        self._enter(ErrorPhase.SEND, at_ns)
        self._arm()

    def written(self, at_ns: int) -> None:
        self._written_ns = at_ns
        if self.phase is ErrorPhase.SEND:
            self._enter(ErrorPhase.HEADERS, at_ns)

    def headers(self, at_ns: int, read_ns: int, status: int, headers: HeaderList) -> None:
        self._headers = (at_ns, read_ns)
        self.status = status
        self._life_ns = read_ns
        self._enter(ErrorPhase.FIRST_TOKEN, read_ns)
        told = False  # of which kind the body is
        for name, value in headers:
            lowered = name.lower()
            if lowered == b"content-type":
                told = True
                self._content_type(value)
            elif lowered == b"content-encoding":
                encoding = value.strip().lower().decode("latin-1")
                self._packed = None if encoding in ("", "identity") else Unpacking(encoding)
            elif lowered == b"location":
                self.reason = value.decode("latin-1")
        if status != 200 or (not self.streamed and not told):
            self._plain = []

    def body(self, data: bytes, at_ns: int, read_ns: int, since_ns: int) -> None:
        usual = self._usual
        token = usual(data)
        if token is None:
            self._unusual(data, at_ns, read_ns, since_ns)
            return
        kind, tokens = token
        self._kinds.append(kind)
        if self._tokens is not None:
            self._count_tokens(tokens)
        self._at.append(at_ns)
        self._read.append(read_ns)

    def _unusual(self, data: bytes, at_ns: int, read_ns: int, since_ns: int) -> None:
        self._life_ns = read_ns
        if self._packed is not None:
            data = self._unpacked(data, self._packed)
        if self._plain is not None:
            self._keep_plain(data)
            return
        self._take(self.decoder.feed(data), at_ns, read_ns, since_ns)

    def ended(self, at_ns: int, read_ns: int, *, trusted: bool) -> None:
        if self._plain is None:
            self._take(self.decoder.close(), at_ns, read_ns, at_ns)
        elif self.status == 200:
            self.streamed = False
            self._take(self.decoder.whole(b"".join(self._plain)), at_ns, read_ns, at_ns)
        self._close(at_ns, read_ns, trusted=trusted)

    def failed(self, error: Exception, at_ns: int, *, trusted: bool) -> None:
        if not self.done:  # after [DONE] the answer is there, whatever becomes of the connection
            self.error = error
        self._close(at_ns, at_ns, trusted=trusted)

    # --- facts

    @property
    def written_ns(self) -> int | None:
        """On loopback the answer can be there before `send` returns; then the body was there too."""
        if self._written_ns is None or self.headers_ns is None:
            return self._written_ns
        return min(self._written_ns, self.headers_ns)

    @property
    def headers_ns(self) -> int | None:
        return self._stamp(self._headers)

    @property
    def end_ns(self) -> int | None:
        """The chunk with finish_reason; without one the last event."""
        if self._end is not None:
            return self._stamp(self._end)
        return self._stamp((self._at[-1], self._read[-1])) if self._at else None

    @property
    def closed_ns(self) -> int | None:
        return self._stamp(self._closed)

    def _stamp(self, pair: tuple[int, int] | None) -> int | None:
        return None if pair is None else pair[0 if self.trusted else 1]

    def events(self) -> Events:
        """The columns of the record; read times where the kernel's can't be trusted."""
        stamps = self._at if self.trusted else self._read
        late = list(map(sub, self._read, self._at)) if self.trusted else []
        return Events(
            at_ns=self._spread(stamps),
            late_ns=self._spread(late) if late else (),
            kinds="".join(self._kinds),
            tokens=None if self._tokens is None or not self._at else tuple(self._tokens),
            coalesced=tuple(self._coalesced()),
        )

    def _spread(self, reads: Sequence[int]) -> tuple[int, ...]:
        """A value per read as one per event."""
        if not self._merged:
            return tuple(reads)
        counts = [1] * len(reads)
        for position, count, _ in self._merged:
            counts[position] = count
        return tuple(chain.from_iterable(map(repeat, reads, counts)))

    def _coalesced(self) -> Iterator[tuple[int, int]]:
        """All events of a read but the last: their stamp is the last one's. The index, and when none of the read had come."""
        more = 0  # events so far beyond one per read
        for position, count, since_ns in self._merged:
            first = position + more
            more += count - 1
            for index in range(first, first + count - 1):
                yield index, since_ns

    def said(self) -> str:
        """What the body of an HTTP error says."""
        body = b"".join(self._plain or [])[:100_000]
        try:
            return error_message(orjson.loads(body))
        except orjson.JSONDecodeError:
            return error_message(body.decode("utf-8", "replace").strip() or self.reason or "no body")

    def stop(self) -> None:
        """Nobody wants the answer any more: close the connection."""
        self.stopped = self.stopped or not self._is_over
        if self._abort is not None:
            self._abort(ConnectionAbortedError("stopped"))
        now = self._now()
        self._close(now, now, trusted=False)

    # --- private

    def _take(self, events: list[Event], at_ns: int, read_ns: int, since_ns: int) -> None:
        count = 0
        for event in events:
            if type(event) is Token:
                count += 1
                kind, tokens = event
                self._kinds.append(kind)
                if self._tokens is not None:
                    self._count_tokens(tokens)
            else:
                self._other(event, at_ns, read_ns)
        if count:
            if count > 1:
                self._merged.append((len(self._at), count, since_ns))
            self._at.append(at_ns)
            self._read.append(read_ns)
            self.phase = ErrorPhase.STREAM

    def _count_tokens(self, tokens: int | None) -> None:
        """One event without a count makes all of them unknown: what its neighbours rose by is not theirs alone."""
        if tokens is None:
            self._tokens = None
        elif self._tokens is not None:
            self._tokens.append(tokens)

    def _keep_plain(self, data: bytes) -> None:
        self._plain_bytes += len(data)
        if self._plain is not None and self._plain_bytes <= MAX_PLAIN_BYTES:
            self._plain.append(data)

    def _other(self, event: Event, at_ns: int, read_ns: int) -> None:
        if type(event) is Finished:
            self.finished = True
            self._end = (at_ns, read_ns)
        elif type(event) is Done:
            self.done = True
            self._closes(at_ns, read_ns)
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(DONE_GRACE_S, self._give_up_waiting)
        elif type(event) is Problem and self.problem is None:
            self.problem = event

    def _closes(self, at_ns: int, read_ns: int) -> None:
        if self._closed is None:
            self._closed = (at_ns, read_ns)

    def _close(self, at_ns: int, read_ns: int, *, trusted: bool) -> None:
        if self._is_over:
            return
        self._is_over = True
        self.trusted = trusted
        self._closes(at_ns, read_ns)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._abort, self.catch_up = None, nothing_waits
        if not self.over.done():  # the waiting task may have been cancelled, and the future with it
            self.over.set_result(None)

    def _content_type(self, value: bytes) -> None:
        """What came decides how it is read, not what was asked for: proxies answer streams in one piece, and the reverse."""
        kind = value.split(b";")[0].strip().lower()
        if kind == b"application/json":
            self._plain = []
        elif kind == b"text/event-stream":
            self._plain = None
            self.streamed = True

    def _unpacked(self, data: bytes, packed: Unpacking) -> bytes:
        plain = packed.unpack(data)
        if packed.problem is not None and self.problem is None:
            self.problem = Problem("content_encoding", packed.problem)
        return plain

    # --- deadlines

    def _enter(self, phase: ErrorPhase, at_ns: int) -> None:
        self.phase = phase
        self._phase_ns = at_ns

    def _deadline(self) -> tuple[int, float]:
        token_ns = self._read[-1] if self._read else 0
        silence = Silence(
            phase=self.phase,
            phase_ns=self._phase_ns,
            life_ns=max(self._life_ns, token_ns),
            token_ns=token_ns,
            whole=self._plain is not None or not self.streamed,
        )
        return deadline(silence, self._limits)

    def _arm(self) -> None:
        """One timer per request: it looks at the deadline now and then, because setting one per token would cost more."""
        deadline_ns, _ = self._deadline()
        delay_s = min((deadline_ns - self._now()) / 1e9, shortest_s(self._limits))
        self._timer = self._loop.call_later(max(delay_s, 0.001), self._check)

    def _check(self) -> None:
        self.catch_up()
        deadline_ns, limit_s = self._deadline()
        if self._now() < deadline_ns:
            self._arm()
        elif self._abort is not None:
            self._abort(TimedOut(self.phase, limit_s))

    def _give_up_waiting(self) -> None:
        if self._abort is not None:
            self._abort(TimedOut(ErrorPhase.STREAM, DONE_GRACE_S))
