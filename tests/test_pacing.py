"""Closed and open loops in virtual time: a clock that jumps, and a server that answers after a known time."""

import asyncio
import heapq
from dataclasses import dataclass, field
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from loadkit.client import Client
from loadkit.errors import UsageError
from loadkit.pacing import Closed, Open, closed_loop, constant, open_loop, poisson, run_stages
from loadkit.record import Outcome, Record, Slot
from loadkit.request import Request
from wire_servers import FACTS, SSE, Deaf, Kept, answer, chunk, delta, playing
from wire_servers import request as wire_request

SECOND = 1_000_000_000


class Jumping:
    """A clock that jumps to the next moment that somebody waits for, as soon as nobody can go on."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns

    async def until(self, at_ns: int) -> None:
        if at_ns <= self.now_ns:
            return
        self._count += 1
        moment = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (at_ns, self._count, moment))
        await moment

    async def run(self) -> None:
        while True:
            for _ in range(20):  # whoever can go on goes on
                await asyncio.sleep(0)
            while self._waiting and self._waiting[0][2].done():
                heapq.heappop(self._waiting)
            if self._waiting:
                at_ns, _, moment = heapq.heappop(self._waiting)
                self.now_ns = at_ns
                moment.set_result(None)


@dataclass
class Answering:
    """Answers each request after its time, in virtual time, and notes when it was sent and how many were in flight."""

    clock: Jumping
    takes_s: dict[str, float] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    in_flight: int = 0
    most: int = 0

    async def attempt(self, request: Request) -> Record:
        begun = self.sent[request.id] = self.clock.now_ns
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        outcome = Outcome.COMPLETED
        try:
            await self.clock.until(begun + int(self.takes_s.get(request.id, 1.0) * SECOND))
        except asyncio.CancelledError:
            outcome = Outcome.CANCELLED
        self.in_flight -= 1
        return Record(
            id=request.id, slot=request.slot, case=FACTS, outcome=outcome, due_ns=request.due_ns, closed_ns=self.clock.now_ns
        )

    def refuse(self, request: Request, *, kind: str, message: str) -> Record:
        return Record(id=request.id, slot=request.slot, case=FACTS, outcome=Outcome.NOT_SENT, due_ns=request.due_ns)


def requests(count: int) -> tuple[Request, ...]:
    return tuple(Request(id=str(number), slot=Slot(), case=FACTS) for number in range(count))


def virtually(loop, stage, takes_s=None, drain_s=None) -> tuple[list[Record], Answering, Jumping]:
    """Run a loop in virtual time."""

    async def run():
        clock = Jumping()
        server = Answering(clock, takes_s or {})
        jumps = asyncio.ensure_future(clock.run())
        records = await loop(server, stage, clock=clock, until=clock.until, drain_s=drain_s)
        jumps.cancel()
        return records, server, clock

    return asyncio.run(run())


@settings(max_examples=40)
@given(st.integers(1, 6), st.lists(st.floats(0.01, 3), min_size=1, max_size=15))
def test_a_closed_loop_keeps_its_users_busy(users: int, takes: list[float]):
    """Never more in flight than users, never fewer while something is left; each is due when its user asked."""
    records, server, _ = virtually(
        closed_loop, Closed(requests=requests(len(takes)), users=users), {str(i): s for i, s in enumerate(takes)}
    )
    assert server.most == min(users, len(takes))
    assert sorted(record.id for record in records) == sorted(str(number) for number in range(len(takes)))
    ends = sorted(record.closed_ns for record in records)
    starts = sorted(server.sent.values())
    assert starts[users:] == ends[: max(0, len(takes) - users)]
    assert all(record.due_ns == server.sent[record.id] for record in records)


def test_a_closed_loop_begins_nothing_after_its_duration():
    """What runs is finished."""
    records, _, _ = virtually(closed_loop, Closed(requests=requests(100), users=2, duration_s=3.5))
    assert (len(records), {record.outcome for record in records}) == (8, {Outcome.COMPLETED})


def test_a_drain_ends_what_never_ends():
    """Requests that still run after the drain are records with the outcome cancelled."""
    records, _, clock = virtually(closed_loop, Closed(requests=requests(4), users=2, duration_s=1.5), {"1": 1e9}, drain_s=5)
    assert {record.id: record.outcome for record in records}["1"] is Outcome.CANCELLED
    assert clock.now_ns == 1_000 * SECOND + int(6.5 * SECOND)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 5 * SECOND), min_size=1, max_size=15),
    st.one_of(st.none(), st.integers(1, 4)),
    st.lists(st.floats(0.01, 3), min_size=15, max_size=15),
)
def test_an_open_loop_is_never_delayed(offsets: list[int], slots: int | None, takes: list[float]):
    """Each request is sent when it is due or is not sent; every arrival is a record; slots bound what is in flight."""
    stage = Open(requests=requests(len(offsets)), offsets_ns=tuple(offsets), slots=slots)
    records, server, _ = virtually(open_loop, stage, {str(i): s for i, s in enumerate(takes)})
    assert sorted(record.id for record in records) == sorted(str(number) for number in range(len(offsets)))
    assert server.most <= (slots or len(offsets))
    for record in records:
        assert record.due_ns == 1_000 * SECOND + offsets[int(record.id)]
        assert record.slot.load == "open"
        assert (record.outcome is Outcome.NOT_SENT) == (record.id not in server.sent)
        assert server.sent.get(record.id, record.due_ns) == record.due_ns
    if slots is None:
        assert {record.outcome for record in records} == {Outcome.COMPLETED}


def test_an_arrival_without_a_slot_is_counted():
    """A server that takes 2.5 s, one slot, one arrival a second: two of three are not sent."""
    records, _, _ = virtually(
        open_loop, Open(requests=requests(4), offsets_ns=constant(1, 4), slots=1), {str(number): 2.5 for number in range(4)}
    )
    assert [record.outcome for record in sorted(records, key=lambda record: record.id)] == [
        Outcome.COMPLETED, Outcome.NOT_SENT, Outcome.NOT_SENT, Outcome.COMPLETED,
    ]  # fmt: skip


def test_stages_follow_each_other():
    """A stage begins when the last request of the one before has ended."""
    first = Closed(requests=requests(2), users=2)
    second = Open(requests=tuple(Request(id=f"b{number}", slot=Slot(), case=FACTS) for number in range(2)), offsets_ns=(0, 5))
    records, server, _ = virtually(run_stages, [first, second], {"1": 7.0})
    assert [record.id for record in records] == ["0", "1", "b0", "b1"]
    assert server.sent["b0"] == 1_007 * SECOND


def test_schedules():
    """Constant arrivals don't drift; Poisson arrivals come from their seed, and at their rate."""
    assert constant(3, 301)[300] == 100 * SECOND
    assert poisson(10, 50, seed=1) == poisson(10, 50, seed=1) != poisson(10, 50, seed=2)
    offsets = poisson(10, 20_000, seed=3)
    assert offsets == tuple(sorted(offsets))
    assert 0.97 < offsets[-1] / SECOND / 2000 < 1.03
    gaps = [later - earlier for earlier, later in pairwise(offsets)]
    assert 0.35 < sum(gap > SECOND / 10 for gap in gaps) / len(gaps) < 0.39  # e^-1 = 0.368


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_that_is_none_is_refused(rate: float):
    """A mistake of the caller, named."""
    with pytest.raises(UsageError, match="rate"):
        constant(rate, 3)


