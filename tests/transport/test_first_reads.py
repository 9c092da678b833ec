"""A first token is read before what else is there, by whoever reads next."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from hearing import Hearing
from loadkit.clock import SystemClock
from loadkit.transport.connection import Connection
from loadkit.transport.first_reads import NEVER, FirstReads
from loadkit.transport.stamps import Stamps
from wire_servers import END, SSE, chunk, delta

EVENT = delta(content="a")
OTHER = delta(role="assistant", content=None)
ROLE = delta(role="assistant", content="")


CLOCK = SystemClock()


def connected(sock: socket.socket, stamps: Stamps, first_reads: FirstReads) -> Connection:
    """A connection of nobody's pool."""
    return Connection(
        sock,
        loop=asyncio.get_running_loop(),
        clock=CLOCK,
        stamps=stamps,
        first_reads=first_reads,
        free=lambda _: None,
        gone=lambda _: None,
    )


@pytest.fixture
def first_reads() -> Iterator[FirstReads]:
    first_reads = FirstReads(time.monotonic_ns)
    yield first_reads
    first_reads.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_only_those_that_can_be_read_are_called(first_reads: FirstReads, pair: tuple[socket.socket, socket.socket]):
    ours, theirs = pair
    quiet, _other = socket.socketpair()
    called = []
    first_reads.add(ours.fileno(), lambda: called.append("ours"))
    first_reads.add(quiet.fileno(), lambda: called.append("quiet"))
    first_reads.look()
    theirs.send(b"x")
    first_reads.look()
    assert called == ["ours"]


def test_something_is_due_as_long_as_somebody_waits(first_reads: FirstReads, pair: tuple[socket.socket, socket.socket]):
    ours, _ = pair
    before = first_reads.due_ns
    first_reads.add(ours.fileno(), lambda: None)
    added, now = first_reads.due_ns, time.monotonic_ns()
    first_reads.discard(ours.fileno())
    first_reads.discard(ours.fileno())  # closing a connection does it once more
    assert (before, first_reads.due_ns) == (NEVER, NEVER)
    assert added <= now + 1_000_000


def test_whoever_is_called_may_leave_and_may_look(first_reads: FirstReads):
    """Of two that can be read the one takes the other out; a reader that compares the time meanwhile does not begin again."""
    pairs = [socket.socketpair() for _ in range(2)]
    called = []

    def readable(place: int) -> None:
        called.append(first_reads.due_ns)
        first_reads.discard(pairs[1 - place][0].fileno())

    for place, (ours, theirs) in enumerate(pairs):
        first_reads.add(ours.fileno(), lambda place=place: readable(place))
        theirs.send(b"x")
    first_reads.look()
    for one in pairs:
        for end in one:
            end.close()
    assert called == [NEVER]


@pytest.mark.parametrize("role", [False, True])
def test_a_busy_connection_lets_a_first_token_go_first(first_reads: FirstReads, *, role: bool):
    """A role chunk is no token; after the first one the connection waits its turn like the others."""

    async def play() -> None:
        stamps = Stamps(CLOCK)
        listener = socket.create_server(("127.0.0.1", 0))
        heard, connections, servers = [], [], []
        for first in (False, True):
            ours = socket.create_connection(listener.getsockname())
            ours.setblocking(False)
            servers.append(listener.accept()[0])
            servers[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            heard.append(Awaiting() if first else Hearing())
            connections.append(connected(ours, stamps, first_reads))
        (busy, waiting), (usual, awaiting), (one, other) = connections, heard, servers
        busy.exchange(b"GET / HTTP/1.1\r\n\r\n", b"", usual)
        waiting.exchange(b"GET / HTTP/1.1\r\n\r\n", b"", awaiting)

        def read_of_busy(theirs: bytes) -> list[bytes]:
            other.sendall(theirs)
            time.sleep(0.002)
            one.sendall(chunk(EVENT))
            busy.readable()
            return list(awaiting.heard)

        one.sendall(SSE)
        busy.readable()
        assert read_of_busy(SSE + (chunk(ROLE) if role else b"")) == ([ROLE] if role else [])
        assert read_of_busy(chunk(EVENT))[-1] == EVENT
        count = len(awaiting.heard)
        assert len(read_of_busy(chunk(EVENT))) == count  # not out of turn any more
        waiting.readable()
        other.sendall(END)
        waiting.readable()
        assert awaiting.over.done()
        assert awaiting.heard[count:] == [EVENT]
        assert first_reads.due_ns == NEVER
        for closed in (*connections, *servers, listener, stamps):
            closed.close()

    asyncio.run(play())


def test_what_comes_between_a_read_and_its_handing_on_does_not_go_first(first_reads: FirstReads):
    """The connection that reads is one of those that are looked at, and has more to read by then."""

    async def play() -> list[bytes]:
        stamps = Stamps(CLOCK)
        listener = socket.create_server(("127.0.0.1", 0))
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours.setblocking(False)
        connection = connected(ours, stamps, first_reads)
        awaiting = Awaiting()
        connection.exchange(b"GET / HTTP/1.1\r\n\r\n", b"", awaiting)
        later = [chunk(OTHER), chunk(EVENT), chunk(OTHER)]
        receive = connection._recvmsg

        def received(*sizes: int) -> object:
            got = receive(*sizes)
            if later:
                theirs.sendall(later.pop(0))
                time.sleep(0.001)  # more than a period
            return got

        connection._recvmsg = received
        theirs.sendall(SSE + chunk(ROLE))
        while not awaiting.over.done() and (awaiting.heard == [] or later):
            connection.readable()
        connection.readable()
        for closed in (connection, theirs, listener, stamps):
            closed.close()
        return awaiting.heard

    assert b"".join(asyncio.run(play())) == ROLE + OTHER + EVENT + OTHER


class Awaiting(Hearing):
    """Hears; its first token is the first event with a text."""

    @property
    def awaits_first(self) -> bool:
        return EVENT not in self.heard
