"""Where users are: gives them seats, hands them what the conductor deals, and sends their requests through the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gevent.event import AsyncResult
from gevent.queue import Queue

from loadkit.clock import Clock
from loadkit.engine.protocol import items_of
from loadkit.front import messages
from loadkit.front.bridge import Bridge, Reply, Unsent
from loadkit.front.own_check import judged
from loadkit.plan import Item
from loadkit.record import Outcome, Record, Slot
from loadkit.request import Request, Target, has_next, next_request

if TYPE_CHECKING:
    from loadkit.front.users import LLMUser


@dataclass(frozen=True, slots=True)
class Hand:
    """Items for one user, in order; with `hold` the first request waits for the conductor's release."""

    items: tuple[Item, ...]
    hold: bool


@dataclass(frozen=True, slots=True)
class Chair:
    """One user's seat."""

    number: int
    hands: Queue[Hand]


class Asked(NamedTuple):
    """A request that the engine has, and where its reply will be."""

    request: Request
    result: AsyncResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every request of a run needs to know."""

    run_id: str
    target: Target
    token_times: bool
    worker: str
    offset_ns: int = 0

    @property
    def tag(self) -> str:
        """Six digits that make request ids differ between runs, so that a server's log can be joined."""
        return hashlib.sha256(self.run_id.encode()).hexdigest()[:6]


