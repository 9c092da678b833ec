"""A burst of requests takes turns with reading: beginning a thousand at once would leave arriving bytes unread for so long that
the kernel merges them and their stamps are lost."""

from __future__ import annotations

import asyncio
from collections import deque

PER_TURN = 8
"""Requests that begin between two looks at the sockets: about two milliseconds of work."""


class Turns:
    """Lets `PER_TURN` requests begin per round of the event loop, in the order in which they asked."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begun = 0
        self._counting = False

    async def take(self) -> None:
        """Wait for a turn; most of the time there is nothing to wait for."""
        loop = asyncio.get_running_loop()
        if not self._counting:
            self._counting = True
            loop.call_soon(self._next_round, loop)
        if self._begun < PER_TURN and not self._waiting:
            self._begun += 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._begun = 0
        while self._waiting and self._begun < PER_TURN:
            turn = self._waiting.popleft()
            if not turn.done():  # else its request was cancelled
                turn.set_result(None)
                self._begun += 1
        self._counting = self._begun > 0
        if self._counting:
            loop.call_soon(self._next_round, loop)
