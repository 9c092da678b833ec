"""Kernel stamps are believed only while the wall clock runs undisturbed."""

import asyncio
import time

from loadkit.client import Client
from loadkit.transport.stamps import STEP_NS, Stamps
from wire_servers import SSE, Pause, answer, chunk, delta, playing, request


class Stepping:
    """The system's clocks, with a wall clock that somebody sets."""

    def __init__(self) -> None:
        self.step_ns = 0

    monotonic_ns = staticmethod(time.monotonic_ns)

    def wall_ns(self) -> int:
        return time.time_ns() + self.step_ns


def test_an_undisturbed_clock_has_no_steps():
    """Reading the clocks again and again finds nothing, whatever the scheduler does in between."""
    stamps = Stamps(Stepping())
    assert {stamps.renew() for _ in range(2000)} == {0}
    stamps.close()


def test_a_step_is_found_and_measured():
    """The epoch rises by one, and the offset is the new one."""
    clock = Stepping()
    stamps = Stamps(clock)
    before = stamps.offset_ns
    clock.step_ns = -40 * STEP_NS
    assert (stamps.renew(), stamps.renew()) == (1, 1)
    assert abs(stamps.offset_ns - before + 40 * STEP_NS) < 4 * STEP_NS
    stamps.close()


async def test_a_step_in_the_middle_of_an_answer_gives_its_stamps_up():
    """The record has read times then, and says so; the next answer has kernel stamps again."""
    clock = Stepping()
    plays = [[SSE, chunk(delta(content="a")), Pause(0.4), *answer("b")[1:]], answer("c")]
    async with playing(*plays) as wire, Client(wire.target, clock=clock) as client:
        sending = asyncio.ensure_future(client.send(request()))
        await asyncio.sleep(0.2)
        clock.step_ns = 3_600_000_000_000
        record = await sending
        assert (record.stamp_source, record.events.late_ns) == ("read", ())
        assert record.events.at_ns[1] - record.events.at_ns[0] >= 0.4e9
        clock.step_ns = 0  # the kernel's stamps follow the real clock, which nobody set
        await client.send(request("r-2"))
        assert (await client.send(request("r-3"))).stamp_source == "kernel"


async def test_a_step_forth_and_back_within_an_answer_is_found():
    """The clocks are related again every second, so the second step does not hide the first."""
    clock = Stepping()
    async with (
        playing([SSE, chunk(delta(content="a")), Pause(2.5), *answer("b")[1:]]) as wire,
        Client(wire.target, clock=clock) as client,
    ):
        sending = asyncio.ensure_future(client.send(request()))
        await asyncio.sleep(0.1)
        clock.step_ns = 10_000_000_000
        await asyncio.sleep(1.5)
        clock.step_ns = 0
        assert (await sending).stamp_source == "read"
