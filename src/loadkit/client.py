"""Sends a `Request` and returns its `Record`; the only place where errors of the transport become outcomes.

Requests go as ready bytes to the transport that stands under `AsyncOpenAI` (`Client.sdk` is that), not through its methods: a
burst is spread over the time that each request takes before its first byte. Measured in one run (`benchmarks/client_speed.py`):
typed `create` 1.9 ms of CPU, `AsyncOpenAI.post(content=…)` 0.7 ms, its inner HTTP client 0.1 ms with headers made ahead, the
transport itself less than half of that. Key, organisation, project and base URL are those that the SDK would send.

Nothing is ever sent twice: a rejection, a reset or a timeout is an outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import urllib.parse
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import httpx2

from loadkit.clock import Clock, SystemClock
from loadkit.deadlines import without_written
from loadkit.errors import UsageError
from loadkit.outcome import outcome_of
from loadkit.reception import Reception
from loadkit.record import Failure, Outcome, Record, Start
from loadkit.request import Request, Target, wire_body
from loadkit.transport.measuring import MeasuringTransport, server_of
from loadkit.transport.ordinary import ordinary_client, ordinary_exchange
from loadkit.transport.route import route
from loadkit.transport.turns import PER_TURN, Turns

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NO_KEY = "none"
"""What `AsyncOpenAI` gets where there is no key; it insists on one, and servers without keys ignore it."""


HEADER_SAFE = "!#$&'*+^`|~/:;=@,()[]{}<>? "


class Journal(Protocol):
    """Where the beginning and the end of each request are written down."""

    def start(self, start: Start) -> None: ...

    def ended(self, record: Record) -> None: ...


class Body(NamedTuple):
    """The bytes of a request and their hash."""

    content: bytes
    sha256: str


def body_of(request: Request) -> Body:
    """Make a request's body; belongs off the event loop, and before the request is due, where it holds a long document.

    Raises:
        UsageError: the document can't be read.
    """
    try:
        content = wire_body(request)
    except OSError as problem:
        raise UsageError(f"can't read the document of a request: {problem.strerror}", where=str(request.body_file)) from problem
    return Body(content, hashlib.sha256(content).hexdigest())


class Client:
    """A client for one target; `async with` opens and closes its connections.

    `keep_text=False` keeps hashes of answers and no text, neither in memory nor in the record. `ca_file` (PEM) and `http2`
    lead through the ordinary transport, as https and proxies do; `Record.transport` says which it was.

    Raises:
        UsageError: the target's URL is no http(s) URL, or the CA file can't be read.
    """

    def __init__(
        self,
        target: Target,
        *,
        clock: Clock | None = None,
        journal: Journal | None = None,
        kernel_stamps: bool = True,
        keep_text: bool = True,
        ca_file: Path | None = None,
        http2: bool = False,
    ):
        self.target = target
        self._clock: Clock = SystemClock() if clock is None else clock
        self._journal = journal
        self._keep_text = keep_text
        self._route = route(target.base_url, os.environ, ca_file=ca_file, http2=http2)
        self._urls: dict[str, httpx2.URL] = {}
        self._measuring: MeasuringTransport | None = None
        self._turns = Turns()
        if self._route.measuring:
            self._measuring = MeasuringTransport(clock=self._clock, kernel_stamps=kernel_stamps)
            self._turns = self._measuring.turns
            self._http = httpx2.AsyncClient(transport=self._measuring, trust_env=False, timeout=None)
        else:
            self._http = ordinary_client(self._route)
        self._headers = _standing_headers(target)
        self._receptions: set[Reception] = set()
        self._tokens_ended: int | None = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @cached_property
    def sdk(self) -> AsyncOpenAI:
        """The OpenAI SDK over this client's transport, without retries: for typed calls outside of measuring.

        It is imported on first use: it takes a second of CPU that a run need not wait for.
        """
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            base_url=self.target.base_url, api_key=self.target.api_key or NO_KEY, max_retries=0, http_client=self._http
        )

    async def send(self, request: Request, *, body: Body | None = None, begin: asyncio.Event | None = None) -> Record:
        """Send one request and wait for the end of its answer. A server's failure is an outcome, never an exception.

        `body` is what `body_of(request)` made ahead; without it the body is made now, which for a long document takes longer
        than a fair start of several requests allows. With `begin` everything is made ready, and the first byte waits for it:
        then several requests begin within microseconds of each other.

        Raises:
            UsageError: the request's document can't be read.
            RuntimeError: the client is closed, or was used in another event loop.
            asyncio.CancelledError: the task was cancelled, or the client closed meanwhile; the connection is closed and the
                record (`cancelled`) journalled.
        """
        record = await self.attempt(request, body=body, begin=begin)
        if record.outcome is Outcome.CANCELLED:
            raise asyncio.CancelledError(f"request {request.id} was cancelled")
        return record

    async def attempt(
        self,
        request: Request,
        *,
        body: Body | None = None,
        begin: asyncio.Event | None = None,
        ended: Callable[[int], None] | None = None,
    ) -> Record:
        """As `send`, but a cancellation is an outcome too: the record is returned, and the task may go on.

        `ended` hears when the answer ended (monotonic ns), before the record is made, so that the next request need not wait
        for that; of what is cancelled it hears nothing.
        """
        loop = self._usable_loop()
        due_ns = self._clock.monotonic_ns() if request.due_ns is None else request.due_ns
        if body is None:
            body = body_of(request) if request.body_file is None else await asyncio.to_thread(body_of, request)
        start = Start(id=request.id, due_ns=due_ns, slot=request.slot, case=request.case, body_sha256=body.sha256)
        if self._journal is not None:
            self._journal.start(start)
        limits = request.timeouts
        reception = Reception(
            loop=loop,
            now=self._clock.monotonic_ns,
            timeouts=limits if self._route.measuring else without_written(limits, whole=not request.stream),
            stream=request.stream,
            keep_text=self._keep_text,
        )
        self._receptions.add(reception)
        try:
            await self._exchange(request, body.content, reception, begin)
        except asyncio.CancelledError:
            if not reception.ended_already:
                reception.stop()
        finally:
            self._receptions.discard(reception)
            self._tokens_ended = _sum_of((self._tokens_ended, reception.tokens_seen))
        if reception.stopped:
            stopped = Failure(kind="cancelled", message="stopped by this side", phase=reception.phase)
            return self._ended(self._record(start, reception, Outcome.CANCELLED, stopped))
        if ended is not None:
            ended(reception.closed_ns or self._clock.monotonic_ns())
        with contextlib.suppress(asyncio.CancelledError):  # too late as well: the answer is there
            await self._turns.take_late()
        if self._measuring is not None:
            self._measuring.first_reads.look_if_due()
        return self._ended(self._record(start, reception, *outcome_of(reception)))

    def _usable_loop(self) -> asyncio.AbstractEventLoop:
        """Connections belong to the event loop that they were opened in."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise RuntimeError("this client is closed; make a new one")
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("this client was used in another event loop; make one for each")
        return loop

    async def open_ahead(self, count: int, *, connect_s: float | None = None) -> None:
        """See that the next `count` requests find a connection open, so that connecting makes none of them late.

        Where that fails nothing is said: the requests meet the same trouble, and it belongs in their records. The ordinary
        transport opens connections when they are used.
        """
        if self._measuring is not None:
            with contextlib.suppress(httpx2.TransportError):
                await self._measuring.open_ahead(server_of(httpx2.URL(self.target.base_url)), count, connect_s=connect_s)

    @property
    def tokens_seen(self) -> int | None:
        """Output tokens that have arrived, by the server's running counts; `None` once it did not tell them.

        What came last may wait to be decoded, at most sixteen reads of each stream: `catch_up` sees to it.
        """
        return _sum_of((self._tokens_ended, *(reception.tokens_seen for reception in self._receptions)))

    async def catch_up(self) -> None:
        """Decode the reads that wait, so that `tokens_seen` (output tokens by the server's running counts) has them too.

        A few streams at a time, because all of a thousand at once would leave arriving bytes unread too long; what arrives
        meanwhile may wait again.
        """
        for count, reception in enumerate(list(self._receptions), 1):
            reception.catch_up()
            if count % PER_TURN == 0:
                await asyncio.sleep(0)

    def refuse(self, request: Request, *, kind: str, message: str) -> Record:
        """A record (`not_sent`) for a request that is not sent at all, journalled like the others."""
        due_ns = self._clock.monotonic_ns() if request.due_ns is None else request.due_ns
        if self._journal is not None:
            self._journal.start(Start(id=request.id, due_ns=due_ns, slot=request.slot, case=request.case))
        record = Record(
            id=request.id,
            slot=request.slot,
            case=request.case,
            outcome=Outcome.NOT_SENT,
            due_ns=due_ns,
            streamed=request.stream,
            failure=Failure(kind=kind, message=message),
        )
        return self._ended(record)

    async def aclose(self) -> None:
        """Close the connections; requests under way are cancelled, and nothing can be sent any more."""
        self._closed = True
        for reception in list(self._receptions):
            reception.stop()
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _exchange(self, request: Request, body: bytes, reception: Reception, begin: asyncio.Event | None) -> None:
        url = self._url(request.path)
        headers = self._request_headers(request, len(body))
        if self._measuring is None:
            wire = httpx2.Request("POST", url, stream=httpx2.ByteStream(body), headers=list(headers.items()))
            if begin is not None:
                await begin.wait()
            await ordinary_exchange(self._http, wire, reception, self._clock)
            return
        head = b"".join(
            (b"POST ", url.raw_path, b" HTTP/1.1\r\n", *(b"%s: %s\r\n" % pair for pair in headers.items()), b"\r\n")
        )
        connect_s = request.timeouts.connect_s
        if begin is not None:
            await begin.wait()
        try:
            await self._measuring.exchange(server_of(url), head, body, reception, connect_s=connect_s)
        except httpx2.TransportError as problem:
            reception.failed(problem, self._clock.monotonic_ns(), trusted=False)
            return
        await reception.over

    def _ended(self, record: Record) -> Record:
        if self._journal is not None:
            self._journal.ended(record)
        return record

    def _url(self, path: str) -> httpx2.URL:
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = httpx2.URL(self.target.base_url + path)
        return url

    def _request_headers(self, request: Request, length: int) -> dict[bytes, bytes]:
        """`X-Request-Id` is the request's id, percent-encoded where a header can't carry it."""
        identity = urllib.parse.quote(request.id, safe=HEADER_SAFE)
        own = {
            b"accept": b"text/event-stream" if request.stream else b"application/json",
            b"content-length": b"%d" % length,
            b"x-request-id": identity.encode(),
        }
        for name, value in request.headers.items():
            own[name.lower().encode()] = value.encode()
        return {**self._headers, **own}

    def _record(self, start: Start, reception: Reception, outcome: Outcome, failure: Failure | None) -> Record:
        decoder = reception.decoder
        answered = reception.status == 200
        return Record(
            id=start.id,
            slot=start.slot,
            case=start.case,
            outcome=outcome,
            due_ns=start.due_ns,
            sent_ns=reception.sent_ns,
            connected_ns=reception.connected_ns,
            written_ns=reception.written_ns,
            headers_ns=reception.headers_ns,
            end_ns=reception.end_ns,
            closed_ns=reception.closed_ns,
            events=reception.events(),
            stamp_source="kernel" if reception.trusted else "read",
            transport="measuring" if self._route.measuring else "ordinary",
            streamed=reception.streamed,
            http_status=reception.status,
            failure=failure,
            finish_reason=decoder.finish_reason,
            usage=decoder.usage,
            answer=decoder.answer(),
            reasoning=decoder.reasoning(),
            tool_calls=decoder.tool_calls(),
            answer_sha256=decoder.answer_sha256() if answered else None,
            body_sha256=start.body_sha256,
            response_id=decoder.response_id,
            system_fingerprint=decoder.system_fingerprint,
            server_metrics=decoder.server_metrics,
        )


def _sum_of(counts: Iterable[int | None]) -> int | None:
    """Their sum; unknown if one is."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _standing_headers(target: Target) -> dict[bytes, bytes]:
    """Headers of every request: those that `AsyncOpenAI` sends and servers look at. No compression: it would hide arrivals."""
    headers = {
        "host": httpx2.URL(target.base_url).netloc.decode(),
        "user-agent": "loadkit",
        "content-type": "application/json",
        "accept-encoding": "identity",
    }
    if target.api_key:
        headers["authorization"] = f"Bearer {target.api_key}"
    for name, variable in (("openai-organization", "OPENAI_ORG_ID"), ("openai-project", "OPENAI_PROJECT_ID")):
        if os.environ.get(variable):
            headers[name] = os.environ[variable]
    return {name.encode(): value.encode() for name, value in headers.items()}
