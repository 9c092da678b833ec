"""The client against what no server should do, and used as no caller should: an outcome or a clear error, no crash, no wait."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from loadkit.client import Client
from loadkit.record import Outcome, Record, from_line, to_line
from loadkit.request import Target, Timeouts
from wire_servers import (
    DONE,
    END,
    ROLE,
    SSE,
    Close,
    Deaf,
    Kept,
    Pause,
    Step,
    answer,
    both_loops,
    chunk,
    delta,
    event,
    playing,
    request,
    usage_event,
    whole,
)

SURROGATE = b"\\ud83d"


async def sent(*play: Step, **options: object) -> Record:
    async with playing(list(play)) as wire, Client(wire.target) as client:
        return await client.send(replace(request(), **options))


@contextlib.contextmanager
def resetting(data: bytes) -> Iterator[Target]:
    """A server whose data and RST arrive in the same moment."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                connection, _ = listener.accept()
                connection.recv(65536)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.sendall(data)
                connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield Target(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1", model="m")
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


@both_loops
async def test_a_reset_that_comes_with_data_is_seen_at_once():
    """uvloop tells a reader once of an error, and a read that finds data does not find the error."""
    limits = Timeouts(first_token_s=20)
    with resetting(SSE + chunk(ROLE)) as target:
        async with Client(target) as client:
            for _ in range(5):
                async with asyncio.timeout(5):
                    record = await client.send(replace(request(), timeouts=limits))
                assert (record.outcome, record.failure.kind) == (Outcome.STREAM_ERROR, "reset")


@pytest.mark.parametrize(
    "odd",
    [
        b'data: {"error":{"message":"a' + SURROGATE + b'"}}\n\n',
        b'data: {"id":"a' + SURROGATE + b'","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"a' + SURROGATE + b'"}]}\n\n',
        b'data: {"choices":[],"system_fingerprint":"a' + SURROGATE + b'"}\n\n',
        b'data: {"choices":[],"metrics":{"a' + SURROGATE + b'":["' + SURROGATE + b'"]}}\n\n',
        b'data: {"choices":[],"metrics":' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}\n\n",
        b'data: {"choices":[],"metrics":{"a":NaN,"b":' + b"9" * 30 + b',"c":-' + b"9" * 4000 + b"}}\n\n",
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"'
        + SURROGATE
        + b'","function":{"name":"'
        + SURROGATE
        + b'","arguments":"'
        + SURROGATE
        + b'"}}]}}]}\n\n',
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":1e30,"function":{"name":"f"}}]}}]}\n\n',
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":"' + b"9" * 40 + b'","function":{"name":"f"}}]}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":9223372036854775808}}\n\n',
        b'data: {"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":9223372036854775807,"a":NaN}}\n\n',
        usage_event(1 << 62, (1 << 64) - 1 - (1 << 62)),
    ],
)
async def test_no_value_of_a_server_is_too_odd_for_a_record(odd: bytes):
    """Lone surrogates, numbers beyond 64 bits, nests deeper than a line can hold: the record is written, and read again."""
    before = delta(content="a", usage={"completion_tokens": 1})
    after = delta(finish="stop", content="b", usage={"completion_tokens": 3})
    record = await sent(SSE, chunk(ROLE), chunk(before), chunk(odd), chunk(after), chunk(DONE), END)
    assert from_line(to_line(record)) == record
    assert record.answer in ("ab", "axb")
    assert record.outcome in (Outcome.COMPLETED, Outcome.STREAM_ERROR)


@both_loops
@pytest.mark.parametrize(
    "second", [whole("500 EVIL", b'{"error":"evil"}'), SSE + chunk(delta(content="evil")) + chunk(DONE) + END, b"junk\r\n\r\n"]
)
async def test_an_answer_ends_where_it_ends(second: bytes):
    """What is glued to it belongs to nobody, and such a connection is not used again."""
    first = b"".join(step for step in answer("a") if isinstance(step, bytes))
    async with playing([first + second], answer("b")) as wire, Client(wire.target) as client:
        records = [await client.send(request()) for _ in range(2)]
        assert [(one.outcome, one.http_status, one.answer) for one in records] == [
            (Outcome.COMPLETED, 200, "a"),
            (Outcome.COMPLETED, 200, "b"),
        ]
        assert wire.connections == 2


