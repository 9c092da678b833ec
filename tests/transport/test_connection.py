"""One socket: what a receiver hears does not depend on how the server frames and cuts, nor on the way past the parser."""

import asyncio
import select
import socket
from itertools import pairwise

import httpx2
import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from hearing import Hearing
from loadkit.clock import SystemClock
from loadkit.transport.connection import HELD_BYTES, MOST_HELD, READ_BYTES, SIZE_LINES, Connection
from loadkit.transport.first_reads import FirstReads
from loadkit.transport.stamps import Stamps
from wire_servers import END, SSE, chunk, delta

EVENT = delta(content="a")


def played(*pieces: bytes, in_no_hurry: bool = False) -> tuple[Hearing, int]:
    """An exchange in which each piece is a read, or as many as it needs; what was heard, and how many reads the parser saw."""

    async def play() -> tuple[Hearing, int]:
        listener = socket.create_server(("127.0.0.1", 0))
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours.setblocking(False)
        clock = SystemClock()
        stamps = Stamps(clock)
        free: list[Connection] = []
        connection = Connection(
            ours,
            loop=asyncio.get_running_loop(),
            clock=clock,
            stamps=stamps,
            first_reads=FirstReads(clock.monotonic_ns),
            free=free.append,
            gone=lambda _: None,
        )
        parsed = 0
        parse = connection._feed

        def counting(data: bytes) -> None:
            nonlocal parsed
            parsed += 1
            parse(data)

        connection._feed = counting
        hearing = Hearing(in_no_hurry=in_no_hurry)
        connection.exchange(b"GET / HTTP/1.1\r\n\r\n", b"", hearing)
        for piece in pieces:
            if not hearing.over.done():
                theirs.sendall(piece)
                while not hearing.over.done() and select.select([ours], [], [], 0)[0]:
                    connection.readable()
        connection.close()
        for one in (theirs, listener):
            one.close()
        stamps.close()
        return hearing, parsed

    return asyncio.run(play())


def test_regular_chunks_go_past_the_parser():
    """Once a read has ended between two chunks, a whole chunk is taken by its frame; their end is the parser's again."""
    hearing, parsed = played(SSE, *[chunk(EVENT)] * 5, END, in_no_hurry=True)
    assert (hearing.heard, hearing.over.result(), parsed) == ([EVENT] * 5, None, 3)


FRAMES = (
    chunk,
    lambda data: b"%X\r\n%b\r\n" % (len(data), data),
    lambda data: b"0%x\r\n%b\r\n" % (len(data), data),
    lambda data: b"%x;a=b\r\n%b\r\n" % (len(data), data),
)
BODIES = st.one_of(
    st.just(EVENT),
    st.integers(0, 5000).map(lambda size: delta(content="x" * size)),
    st.sampled_from(
        [
            b": c\n\n",
            b"\n\n",
            b"\r\n",
            b"1\r\n",
            b"4\r\n\n\n\n\n\r\n",
            b"a",
            b"ff\r\n",
            EVENT[:-1],
            EVENT[:-2],
            EVENT * 3,
            b"}\n\n",
        ]
    ),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(FRAMES), BODIES, st.booleans()), max_size=8),
    st.lists(st.integers(0, 40_000), max_size=4),
    st.booleans(),
)
@example([(chunk, EVENT, True), (chunk, b"4\r\n\n\n\n\n\r\n", True), (chunk, EVENT, True)], [], False)
@example([(chunk, EVENT, True), (chunk, EVENT, True)], [len(chunk(EVENT)) + 3], False)
def test_the_body_does_not_depend_on_frames_and_cuts(chunks: list[tuple], cuts: list[int], in_no_hurry: bool):
    """Reads that end with chunks, inside of them and inside of their frames, in any order; those that wait keep their place."""
    stream, marks = b"", set()
    for frame, body, ends_read in chunks:
        stream += frame(body)
        if ends_read:
            marks.add(len(stream))
    marks |= {cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)}
    hearing, _ = played(SSE, *[stream[a:b] for a, b in pairwise(sorted(marks))], END, in_no_hurry=in_no_hurry)
    assert (b"".join(hearing.heard), hearing.over.result()) == (b"".join(body for _, body, _ in chunks), None)


@pytest.mark.parametrize("in_no_hurry", [False, True])
@pytest.mark.parametrize("broken", [b"1g\r\n", b"+5\r\nabcde\r\n", b"5\r\nabcdeXX", b" 5\r\nabcde\r\n", b"-1\r\na\r\n"])
def test_a_broken_frame_is_an_error_after_regular_chunks_too(broken: bytes, in_no_hurry: bool):
    """The way past the parser takes nothing that the parser would refuse."""
    hearing, _ = played(SSE, chunk(EVENT), chunk(EVENT), broken, chunk(EVENT), in_no_hurry=in_no_hurry)
    assert (hearing.heard[:2], type(hearing.over.exception())) == ([EVENT] * 2, httpx2.RemoteProtocolError)


