"""The client against servers that play exact bytes: each way an exchange can go is one outcome."""

# ruff: noqa: E501 - a play is read in one line

import asyncio
import gc
import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from loadkit.client import Client, body_of
from loadkit.errors import UsageError
from loadkit.reception import Reception
from loadkit.record import ErrorPhase, Outcome, Record, Slot, Start, Usage, from_line, to_line
from loadkit.request import Request, Target, Timeouts
from loadkit.stream import Decoder
from wire_servers import (
    DONE,
    END,
    FACTS,
    PATIENT,
    ROLE,
    SSE,
    Close,
    Deaf,
    Kept,
    Pause,
    Reset,
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


async def sent(*plays: Sequence[Step], of: Request | None = None, **options: object) -> Record:
    """The record of one request to a server that plays this."""
    async with playing(*plays) as wire, Client(wire.target, **options) as client:
        return await client.send(request() if of is None else of)


def ordered(record: Record) -> bool:
    stamps = [record.due_ns, record.connected_ns, record.sent_ns, record.written_ns, record.headers_ns, *record.events.at_ns]
    stamps += [record.end_ns, record.closed_ns]
    known = [stamp for stamp in stamps if stamp is not None]
    return known == sorted(known)


@both_loops
async def test_a_complete_answer_is_completed_with_every_stamp():
    """finish_reason and [DONE]: text, usage, events with kinds, stamps in order, and the record survives its file."""
    record = await sent(answer("a", "b", "c"))
    assert (record.outcome, record.answer, record.finish_reason) == (Outcome.COMPLETED, "abc", "stop")
    assert (record.usage, record.events.kinds, record.streamed) == (Usage(prompt_tokens=3, completion_tokens=3), "aaa", True)
    assert record.events.at_ns[-1] < record.end_ns < record.closed_ns
    assert ordered(record)
    assert from_line(to_line(record)) == record


@both_loops
async def test_stamps_come_from_the_kernel():
    """Each event has the kernel's stamp, and how much later it was read; without kernel stamps, the read time."""
    kernel = await sent([Pause(0.1), *answer("a", "b")])  # the kernel begins to stamp a moment after it is first asked to
    assert kernel.stamp_source == "kernel"
    assert len(kernel.events.late_ns) == 2
    assert all(0 <= late < 10**9 for late in kernel.events.late_ns)
    read = await sent(answer("a", "b"), kernel_stamps=False)
    assert (read.stamp_source, read.events.late_ns) == ("read", ())


async def test_headers_and_the_role_chunk_are_no_first_token():
    """vLLM sends headers before the prefill; the first event is the first token that can be seen."""
    record = await sent([SSE, chunk(ROLE), chunk(b": keep-alive\n\n"), Pause(0.2), *answer("a")[1:]])
    assert record.events.at_ns[0] - record.headers_ns >= 0.2e9


async def test_events_of_one_read_are_marked_as_coalesced():
    """Those before the last of a read carry its stamp, and a time before which they had not come."""
    three = b"".join(delta(content=text) for text in "abc")
    record = await sent([SSE, chunk(delta(content="z")), Pause(0.05), chunk(three), Pause(0.05), *answer("d")[1:]])
    assert record.events.kinds == "aaaaa"
    first, *merged, _ = record.events.at_ns
    assert len(set(merged)) == 1
    assert [index for index, _ in record.events.coalesced] == [1, 2]
    assert all(first <= since <= merged[0] for _, since in record.events.coalesced)


async def test_running_usage_gives_tokens_per_event():
    """k per event, hidden tokens with the next visible one."""
    counts = [1, 4]
    said = [chunk(delta(content="x", usage={"completion_tokens": count})) for count in counts]
    record = await sent([SSE, *said, chunk(delta(finish="length")), chunk(usage_event(3, 4)), chunk(DONE) + END])
    assert record.events.tokens == (1, 3)


FAILURES: list[tuple[str, Sequence[Step], Outcome, str]] = [
    ("error object", [SSE, chunk(delta(content="a")), chunk(event(error={"message": "died"})), chunk(DONE) + END], Outcome.STREAM_ERROR, "error_object"),
    ("error string", [SSE, chunk(event(error="died")), chunk(DONE) + END], Outcome.STREAM_ERROR, "error_object"),
    ("error event", [SSE, chunk(b"event: error\ndata: died\n\n"), chunk(DONE) + END], Outcome.STREAM_ERROR, "error_object"),
    ("error, then close", [SSE, chunk(event(error="died")), Close()], Outcome.STREAM_ERROR, "error_object"),
    ("error object in one piece", [whole("200 OK", b'{"error":{"message":"died"}}')], Outcome.STREAM_ERROR, "error_object"),
    ("no done", [SSE, chunk(delta(content="a")), chunk(delta(finish="stop")), END], Outcome.STREAM_ERROR, "no_done"),
    ("no finish reason", [SSE, chunk(delta(content="a")), chunk(DONE) + END], Outcome.STREAM_ERROR, "no_finish_reason"),
    ("empty", [SSE, END], Outcome.STREAM_ERROR, "no_finish_reason"),
    ("not json", [SSE, chunk(b"data: {oops\n\n"), chunk(delta(finish="stop")), chunk(DONE) + END], Outcome.STREAM_ERROR, "malformed"),
    ("cut", [SSE, chunk(delta(content="a")), Close()], Outcome.STREAM_ERROR, "closed"),
    ("reset", [SSE, chunk(delta(content="a")), Pause(0.05), Reset()], Outcome.STREAM_ERROR, "reset"),
    ("cut after the finish", [SSE, chunk(delta(finish="stop")), Close()], Outcome.STREAM_ERROR, "closed"),
    ("html with 200", [whole("200 OK", b"<html>", content_type="text/html")], Outcome.STREAM_ERROR, "no_finish_reason"),
    ("closed before the headers", [Close()], Outcome.CONNECTION, "closed"),
    ("reset before the headers", [Reset()], Outcome.CONNECTION, "reset"),
    ("half of the headers", [b"HTTP/1.1 200 OK\r\nserver: x\r\n", Close()], Outcome.CONNECTION, "closed"),
    ("not http", [b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], Outcome.CONNECTION, "bad_http"),
    ("bad chunk", [SSE, b"zz\r\n"], Outcome.STREAM_ERROR, "bad_http"),
    ("429", [whole("429 Too Many Requests", b'{"error":{"message":"slow down"}}')], Outcome.HTTP_ERROR, "429"),
    ("503", [whole("503 Service Unavailable", b'{"error":"Service Unavailable"}')], Outcome.HTTP_ERROR, "503"),
    ("401", [whole("401 Unauthorized", b'{"error":"Unauthorized"}')], Outcome.HTTP_ERROR, "401"),
    ("404", [whole("404 Not Found", b'{"detail":"Not Found"}')], Outcome.HTTP_ERROR, "404"),
    ("500 without a body", [whole("500 Internal Server Error", b"")], Outcome.HTTP_ERROR, "500"),
    ("502 of a proxy", [whole("502 Bad Gateway", b"<html>bad gateway</html>", content_type="text/html")], Outcome.HTTP_ERROR, "502"),
    ("redirect", [whole("307 Temporary Redirect", b"", more="location: http://elsewhere/\r\n")], Outcome.HTTP_ERROR, "307"),
    ("unknown encoding", [SSE.replace(b"\r\n\r\n", b"\r\ncontent-encoding: br\r\n\r\n"), chunk(b"xx") + END], Outcome.STREAM_ERROR, "content_encoding"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "play", "outcome", "kind"), FAILURES, ids=[row[0] for row in FAILURES])
@both_loops
async def test_a_failure_of_the_server_is_an_outcome(name: str, play: Sequence[Step], outcome: Outcome, kind: str):
    """Never an exception, never a success, never sent twice; the next request gets through."""
    async with playing(play, answer("a")) as wire, Client(wire.target) as client:
        record = await client.send(request())
        assert (record.outcome, record.failure.kind, len(wire.bodies)) == (outcome, kind, 1)
        assert record.closed_ns is not None
        assert (await client.send(request("r-2"))).outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error":{"message":"too long","code":400}}', "too long"),
        (b'{"error":"Unauthorized"}', "Unauthorized"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"object":"error","message":"old vLLM"}', "old vLLM"),
        (b"plain text", "plain text"),
    ],
)
async def test_an_http_error_says_what_its_body_says(body: bytes, said: str):
    """The message of the server is in the record."""
    record = await sent([whole("400 Bad Request", body)])
    assert (record.failure.message, record.http_status) == (said, 400)


