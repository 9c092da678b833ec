"""Servers that play exact byte sequences over real sockets: what comes when, in which pieces, and how the connection ends."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson

from loadkit.record import CaseFacts, Slot
from loadkit.request import Request, Target, Timeouts


@dataclass(frozen=True)
class Pause:
    """Seconds of silence."""

    seconds: float


@dataclass(frozen=True)
class Close:
    """Close the connection."""


@dataclass(frozen=True)
class Reset:
    """Close it with RST."""


@dataclass(frozen=True)
class Deaf:
    """Read nothing and say nothing until the client goes."""


Step = bytes | Pause | Close | Reset | Deaf
SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(**fields: object) -> bytes:
    """One SSE event with the envelope of a vLLM chunk."""
    return b"data: " + orjson.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", **fields}) + b"\n\n"


def delta(finish: str | None = None, usage: dict | None = None, **fields: object) -> bytes:
    """An event with one choice and a delta."""
    more = {} if usage is None else {"usage": usage}
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish}], **more)


ROLE = delta(role="assistant", content="")


def usage_event(prompt: int, completion: int, **details: object) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **details}
    return event(choices=[], usage=usage)


def whole(status: str, body: bytes, *, content_type: str = "application/json", more: str = "") -> bytes:
    """A response in one piece."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def answer(*texts: str, tail: bytes = DONE) -> list[Step]:
    """A complete streamed answer, one chunk per text."""
    said = [chunk(delta(content=text)) for text in texts]
    return [SSE, chunk(ROLE), *said, chunk(delta(finish="stop")), chunk(usage_event(3, len(texts))), chunk(tail) + END]


@dataclass
class Wire:
    """What a server saw, and where it is."""

    base_url: str = ""
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    gone: int = 0  # connections that the client closed
    gone_now: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def target(self) -> Target:
        return Target(base_url=self.base_url, model="m")

    def header(self, name: str, index: int = -1) -> str | None:
        for line in self.heads[index].split(b"\r\n")[1:]:
            key, _, value = line.partition(b": ")
            if key.lower() == name.lower().encode():
                return value.decode()
        return None


@asynccontextmanager
async def playing(*plays: Sequence[Step], host: str = "127.0.0.1", ssl: object = None) -> AsyncIterator[Wire]:
    """A server that answers its n-th request with the n-th play (the last one over and over)."""
    wire = Wire()
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        wire.connections += 1
        try:
            while await _read_request(reader, wire):
                play = plays[min(count, len(plays) - 1)]
                count += 1
                if not await _play(play, reader, writer):
                    return
            wire.gone += 1
            wire.gone_now.set()
        except ConnectionError:
            wire.gone += 1
            wire.gone_now.set()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=ssl)
    port = server.sockets[0].getsockname()[1]
    scheme = "https" if ssl else "http"
    wire.base_url = f"{scheme}://{'[::1]' if ':' in host else host}:{port}/v1"
    try:
        yield wire
    finally:
        server.close()


async def _read_request(reader: asyncio.StreamReader, wire: Wire) -> bool:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return False
    wire.heads.append(head)
    length = int(wire.header("content-length") or 0)
    wire.bodies.append(await reader.readexactly(length))
    return True


async def _play(play: Sequence[Step], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the connection is still of use afterwards."""
    for step in play:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
            await asyncio.sleep(0.002)  # the next step is a segment of its own
        elif isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, Deaf):
            if await reader.read(1) == b"":
                raise ConnectionResetError
        else:
            if isinstance(step, Reset):
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort() if isinstance(step, Reset) else writer.close()
            return False
    return True


FACTS = CaseFacts(scenario="s", case="c", workload="speed")
PATIENT = Timeouts(connect_s=5, send_s=5, headers_s=10, first_token_s=10, between_tokens_s=10)


def request(id: str = "r-1", *, body: bytes = b'{"stream":true}', timeouts: Timeouts = PATIENT, **more: object) -> Request:  # noqa: A002
    return Request(id=id, slot=Slot(), case=FACTS, body=body, timeouts=timeouts, **more)


class Kept:
    """A journal in memory."""

    def __init__(self) -> None:
        self.lines: list[object] = []

    def start(self, start: object) -> None:
        self.lines.append(start)

    def ended(self, record: object) -> None:
        self.lines.append(record)


def both_loops(test: Callable[..., object]) -> Callable[..., object]:
    """Runs an async test on asyncio's own loop and on uvloop."""
    import functools

    import pytest
    import uvloop

    @pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
    @functools.wraps(test)
    def run(*args: object, loop: str, **kwargs: object) -> None:
        (uvloop.run if loop == "uvloop" else asyncio.run)(test(*args, **kwargs))

    import inspect

    signature = inspect.signature(test)
    added = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), added])
    return run