@both_loops
async def test_an_end_is_seen_at_once_whatever_comes_with_it():
    """The read ends like one of a stream that goes on: with an event, which belongs to nobody."""
    ends = chunk(delta(finish="stop")) + chunk(DONE) + END + chunk(delta(content="x"))
    async with playing([SSE, chunk(delta(content="a")), Pause(0.1), ends, Deaf()]) as wire, Client(wire.target) as client:
        record = await asyncio.wait_for(client.send(request()), 0.9)
    assert (record.outcome, record.answer) == (Outcome.COMPLETED, "a")
    assert record.closed_ns - record.headers_ns < 500_000_000


async def test_what_stood_before_a_broken_chunk_counts():
    """Also where both came in one read."""
    record = await sent(SSE + chunk(ROLE) + chunk(delta(content="a")) + b"zz\r\n", Deaf())
    assert (record.outcome, record.failure.kind, record.answer) == (Outcome.STREAM_ERROR, "bad_http", "a")


async def test_the_status_of_an_error_counts_even_where_its_body_is_cut():
    """429 and half of its words."""
    record = await sent(b"HTTP/1.1 429 Busy\r\ncontent-length: 90\r\n\r\n" + b'{"error"', Close())
    assert (record.outcome, record.failure.kind) == (Outcome.HTTP_ERROR, "429")


async def test_an_answer_in_one_piece_needs_no_content_type():
    """Where no stream was asked for."""
    body = (
        b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
    )
    record = await sent(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body, stream=False)
    assert (record.outcome, record.answer) == (Outcome.COMPLETED, "hi")


@pytest.mark.parametrize("place", [0, 3])
async def test_an_object_that_calls_itself_an_error_is_one_with_a_text_too(place: int):
    """Wherever it stands."""
    texts = [chunk(delta(content="a")) for _ in range(4)]
    texts[place] = chunk(event(object="error", message="no", choices=[{"index": 0, "delta": {"content": "a"}}]))
    record = await sent(SSE, chunk(ROLE), *texts, chunk(delta(finish="stop")), chunk(DONE), END)
    assert (record.outcome, record.failure.kind) == (Outcome.STREAM_ERROR, "error_object")


async def test_a_part_without_text_is_no_answer():
    """Nor is it a token."""
    record = await sent(SSE, chunk(delta(content=[{"text": ""}])), chunk(delta(finish="stop")), chunk(DONE), END)
    assert (record.answer, record.events.kinds) == (None, "")


# --- how a client must not be used


@both_loops
@pytest.mark.parametrize("waits", [False, True])
async def test_closing_a_client_cancels_what_is_under_way(waits: bool):
    """In the middle of an answer, and before the moment that a held request waits for."""
    journal = Kept()
    begin = asyncio.Event() if waits else None
    async with playing([SSE, chunk(delta(content="a")), Deaf()]) as wire:
        client = Client(wire.target, journal=journal)
        task = asyncio.ensure_future(client.send(request(), begin=begin))
        await asyncio.sleep(0.2)
        await client.aclose()
        if begin is not None:
            begin.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        if not waits:
            await asyncio.wait_for(wire.gone_now.wait(), 5)
    assert (journal.lines[1].outcome, journal.lines[1].answer) == (Outcome.CANCELLED, None if waits else "a")


async def test_a_closed_client_says_so():
    """Instead of opening connections that nobody would close."""
    async with playing(answer("a")) as wire:
        async with Client(wire.target) as client:
            await client.send(request())
        with pytest.raises(RuntimeError, match="closed"):
            await client.send(request())


def test_a_client_belongs_to_one_event_loop():
    """Its connections are watched by the loop that they were opened in."""
    client = Client(Target(base_url="http://127.0.0.1:1/v1", model="m"))
    assert asyncio.run(client.send(request())).outcome is Outcome.CONNECTION
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(client.send(request()))