async def test_tokens_of_a_failed_stream_are_kept():
    """They stay in a bucket of their own: events and text are there, the outcome says what to think of them."""
    record = await sent([SSE, chunk(delta(content="a")), chunk(event(error="died")), chunk(DONE) + END])
    assert (record.events.kinds, record.answer) == ("a", "a")


async def test_missing_usage_is_completed_with_unknown_counts():
    """Never the tokens that were asked for."""
    record = await sent([SSE, chunk(delta(content="a")), chunk(delta(finish="stop")), chunk(DONE) + END])
    assert (record.outcome, record.usage, record.events.tokens) == (Outcome.COMPLETED, Usage(), None)


async def test_nobody_listens():
    """Refused while connecting."""
    async with playing([]) as wire:
        target = wire.target
    async with Client(target) as client:
        record = await client.send(request())
    assert (record.outcome, record.failure.kind, record.failure.phase) == (Outcome.CONNECTION, "refused", ErrorPhase.CONNECT)
    assert record.sent_ns is None


async def test_a_name_that_does_not_exist():
    """The failure names the lookup, not a timeout."""
    async with Client(Target(base_url="http://no-such-host.invalid/v1", model="m")) as client:
        record = await client.send(request())
    assert (record.outcome, record.failure.kind) == (Outcome.CONNECTION, "dns")


