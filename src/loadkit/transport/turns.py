"""Bursts take turns with reading: beginning or ending a thousand requests at once would leave arriving bytes unread for so long
that the kernel merges them and their stamps are lost, and the next requests unsent."""

from __future__ import annotations

import asyncio
from collections import deque

PER_TURN = 12
"""Requests that begin, whose records are made, or whose waiting reads are decoded, between two looks at the sockets: a few
milliseconds of work. Where streams fill the core a round of the loop takes as long as the next chunk is away: with more work
that one overtakes the one before, and with less the ends of a thousand answers drag on."""


class Turns:
    """Lets `PER_TURN` tasks go on per round of the event loop, in the order of their asking; what can't wait goes first."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._late: deque[asyncio.Future[None]] = deque()
        self._begun = 0
        self._counting = False

    async def take(self) -> None:
        """Wait for a turn; most of the time there is nothing to wait for."""
        self._count()
        if self._begun < PER_TURN and not self._waiting:
            self._begun += 1
        else:
            await self._turn(self._waiting)

    async def take_late(self) -> None:
        """The same for what nobody waits for: from the next round on, the turns that others leave, but one in each round."""
        self._count()
        await self._turn(self._late)

    def _count(self) -> None:
        if not self._counting:
            self._counting = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self._next_round, loop)

    async def _turn(self, queue: deque[asyncio.Future[None]]) -> None:
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        await turn

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        self._let(self._waiting, PER_TURN)
        self._let(self._late, max(PER_TURN, self._begun + 1))
        self._counting = self._begun > 0
        if self._counting:
            loop.call_soon(self._next_round, loop)

    def _let(self, queue: deque[asyncio.Future[None]], most: int) -> None:
        while queue and self._begun < most:
            turn = queue.popleft()
            if not turn.done():  # else its request was cancelled
                turn.set_result(None)
                self._begun += 1