class Desk:
    """One per run and process with users. `tell` reaches the conductor, `ended` counts a reply, `started` an item begun.

    `document` says where a document of the plan lies in this process; it may wait for it.
    """

    def __init__(
        self,
        setting: Setting,
        *,
        bridge: Bridge,
        clock: Clock,
        tell: Callable[[str, dict[str, Any]], None],
        ended: Callable[[Reply], None],
        started: Callable[[Slot, int], None],
        document: Callable[[Path], Path],
    ):
        self.setting = setting
        self._bridge = bridge
        self._clock = clock
        self._tell = tell
        self._ended = ended
        self._started = started
        self._document = document
        self._chairs: dict[int, Chair] = {}
        self._held: dict[str, Slot] = {}
        self._following: dict[str, Asked] = {}  # by the item: sent behind the one before it, in a user's row
        self.nothing_new = False

    def sit(self) -> Chair:
        """A seat for one more user; the conductor hears of it."""
        chair = Chair(len(self._chairs), Queue())
        self._chairs[chair.number] = chair
        self._tell(messages.SEAT, {"seat": chair.number})
        return chair

    def heard(self, message: str, data: dict[str, Any]) -> None:
        """A message of the conductor; runs in Locust's listening greenlet, so nothing here waits."""
        if message == messages.DEAL:
            self._chairs[data["seat"]].hands.put(Hand(items_of(data["items"]), data["hold"]))
        elif message == messages.RELEASE:
            self._release(data["due_ns"] - self.setting.offset_ns)
        elif message == messages.STOP_NEW:
            self.nothing_new = True
            held, self._held = self._held, {}
            for name in held:
                self._bridge.cancel(name)
            for asked in self._following.values():
                self._bridge.withdraw(asked.request.id)

    def play(self, user: LLMUser, chair: Chair, hand: Hand) -> None:
        """Work through a hand; the conductor hears of each item that is done, and which request of it was not sent (`left`)."""
        held_for = chair if hand.hold else None
        try:
            for item, then in zip(hand.items, (*hand.items[1:], None), strict=True):
                completed, left = False, item.id
                if not self.nothing_new or item.id in self._following:
                    try:
                        replies = self.do(user, item, held_for, then=then)
                    except Unsent:
                        pass  # taken back before it began
                    else:
                        completed = replies[-1].record.outcome is Outcome.COMPLETED
                        more = has_next(item.case, [reply.record for reply in replies])
                        left = f"{item.id}-turn{len(replies)}" if more else ""
                held_for = None
                self._tell(messages.DONE, {"seat": chair.number, "item": item.id, "completed": completed, "left": left})
        finally:  # something is left where the user is being stopped, wherever it stands
            self._leave_row(hand.items)

    def do(
        self, user: LLMUser, item: Item, held_for: Chair | None = None, *, lap: int = 0, then: Item | None = None
    ) -> list[Reply]:
        """All turns of an item, in order; a turn that did not complete ends it, and so does a stop of everything new.

        Each `lap` has salts of its own. `then` is what this user does next: where nothing has to be known for it, the engine
        sends it the moment this item has ended.
        """
        replies: list[Reply] = []
        item = self._with_document(item)
        slot = self._slot(user, item)
        while has_next(item.case, records := [reply.record for reply in replies]) and not (replies and self.nothing_new):
            asked = self._next_in_row(item) or self._asked(self._request(item, slot, records, lap), held_for)
            held_for = None
            if then is not None and len(item.case.turns) == 1:
                self._line_up(user, then, asked.request)
            reply = judged(user, item.case, self._answer(asked), self._bridge)
            self._ended(reply)
            replies.append(reply)
        return replies

    def _slot(self, user: LLMUser, item: Item) -> Slot:
        return replace(item.slot, user=user.name, worker=self.setting.worker)

    def _with_document(self, item: Item) -> Item:
        """The item with its document where it lies in this process; before a hold, so that a start waits for it."""
        if item.case.document is None:
            return item
        return replace(item, case=replace(item.case, document=self._document(item.case.document)))

    def _request(self, item: Item, slot: Slot, records: list[Record], lap: int) -> Request:
        setting, turn = self.setting, len(records)
        name = f"{setting.tag}-{item.id}" + (f"-turn{turn}" if turn else "")
        return next_request(
            item.case,
            records,
            id=_ascii(name),
            target=setting.target,
            slot=slot,
            run_id=f"{setting.run_id}/{lap}" if lap else setting.run_id,
            token_times=setting.token_times,
        )

    def _asked(self, request: Request, held_for: Chair | None) -> Asked:
        if held_for is not None:
            return Asked(request, self._put_by(request, held_for))
        due_ns = self._clock.monotonic_ns()
        self._started(request.slot, due_ns)
        return Asked(request, self._bridge.send(replace(request, due_ns=due_ns)))

    def _line_up(self, user: LLMUser, item: Item, after: Request) -> None:
        """Have the engine send the first request of an item once `after` has ended, where it can be made ahead."""
        if self.nothing_new or item.case.document is not None:
            return
        request = self._request(item, self._slot(user, item), [], 0)
        self._following[item.id] = Asked(request, self._bridge.follow(request, after.id))

    def _next_in_row(self, item: Item) -> Asked | None:
        """What was lined up for this item, if anything was; counted as started unless it was taken back."""
        asked = self._following.get(item.id)
        if asked is None:
            return None
        if self.nothing_new:
            asked.result.wait()
        del self._following[item.id]
        if not asked.result.ready() or asked.result.successful():
            self._started(asked.request.slot, self._clock.monotonic_ns())
        return asked

    def _leave_row(self, items: tuple[Item, ...]) -> None:
        """Nobody is there any more for what would have been sent."""
        for item in items:
            if (asked := self._following.pop(item.id, None)) is not None:
                self._bridge.abandon(asked.request.id)

    def _put_by(self, request: Request, chair: Chair) -> AsyncResult:
        result = self._bridge.hold(request, lambda: self._tell(messages.READY, {"seat": chair.number}))
        if self.nothing_new:  # it came while the request was made
            self._bridge.cancel(request.id)
        else:
            self._held[request.id] = request.slot
        return result

    def _release(self, due_ns: int) -> None:
        held, self._held = self._held, {}
        self._bridge.release(list(held), due_ns)
        for slot in held.values():
            self._started(slot, due_ns)

    def _answer(self, asked: Asked) -> Reply:
        """Wait for it. A user that is killed meanwhile (ramp-down, stop, Ctrl-C) takes its request along."""
        request, result = asked
        try:
            reply: Reply = result.get()
        except BaseException:  # GreenletExit too, which is how Locust stops a user
            if result.ready() and result.successful():
                self._ended(result.value)
            else:
                self._held.pop(request.id, None)
                self._bridge.abandon(request.id)
            raise
        return reply


def _ascii(name: str) -> str:
    """Ids travel in an HTTP header."""
    return name.encode("ascii", "replace").decode().replace("?", "_")