SHORT = Timeouts(connect_s=0.3, send_s=0.3, headers_s=0.3, first_token_s=0.3, between_tokens_s=0.3)
LIMITS: list[tuple[str, Sequence[Step], Timeouts, ErrorPhase]] = [
    ("headers", [Deaf()], replace(PATIENT, headers_s=0.3), ErrorPhase.HEADERS),
    ("first token", [SSE, chunk(ROLE), Deaf()], replace(PATIENT, first_token_s=0.3), ErrorPhase.FIRST_TOKEN),
    ("first token, with comments", [SSE, *[chunk(b": keep-alive\n\n"), Pause(0.1)] * 30], SHORT, ErrorPhase.FIRST_TOKEN),
    ("between tokens", [SSE, chunk(delta(content="a")), Deaf()], replace(PATIENT, between_tokens_s=0.3), ErrorPhase.STREAM),
    ("comments for ever", [SSE, chunk(delta(content="a")), *[chunk(b": x\n\n"), Pause(0.1)] * 30], SHORT, ErrorPhase.STREAM),
    ("body of an error", [b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\n{", Deaf()], SHORT, ErrorPhase.FIRST_TOKEN),
]  # fmt: skip


@pytest.mark.parametrize(("name", "play", "limits", "phase"), LIMITS, ids=[row[0] for row in LIMITS])
@both_loops
async def test_silence_ends_with_the_phase_it_came_in(name: str, play: Sequence[Step], limits: Timeouts, phase: ErrorPhase):
    """Each phase has its limit; the connection is closed and the server sees it."""
    async with playing(play) as wire, Client(wire.target) as client:
        record = await client.send(request(timeouts=limits))
        assert (record.outcome, record.failure.kind, record.failure.phase) == (Outcome.TIMEOUT, f"{phase.value}_timeout", phase)
        await asyncio.wait_for(wire.gone_now.wait(), 5)


async def test_comments_are_life_between_tokens():
    """A preempted request that is kept alive by comments goes on."""
    limits = replace(PATIENT, between_tokens_s=0.3)
    kept_alive = [chunk(b": keep-alive\n\n"), Pause(0.1)] * 6
    record = await sent([SSE, chunk(delta(content="a")), *kept_alive, *answer("b")[1:]], of=request(timeouts=limits))
    assert (record.outcome, record.answer) == (Outcome.COMPLETED, "ab")


async def test_a_server_that_takes_no_body_times_out_while_sending():
    """The kernel's buffers are full, and nobody reads."""

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Holds both ends: from Python 3.13 on a writer that nobody holds closes its connection."""
        await asyncio.sleep(3600)
        writer.close()

    listener = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1)
    target = Target(base_url=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1", model="m")
    async with Client(target) as client:
        record = await client.send(request(body=b"x" * 30_000_000, timeouts=replace(PATIENT, send_s=0.3)))
    listener.close()
    assert (record.outcome, record.failure.kind, record.written_ns) == (Outcome.TIMEOUT, "send_timeout", None)


@both_loops
async def test_a_large_body_arrives_whole():
    """Longer than the kernel takes at once: it goes on as the server reads."""
    body = orjson.dumps({"stream": True, "x": "y" * 20_000_000})
    async with playing(answer("a")) as wire, Client(wire.target) as client:
        record = await client.send(request(body=body))
        assert (record.outcome, wire.bodies[0] == body) == (Outcome.COMPLETED, True)
        assert record.written_ns >= record.sent_ns
    assert record.body_sha256 == hashlib.sha256(body).hexdigest()


async def test_an_early_answer_to_a_large_body_is_read():
    """A server that refuses before it has read everything: its status counts, not the broken pipe."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(whole("413 Content Too Large", b'{"error":"too large"}', more="connection: close\r\n"))
        await writer.drain()
        await reader.read(100_000_000)
        await asyncio.sleep(0.2)
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    target = Target(base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", model="m")
    async with Client(target) as client:
        record = await client.send(request(body=b"x" * 30_000_000))
    server.close()
    assert (record.outcome, record.failure.kind) == (Outcome.HTTP_ERROR, "413")


@both_loops
async def test_a_connection_is_used_again():
    """Only the first request connects; the stamp says so."""
    async with playing(answer("a")) as wire, Client(wire.target) as client:
        first = await client.send(request())
        second = await client.send(request("r-2"))
        assert (wire.connections, first.connected_ns is None, second.connected_ns) == (1, False, None)


async def test_connections_are_as_many_as_the_requests_at_once():
    """No request waits for a connection of another one (100 is the limit of other clients)."""
    async with playing([SSE, Pause(0.5), *answer("a")[1:]]) as wire, Client(wire.target) as client:
        records = await asyncio.gather(*(client.send(request(f"r-{number}")) for number in range(150)))
        assert wire.connections == 150
    assert {record.outcome for record in records} == {Outcome.COMPLETED}


@both_loops
async def test_a_stale_connection_is_told_apart():
    """The server closed it as the request was on its way: a failure before the first byte, on a reused connection."""
    async with playing(answer("a"), [Reset()]) as wire, Client(wire.target) as client:
        await client.send(request())
        record = await client.send(request("r-2"))
    assert (record.outcome, record.failure.reused_connection, record.connected_ns) == (Outcome.CONNECTION, True, None)


async def test_a_connection_that_the_server_closed_while_idle_is_not_used():
    """Its end is seen while it is idle, so no request is lost to it."""
    async with playing([*answer("a"), Close()], answer("b")) as wire, Client(wire.target) as client:
        await client.send(request())
        await asyncio.sleep(0.1)
        record = await client.send(request("r-2"))
        assert (record.outcome, wire.connections) == (Outcome.COMPLETED, 2)


@both_loops
async def test_cancelling_closes_the_socket_and_journals_the_record():
    """The server sees the end at once; the record says cancelled, with what had come."""
    journal = Kept()
    async with playing([SSE, chunk(delta(content="a")), Deaf()]) as wire, Client(wire.target, journal=journal) as client:
        task = asyncio.ensure_future(client.send(request()))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(wire.gone_now.wait(), 5)
    start, record = journal.lines
    assert isinstance(start, Start)
    assert (record.outcome, record.answer, record.failure.phase) == (Outcome.CANCELLED, "a", ErrorPhase.STREAM)


async def test_cancelling_while_waiting_for_the_headers():
    """Also before anything came."""
    journal = Kept()
    async with playing([Deaf()]) as wire, Client(wire.target, journal=journal) as client:
        task = asyncio.ensure_future(client.send(request()))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(wire.gone_now.wait(), 5)
    assert (journal.lines[1].outcome, journal.lines[1].failure.phase) == (Outcome.CANCELLED, ErrorPhase.HEADERS)


@both_loops
async def test_a_cancellation_after_the_end_of_an_answer_comes_too_late():
    """Answers that ended together are recorded one after the other: cancelled meanwhile they are completed all the same."""

    class Cancels(Kept):
        def ended(self, record: object) -> None:
            if not any(isinstance(line, Record) for line in self.lines):
                for task in tasks:
                    if task is not asyncio.current_task():
                        task.cancel()
            super().ended(record)

    journal = Cancels()
    tasks: list[asyncio.Task[Record]] = []
    async with playing([b"".join(answer("a"))]) as wire, Client(wire.target, journal=journal) as client:
        await client.open_ahead(60)
        tasks += [asyncio.ensure_future(client.send(request(f"r-{number}"))) for number in range(60)]
        done = await asyncio.gather(*tasks, return_exceptions=True)
    records = [line for line in journal.lines if isinstance(line, Record)]
    assert sorted(record.id for record in records) == sorted(f"r-{number}" for number in range(60))
    assert [record.id for record in records if record.outcome is Outcome.CANCELLED and record.finish_reason] == []
    completed = [record.id for record in records if record.outcome is Outcome.COMPLETED]
    assert sorted(one.id for one in done if isinstance(one, Record)) == sorted(completed)


async def test_the_journal_has_a_start_before_sending_and_an_end():
    """One of each, whatever happens."""
    journal = Kept()
    async with playing([Close()]) as wire, Client(wire.target, journal=journal) as client:
        record = await client.send(request(due_ns=5))
    start, ended = journal.lines
    assert (start.id, start.due_ns, start.body_sha256, ended) == ("r-1", 5, record.body_sha256, record)


async def test_the_request_carries_its_id_and_key():
    """X-Request-Id joins records with server logs; headers of the request win."""
    async with playing(answer("a")) as wire:
        target = replace(wire.target, api_key="sk-1")
        async with Client(target) as client:
            await client.send(request("m-検索 1", headers={"X-Team": "blue"}))
        seen = {
            name: wire.header(name) for name in ("x-request-id", "authorization", "x-team", "accept-encoding", "content-type")
        }
    assert seen == {
        "x-request-id": "m-%E6%A4%9C%E7%B4%A2 1",
        "authorization": "Bearer sk-1",
        "x-team": "blue",
        "accept-encoding": "identity",
        "content-type": "application/json",
    }


async def test_no_key_no_authorisation():
    """A target without a key sends none."""
    async with playing(answer("a")) as wire, Client(wire.target) as client:
        await client.send(request())
        assert wire.header("authorization") is None


@both_loops
async def test_an_answer_in_one_piece():
    """stream: false has no events, and needs no [DONE]."""
    body = orjson.dumps(
        {"id": "x", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}
    )
    record = await sent([whole("200 OK", body)], of=request(stream=False, body=b"{}"))
    assert (record.outcome, record.answer, record.streamed, record.events.at_ns) == (Outcome.COMPLETED, "hi", False, ())
    assert record.usage.completion_tokens == 1


async def test_an_answer_in_one_piece_to_a_request_that_asked_for_a_stream():
    """What came decides how it is read."""
    body = orjson.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]})
    record = await sent([whole("200 OK", body)])
    assert (record.outcome, record.answer, record.streamed) == (Outcome.COMPLETED, "hi", False)


@pytest.mark.parametrize("cut", [1, 7, 1000])
async def test_bytes_cut_anywhere(cut: int):
    """Headers, chunk sizes, characters and events may be cut at any byte."""
    stream = b"".join(step for step in answer("你", "好", "🎉") if isinstance(step, bytes))
    pieces = (
        [stream[at : at + cut] for at in range(0, len(stream), cut)]
        if cut > 1
        else [stream[:200], *[bytes([b]) for b in stream[200:330]], stream[330:]]
    )
    record = await sent(pieces)
    assert (record.outcome, record.answer) == (Outcome.COMPLETED, "你好🎉")


async def test_a_body_that_ends_with_the_connection():
    """HTTP/1.0 style: neither a length nor chunks."""
    head = b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    record = await sent([head, delta(content="a"), delta(finish="stop"), DONE, Close()])
    assert (record.outcome, record.answer) == (Outcome.COMPLETED, "a")


async def test_compressed_bodies_are_unpacked():
    """Not asked for, but proxies do it."""
    plain = delta(content="a") + delta(finish="stop") + DONE
    head = SSE.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    packed = gzip.compress(plain)
    record = await sent([head, chunk(packed[:30]), chunk(packed[30:]) + END])
    assert (record.outcome, record.answer) == (Outcome.COMPLETED, "a")


async def test_interim_responses_are_passed_over():
    """100 and 103 come before the real one."""
    record = await sent([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", *answer("a")])
    assert (record.outcome, record.http_status, record.answer) == (Outcome.COMPLETED, 200, "a")


async def test_the_end_of_the_body_may_stay_away_after_done():
    """[DONE] was the end; the connection is not used again."""
    async with (
        playing([SSE, chunk(delta(finish="stop")), chunk(DONE), Deaf()], answer("b")) as wire,
        Client(wire.target) as client,
    ):
        record = await client.send(request())
        assert record.outcome is Outcome.COMPLETED
        await client.send(request("r-2"))
        assert wire.connections == 2


async def test_text_can_be_left_out():
    """keep_text=False keeps hashes only, of a thinking and tool-calling answer too."""
    call = delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"secret":1}'}}])
    play = [
        SSE,
        chunk(delta(reasoning="hm")),
        chunk(delta(content="secret")),
        chunk(call),
        chunk(delta(finish="stop")),
        chunk(DONE) + END,
    ]
    record = await sent(play, keep_text=False)
    assert (record.answer, record.reasoning, record.tool_calls[0].arguments, record.tool_calls[0].name) == (None, None, "", "f")
    assert record.answer_sha256 == hashlib.sha256(b"secret").hexdigest()
    assert b"secret" not in to_line(record)


async def test_a_document_is_spliced_into_the_body_off_the_loop(tmp_path: Path):
    """A long document stands in a file; its body can be made ahead."""
    document = tmp_path / "document.txt"
    document.write_text('a "quoted" line\n', encoding="utf-8")
    long = request(body=b'{"content":"', body_file=document, body_tail=b'"}')
    async with playing(answer("a")) as wire, Client(wire.target) as client:
        await client.send(long)
        await client.send(long, body=body_of(long))
        assert [orjson.loads(body) for body in wire.bodies] == [{"content": 'a "quoted" line\n'}] * 2


async def test_a_document_that_is_not_there_is_the_users_mistake(tmp_path: Path):
    """Raised with its name, before anything is sent."""
    with pytest.raises(UsageError, match=r"gone\.txt"):
        await sent(answer("a"), of=request(body_file=tmp_path / "gone.txt"))


async def test_a_url_that_is_none_is_the_users_mistake():
    """Said before the first byte, with what to write instead."""
    with pytest.raises(UsageError, match="http://spark:8000"):
        Client(Target(base_url="spark:8000", model="m"))


async def test_ipv6():
    """Addresses in brackets."""
    async with playing(answer("a"), host="::1") as wire, Client(wire.target) as client:
        assert (await client.send(request())).outcome is Outcome.COMPLETED


async def test_localhost_is_found_on_either_address():
    """The name may lead to ::1 first, where nobody listens."""
    async with playing(answer("a")) as wire:
        target = replace(wire.target, base_url=wire.base_url.replace("127.0.0.1", "localhost"))
        async with Client(target) as client:
            assert (await client.send(request())).outcome is Outcome.COMPLETED


@both_loops
async def test_the_sdk_speaks_through_the_same_transport():
    """Typed calls, streamed and not, with the SDK's own errors."""
    import openai

    plain = orjson.dumps(
        {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}
    )  # fmt: skip
    said = [{"role": "user", "content": "x"}]
    async with (
        playing(answer("a", "b"), [whole("200 OK", plain)], [whole("503 No", b"{}")], [Reset()]) as wire,
        Client(wire.target) as client,
    ):
        stream = await client.sdk.chat.completions.create(model="m", messages=said, stream=True)
        assert "".join([one.choices[0].delta.content or "" async for one in stream if one.choices]) == "ab"
        assert (await client.sdk.chat.completions.create(model="m", messages=said)).choices[0].message.content == "hi"
        with pytest.raises(openai.InternalServerError):
            await client.sdk.chat.completions.create(model="m", messages=said)
        with pytest.raises(openai.APIConnectionError):
            await client.sdk.chat.completions.create(model="m", messages=said)


def test_requests_name_nothing_that_a_later_run_could_mix_up():
    """Slots and cases of the request are those of the record."""
    record = asyncio.run(sent(answer("a"), of=replace(request(), slot=Slot(stage="2 ways", way=1))))
    assert (record.slot, record.case) == (Slot(stage="2 ways", way=1), FACTS)


@both_loops
async def test_nothing_is_left_of_a_request_that_ended():
    """No cycle keeps it: the collector is off while measuring, and memory must not grow with the number of requests."""
    broken = [SSE, chunk(delta(content="a")), Close()]
    misframed = [SSE, chunk(delta(content="a")), b"zz\r\n"]
    async with playing(answer("a"), broken, [whole("503 No", b"{}")], misframed) as wire, Client(wire.target) as client:
        await client.send(request())
        gc.collect()
        gc.disable()
        gc.freeze()  # what other tests left is not looked at
        try:
            for number in range(6):
                await client.send(request(f"r-{number}"))
            await asyncio.sleep(0)
            left = [one for one in gc.get_objects() if isinstance(one, Reception | Decoder)]
        finally:
            gc.unfreeze()
            gc.enable()
    assert left == []


# --- tokens whose decoding is put off

STEADY = [SSE, *[step for text in "abcd" for step in (chunk(delta(content=text)), Pause(0.1))]]
"""The last two wait to be decoded: an answer is looked at now and then."""


@both_loops
@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        ([Close()], Outcome.STREAM_ERROR),
        ([Reset()], Outcome.STREAM_ERROR),
        ([b"zz\r\n"], Outcome.STREAM_ERROR),
        ([Deaf()], Outcome.TIMEOUT),
    ],
    ids=["closed", "reset", "not HTTP", "silent"],
)
async def test_an_answer_that_breaks_off_keeps_the_tokens_that_had_come(ending: list[Step], outcome: Outcome):
    """All of them, each with its own time."""
    record = await sent([*STEADY, *ending], of=request(timeouts=replace(PATIENT, between_tokens_s=1.0, first_token_s=1.0)))
    assert (record.outcome, record.answer, record.events.kinds) == (outcome, "abcd", "aaaa")
    assert all(later - earlier > 50_000_000 for earlier, later in pairwise(record.events.at_ns))