async def test_loops_over_a_real_client():
    """Closed and open over sockets, journalled, with a drain that closes the connections."""
    journal = Kept()
    plays = [answer("a"), answer("b"), answer("c"), [SSE, chunk(delta(content="x")), Deaf()]]
    closed = Closed(requests=tuple(wire_request(f"c{number}") for number in range(3)), users=2)
    open_ = Open(requests=tuple(wire_request(f"o{number}") for number in range(2)), offsets_ns=(0, 20_000_000), slots=1)
    async with playing(*plays) as wire, Client(wire.target, journal=journal) as client:
        records = await run_stages(client, [closed, open_], drain_s=0.3)
        await asyncio.wait_for(wire.gone_now.wait(), 5)
    outcomes = {record.id: record.outcome.value for record in records}
    assert outcomes == {"c0": "completed", "c1": "completed", "c2": "completed", "o0": "cancelled", "o1": "not_sent"}
    assert len(journal.lines) == 10


async def test_an_open_loop_keeps_to_its_schedule():
    """Requests leave within a few milliseconds of their time, although timers count whole ones."""
    async with playing(answer("a")) as wire, Client(wire.target) as client:
        stage = Open(requests=tuple(wire_request(str(number)) for number in range(20)), offsets_ns=constant(100, 20))
        records = await open_loop(client, stage)
    assert {record.outcome for record in records} == {Outcome.COMPLETED}
    lags = sorted(record.sent_ns - record.due_ns for record in records)
    assert lags[0] >= 0
    assert lags[10] < 0.2e9


async def test_cancelling_a_loop_cancels_what_it_sent():
    """Nothing runs on behind the caller's back."""
    journal = Kept()
    async with playing([Deaf()]) as wire, Client(wire.target, journal=journal) as client:
        running = asyncio.ensure_future(
            closed_loop(client, Closed(requests=tuple(wire_request(str(n)) for n in range(6)), users=2))
        )
        await asyncio.sleep(0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0.1)
        assert wire.gone == 2
    assert [getattr(line, "outcome", None) for line in journal.lines].count(Outcome.CANCELLED) == 2
    assert len(journal.lines) == 4
