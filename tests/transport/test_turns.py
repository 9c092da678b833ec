"""A burst takes turns with reading."""

import asyncio

import pytest

from loadkit.transport.turns import PER_TURN, Turns
from wire_servers import both_loops


@both_loops
async def test_a_burst_begins_in_order_a_few_per_round():
    """Nobody overtakes, and the loop comes round between two handfuls."""
    turns, begun, rounds = Turns(), [], [0]
    loop = asyncio.get_running_loop()

    def count() -> None:
        rounds[0] += 1
        loop.call_soon(count)

    async def begin(number: int) -> None:
        await turns.take()
        begun.append((number, rounds[0]))

    loop.call_soon(count)
    await asyncio.gather(*(begin(number) for number in range(10 * PER_TURN)))
    assert [number for number, _ in begun] == list(range(10 * PER_TURN))
    in_rounds = [round_ for _, round_ in begun]
    sizes = [in_rounds.count(round_) for round_ in sorted(set(in_rounds))]
    assert max(sizes) <= PER_TURN


async def test_a_turn_of_a_cancelled_request_goes_to_the_next():
    """Cancelling while waiting leaves no gap and no debt."""
    turns = Turns()
    tasks = [asyncio.ensure_future(turns.take()) for _ in range(3 * PER_TURN)]
    await asyncio.sleep(0)
    for task in tasks[PER_TURN : 2 * PER_TURN]:
        task.cancel()
    await asyncio.wait_for(asyncio.gather(*tasks[:PER_TURN], *tasks[2 * PER_TURN :]), 5)
    with pytest.raises(asyncio.CancelledError):
        await tasks[PER_TURN]
    await asyncio.wait_for(turns.take(), 5)