async def test_a_cancelled_answer_keeps_the_tokens_that_had_come():
    """They are decoded before the connection is closed."""
    journal = Kept()
    async with playing([*STEADY, Deaf()]) as wire, Client(wire.target, journal=journal) as client:
        task = asyncio.ensure_future(client.send(request()))
        await asyncio.sleep(0.6)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (journal.lines[1].outcome, journal.lines[1].answer) == (Outcome.CANCELLED, "abcd")


async def test_tokens_keep_a_slow_stream_alive():
    """The deadline knows of those that wait to be decoded."""
    slowly = [step for text in "bcdefgh" for step in (chunk(delta(content=text)), Pause(0.15))]
    limits = replace(PATIENT, first_token_s=0.4, between_tokens_s=0.4)
    record = await sent([SSE, chunk(delta(content="a")), *slowly, *answer("i")[1:]], of=request(timeouts=limits))
    assert (record.outcome, record.answer) == (Outcome.COMPLETED, "abcdefghi")


async def test_running_counts_are_up_to_date():
    """Whoever asks how many tokens have come hears of all."""
    counts = [
        chunk(delta(content="x", usage={"prompt_tokens": 1, "completion_tokens": n, "total_tokens": n + 1}))
        for n in (1, 2, 3, 4)
    ]
    async with (
        playing([SSE, *[step for one in counts for step in (one, Pause(0.1))], Deaf()]) as wire,
        Client(wire.target) as client,
    ):
        task = asyncio.ensure_future(client.send(request()))
        await asyncio.sleep(0.5)
        before = client.tokens_seen
        await client.catch_up()
        seen = client.tokens_seen
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (before, seen) == (2, 4)
