"""`FaultyOutlet`: stands between a reply and its connection, and spoils what passes.

What is to be written goes through a queue with pauses in it, so that a stall holds back all that follows, in order. The truth
log gets the time of the real write: events are put into it when the reply makes them, and corrected when they go out.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable

import orjson

from loadkit.simulator.connection import JSON_TYPE, STREAM_TYPE, Exchange, Part, chunk, head
from loadkit.simulator.faults.table import Fault
from loadkit.simulator.frames import DONE, error_event
from loadkit.simulator.refusal import ENGINE_DEAD
from loadkit.simulator.truth import Witness

SEEN = ("token", "last")
HTML = (
    b"<html>\r\n<head><title>%d Bad Gateway</title></head>\r\n<body>\r\n<center><h1>%d Bad Gateway</h1></center>\r\n"
    b"<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)
LONG_SEPARATORS = "\u2028\u2029\u0085"


class FaultyOutlet:
    """An outlet with one fault. `die` kills the server's engine."""

    def __init__(self, exchange: Exchange, fault: Fault, die: Callable[[float], None]):
        self.exchange = exchange
        self.fault = fault
        self._die = die
        self._tokens = 0  # token events that the reply has made
        self._written = 0  # token events that have gone out
        self._silent = False
        self._packets: list[tuple[bytes, Part | None]] = []
        self._queue: asyncio.Queue[Callable[[], None] | float] = asyncio.Queue()
        self._gzip = zlib.compressobj(wbits=31) if fault.name == "gzip" else None
        exchange.witness.fault = str(fault)
        exchange.pump = exchange.connection.loop.create_task(self._pump())

    @property
    def witness(self) -> Witness:
        return self.exchange.witness

    def begin_stream(self) -> None:
        fault, extra = self.fault, ""
        kind = fault.text("type") if fault.name == "content-type" else STREAM_TYPE
        if self._gzip is not None:
            extra = "content-encoding: gzip"
        data = head(200, kind, None, close=self.exchange.connection.closing, extra=extra)
        if fault.name == "slow-first-byte":
            self._pause(fault.number("s"))
        self._do(lambda: self._begun(data))

    def event(self, payload: bytes, part: Part = "token") -> int:
        """Queue an event; 0 where the fault swallows it."""
        name = self.fault.name
        if self._silent or self._swallowed(part):
            return 0
        if part in SEEN:
            if self._tokens == self._after():
                self._strike()
                if self._silent:
                    return 0
            self._tokens += 1
        for position, (piece, pause_s) in enumerate(self._spoiled(payload, part)):
            final = position == 0
            if pause_s:
                self._pause(pause_s)
            self._send(piece, part if final else None)
        if name == "many-in-one":
            self._pack(part)
        return self.exchange.now()

    def end_stream(self) -> None:
        if self._silent:
            return
        self._silent = True
        tail = b"0\r\n\r\n" if self._gzip is None else chunk(self._gzip.flush()) + b"0\r\n\r\n"
        self._do(lambda: self._write(tail))
        self._do(self._finish)

    def answer(self, status: int, body: bytes, *, kind: str = JSON_TYPE, extra: str = "") -> None:
        """A whole answer; where a cut is due, its first half."""
        fault, connection = self.fault, self.exchange.connection
        self.witness.status = status
        if fault.name == "content-type":
            kind = fault.text("type")
        if self._gzip is not None:
            body = self._gzip.compress(body) + self._gzip.flush()
            extra = "content-encoding: gzip"
        if fault.name == "slow-first-byte":
            self._pause(fault.number("s"))
        data = head(status, kind, len(body), close=connection.closing, extra=extra) + body
        if fault.name in ("cut", "reset"):
            self._do(lambda: self._write(data[: len(data) - len(body) // 2 - 1]))
            self._do(lambda: self._drop(reset=fault.name == "reset"))
            return
        pieces = [(data, 0.0)] if fault.name != "one-in-many" else self._sliced(data)
        for piece, pause_s in pieces:
            self._pause(pause_s)
            self._do(lambda piece=piece: self._stamped(piece))  # type: ignore[misc]
        self._do(self._finish)

    def refuse(self) -> bool:
        """Faults that are played instead of an answer; True if this was one."""
        fault = self.fault
        if fault.name == "html":
            code = fault.count("code")
            self.answer(code, HTML % (code, code), kind="text/html")
        elif fault.name == "status":
            code = fault.count("code")
            message = "Too many requests." if code == 429 else "The simulator was asked to answer with this status."
            kind = {429: "RateLimitError", 503: "Service Unavailable"}.get(code, "InternalServerError")
            extra = "retry-after: 1" if code == 429 else ""
            error = {"message": message, "type": kind, "param": None, "code": code}
            self.answer(code, orjson.dumps({"error": error}), extra=extra)
        else:
            return False
        return True

    def _after(self) -> int:
        """Token events before the fault strikes; -1 where it is not of that kind."""
        return self.fault.count("after") if "after" in self.fault.parameters else -1

    def _strike(self) -> None:
        fault = self.fault
        if fault.name == "stall":
            self._pause(fault.number("s"))
        elif fault.name == "garbage":
            self._send(chunk(b"data: {this is no JSON\n\n"), None)
        elif fault.name in ("cut", "reset"):
            self._silent = True
            self._do(lambda: self._drop(reset=fault.name == "reset"))
        elif fault.name == "error-object":
            self._silent = True
            error = error_event(ENGINE_DEAD, "InternalServerError", 500)
            self._do(lambda: self._write(chunk(error)))
            self._send(chunk(DONE), "done")
            self._do(lambda: self._write(b"0\r\n\r\n"))
            self._do(self._abandon)
        elif fault.name == "engine-death":
            self._do(lambda: self._die(fault.number("s")))

    def _swallowed(self, part: Part) -> bool:
        name = self.fault.name
        return (name == "no-done" and part == "done") or (name == "no-usage" and part == "usage") or (
            name == "no-finish" and part == "finish"
        )  # fmt: skip

    def _spoiled(self, payload: bytes, part: Part) -> list[tuple[bytes, float]]:
        """The pieces of an event as they go out, each with the pause before it (seconds)."""
        fault = self.fault
        name, seen = fault.name, part in SEEN
        if name == "no-finish" and part == "last":
            payload = re.sub(rb'"finish_reason":"\w+"', b'"finish_reason":null', payload)
        elif name == "crlf":
            payload = payload.replace(b"\n", b"\r\n" if fault.text("ending") == "crlf" else b"\r")
        elif name == "comments":
            payload = b": a comment\n\nevent: message\nid: %d\nretry: 1000\n%b" % (self._tokens, payload)
        elif name == "multi-line-data" and payload.startswith(b"data: {"):
            payload = payload.replace(b',"choices":', b',\ndata: "choices":', 1).replace(b"data: {", b"data: {\ndata: ", 1)
        elif name == "u2028" and seen:
            payload = re.sub(rb'("(?:content|reasoning)":")', rb"\1" + LONG_SEPARATORS.encode(), payload, count=1)
        elif name == "huge-line" and seen and self._tokens == 2:
            payload = payload.replace(b'"choices":', b'"padding":"%b","choices":' % (b"x" * fault.count("bytes")), 1)
        elif name == "reasoning-field":
            payload = self._renamed(payload)
        elif name == "miscount":
            payload = self._miscounted(payload)
        if self._gzip is not None:
            payload = self._gzip.compress(payload) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        framed = chunk(payload)
        if name == "one-in-many":
            return self._sliced(framed)
        if name == "split-utf8":
            return _inside_character(framed, fault.number("ms") / 1e3)
        return [(framed, 0.0)]

    def _renamed(self, payload: bytes) -> bytes:
        found = re.search(rb'"reasoning":("(?:[^"\\]|\\.)*")', payload)
        if found is None:
            return payload
        new = b'"reasoning_content":' + found[1]
        return payload.replace(found[0], new if self.fault.text("name") == "old" else found[0] + b"," + new, 1)

    def _miscounted(self, payload: bytes) -> bytes:
        for key in ("completion", "prompt"):
            payload = _raised(payload, key.encode(), self.fault.count(key))
        return payload

    def _sliced(self, data: bytes) -> list[tuple[bytes, float]]:
        size, pause_s = max(1, self.fault.count("size")), self.fault.number("ms") / 1e3
        return [(data[start : start + size], pause_s if start else 0.0) for start in range(0, len(data), size)]

    def _pack(self, part: Part) -> None:
        if len(self._packets) < self.fault.count("events") and part not in ("done", "error"):
            return
        packets, self._packets = self._packets, []

        def write() -> None:
            at = self.exchange.write(b"".join(data for data, _ in packets))
            for _, inside in packets:
                self._note(at, inside)

        self._do(write)

    def _send(self, data: bytes, part: Part | None) -> None:
        if self.fault.name == "many-in-one":
            self._packets.append((data, part))
        else:
            self._do(lambda: self._note(self.exchange.write(data), part))

    def _begun(self, data: bytes) -> None:
        self.witness.status = 200
        self.witness.headers_ns = self.exchange.write(data)

    def _note(self, at: int, part: Part | None) -> None:
        """The truth about an event that went out at this time."""
        witness = self.witness
        if part in SEEN and self._written < len(witness.at_ns):
            witness.at_ns[self._written] = at
            self._written += 1
        if part in ("finish", "last"):
            witness.finish_ns = at
        elif part == "done":
            witness.done_ns = at

    def _stamped(self, data: bytes) -> None:
        at = self.exchange.write(data)
        if self.witness.headers_ns is None:
            self.witness.headers_ns = at
        self.witness.done_ns = at

    def _write(self, data: bytes) -> None:
        self.exchange.write(data)

    def _drop(self, *, reset: bool) -> None:
        self._abandon(finish=False)
        self.exchange.end()
        self.exchange.connection.abort(reset=reset)

    def _abandon(self, *, finish: bool = True) -> None:
        """The reply is over before its time: nothing more is to be generated for it."""
        if self.exchange.gone is not None:
            self.exchange.gone()
        if finish:
            self._finish()

    def _finish(self) -> None:
        connection = self.exchange.connection
        if self.fault.name == "stale-keep-alive":
            connection.stale = True
        self.exchange.finish()
        if self.fault.name == "early-close":
            connection.close()

    def _do(self, action: Callable[[], None]) -> None:
        self._queue.put_nowait(action)

    def _pause(self, seconds: float) -> None:
        if seconds:
            self._queue.put_nowait(seconds)

    async def _pump(self) -> None:
        while not self.exchange.over:
            action = await self._queue.get()
            if callable(action):
                action()
            else:
                await asyncio.sleep(action)


def _inside_character(data: bytes, pause_s: float) -> list[tuple[bytes, float]]:
    """Cut inside the first character of several bytes; whole where there is none."""
    for place, byte in enumerate(data[:-1]):
        if byte >= 0xC2 and data[place + 1] & 0xC0 == 0x80:
            return [(data[: place + 1], 0.0), (data[place + 1 :], pause_s)]
    return [(data, 0.0)]


def _raised(payload: bytes, key: bytes, off: int) -> bytes:
    """A token count of the usage, off by so many."""
    return re.sub(rb'"%b_tokens":(\d+)' % key, lambda found: b'"%b_tokens":%d' % (key, int(found[1]) + off), payload)