def test_a_body_without_chunks_is_never_taken_for_one():
    """A text that looks like a chunk, in a body that ends with the connection."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    hearing, _ = played(head, EVENT + b"\r\n", chunk(EVENT), chunk(EVENT))
    assert b"".join(hearing.heard) == EVENT + b"\r\n" + chunk(EVENT) * 2


@pytest.mark.parametrize("in_no_hurry", [False, True])
def test_what_a_read_brought_came_after_what_the_read_before_brought(in_no_hurry: bool):
    """`since`, the kernel's stamp and the read time stand in this order, and each read begins where the one before ended."""
    hearing, _ = played(SSE, *[chunk(EVENT)] * (MOST_HELD + 4), END, in_no_hurry=in_no_hurry)
    assert len(hearing.times) == MOST_HELD + 4
    assert all(since <= at <= read for since, at, read in hearing.times)
    assert [since for since, _, _ in hearing.times[1:]] == [at for _, at, _ in hearing.times[:-1]]


def test_a_read_that_left_something_says_nothing_about_what_comes_next():
    """The rest may have arrived before the last byte of the first part was read."""
    size = READ_BYTES - len(b"%x\r\n" % (READ_BYTES - 8)) - 2
    hearing, _ = played(SSE, chunk(EVENT), b"%x\r\n%b\r\n" % (size, b"x" * (size - 2) + b"\n\n"), chunk(EVENT))
    (_, first, _), (since, _, _), (again, _, _) = hearing.times
    assert (since, again) == (first, first)


def test_reads_wait_where_the_receiver_is_in_no_hurry():
    """They are handed on when there are enough of them, and at the end."""
    waiting, _ = played(SSE, *[chunk(EVENT)] * MOST_HELD, in_no_hurry=True)
    assert len(waiting.heard) == 1  # after it the parser stands between two chunks
    enough, _ = played(SSE, *[chunk(EVENT)] * (MOST_HELD + 1), in_no_hurry=True)
    assert len(enough.heard) == MOST_HELD + 1
    ended, _ = played(SSE, *[chunk(EVENT)] * (MOST_HELD + 3), END, in_no_hurry=True)
    assert (len(ended.heard), ended.over.result()) == (MOST_HELD + 3, None)


UNUSUAL = {
    "done": b"data: [DONE]\n\n", "done and more": b"data: [DONE]\n\n" + EVENT,
    "done between": EVENT + b"data: [DONE]\n\n" + EVENT,
    "carriage returns": b"data: [DONE]\r\r" + EVENT, "comment": b": comment\n\n", "part": EVENT[:-1], "short": b"}\n\n",
    "long": delta(content="x" * HELD_BYTES),
}  # fmt: skip


@pytest.mark.parametrize("said", UNUSUAL.values(), ids=UNUSUAL)
def test_what_may_be_the_end_or_is_long_does_not_wait(said: bytes):
    """And what waited before it goes first."""
    hearing, _ = played(SSE, *[chunk(EVENT)] * 3, chunk(said), in_no_hurry=True)
    assert hearing.heard == [EVENT] * 3 + [said]


@pytest.mark.parametrize("hidden", [END, b"zz\r\n", b"\r\n", b"-"], ids=["end", "broken frame", "line end", "junk"])
def test_nothing_is_hidden_in_a_read_that_waits(hidden: bytes):
    """A read that ends like a usual one is taken at once where it does not begin like one."""
    hearing, _ = played(SSE, *[chunk(EVENT)] * 3, hidden + chunk(EVENT), in_no_hurry=True)
    assert (hearing.heard[:3], hearing.over.done()) == ([EVENT] * 3, True)
    if hidden != END:
        assert type(hearing.over.exception()) is httpx2.RemoteProtocolError


def test_size_lines_are_those_of_whole_chunks():
    """Each by the length of the chunk; where no length of two or three digits fits, no read begins with it."""
    for size in range(16, HELD_BYTES - 6):
        whole = chunk(b"x" * size)
        assert whole.startswith(SIZE_LINES[len(whole)])
    lengths = {len(chunk(b"x" * size)) for size in range(16, HELD_BYTES)}
    assert all(len(SIZE_LINES[length]) > length for length in set(range(HELD_BYTES + 1)) - lengths)
