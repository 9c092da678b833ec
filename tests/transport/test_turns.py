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


async def test_what_can_wait_gets_the_turns_that_are_left_but_one_in_each_round():
    """Requests go out before the records of others are made; yet a flood of requests keeps no record for ever."""
    turns, order = Turns(), []

    async def late() -> None:
        await turns.take_late()
        order.append("late")

    async def begin() -> None:
        await turns.take()
        order.append("begin")

    await asyncio.gather(*(late() for _ in range(3)), *(begin() for _ in range(4 * PER_TURN)))
    assert order[:PER_TURN] == ["begin"] * PER_TURN
    assert [order[:end].count("late") for end in range(2 * PER_TURN + 1, 4 * PER_TURN + 4, PER_TURN + 1)] == [1, 2, 3]
    await asyncio.wait_for(asyncio.gather(*(late() for _ in range(2 * PER_TURN))), 5)


async def test_cancelled_turns_are_passed_over_by_what_can_wait_too():
    """No gap and no debt."""
    turns = Turns()
    tasks = [asyncio.ensure_future(turns.take_late()) for _ in range(3 * PER_TURN)]
    await asyncio.sleep(0)
    for task in tasks[: 2 * PER_TURN]:
        task.cancel()
    await asyncio.wait_for(asyncio.gather(*tasks[2 * PER_TURN :]), 5)
    assert [task.cancelled() for task in tasks] == [True] * 2 * PER_TURN + [False] * PER_TURN
