"""Leads a plan through its stages: waits for seats, deals items, releases them together, and begins the next when all ended.

It lives on the master or in the single process and knows nothing of Locust: what happens comes in through `heard`, what is to
be done goes out through a `Stand`. Everything waits on one inbox, so nothing is polled and the order of events is one order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from gevent.queue import Queue

from loadkit.clock import Clock
from loadkit.engine.protocol import items_message
from loadkit.front import messages
from loadkit.plan import Item, Plan, Stage

LEAD_NS = 5_000_000
LEAD_OF_SEVERAL_NS = 25_000_000
"""A release is announced this far ahead, so that every engine has it before it is due; further ahead for several workers."""


@dataclass(frozen=True, slots=True, order=True)
class Seat:
    """A user that works through what it is dealt: the `number`-th of its worker."""

    number: int
    worker: str


class Stand(Protocol):
    """What the conductor's gestures reach."""

    def send(self, message: str, data: dict[str, Any], worker: str | None) -> None:
        """A message to the desk of one worker, or of all (`None`)."""

    def note(self, line: dict[str, Any]) -> None:
        """One line for plan.jsonl."""

    def stage_began(self, stage: Stage, at_ns: int) -> None: ...

    def stage_ended(self, stage: Stage, at_ns: int) -> None: ...


class Stopped(Exception):
    """The plan ends here; the reason is the message."""


@dataclass
class Conductor:
    """See the module. `failures` counts items with a request that did not complete."""

    plan: Plan
    stand: Stand
    clock: Clock
    stop_on_failure: bool = False
    failures: int = 0
    stopped: str = ""
    _inbox: Queue[Callable[[], None]] = field(default_factory=Queue)
    _seats: list[Seat] = field(default_factory=list)
    _broken: dict[str, str] = field(default_factory=dict)
    _ready: set[Seat] = field(default_factory=set)
    _open: dict[str, Seat] = field(default_factory=dict)
    _stage: Stage | None = None
    _draining: str = ""
    _cut: bool = False

    # ---- called from outside, by any greenlet

    def heard(self, message: str, data: dict[str, Any], worker: str) -> None:
        """A message of a desk."""
        if message == messages.SEAT:
            self._inbox.put(lambda: self._seats.append(Seat(data["seat"], worker)))
        elif message == messages.READY:
            self._inbox.put(lambda: self._ready.add(Seat(data["seat"], worker)))
        elif message == messages.DONE:
            self._inbox.put(lambda: self._done(data["item"], completed=data["completed"], left=data["left"]))

    def stop(self, reason: str) -> None:
        """End the plan at once; requests in flight are the caller's affair."""
        self._inbox.put(lambda: self._stop(reason))

    def drain(self, reason: str) -> None:
        """Send nothing new, on any worker and in the middle of a user's row too; what is in flight may end."""
        self._inbox.put(lambda: self._drain(reason))

    def break_ladder(self, reason: str) -> None:
        """A host event: what climbs now does not climb on; what is in flight may end."""
        self._inbox.put(lambda: self._break(reason))

    @property
    def cut_short(self) -> str:
        """Why a drain left something unsent; empty where it did not."""
        return self._draining if self._cut else ""

    @property
    def workers(self) -> set[str]:
        """Workers with a seat."""
        return {seat.worker for seat in self._seats}

    # ---- the greenlet

    def lead(self) -> None:
        """Go through the plan; returns when it is done or stopped."""
        for number, stage in enumerate(self.plan.stages):
            reason = self._broken.get(stage.ladder or "")
            if reason:
                self._skip(stage.items, stage, reason)
                continue
            try:
                self._play(stage)
            except Stopped as why:
                self._note_stop(str(why))
                for later in self.plan.stages[number + 1 :]:
                    self._skip(later.items, later, self.stopped)
                return
        if self.cut_short:
            self._note_stop(self.cut_short)

    def _play(self, stage: Stage) -> None:
        self._stage = stage
        while not self._inbox.empty():
            self._inbox.get()()
        if self._draining:
            self._skip(stage.items, stage, self._draining)
            raise Stopped(self._draining)
        self._wait(lambda: len(self._seats) >= stage.ways)
        seats = self._chosen(stage.ways)
        try:
            if stage.release == "barrier":
                self._barrier(stage, seats)
            else:
                self._queue(stage, seats)
        finally:
            ended_ns = self.clock.monotonic_ns()
            self.stand.note(_mark("stage_end", stage, ended_ns))
            self.stand.stage_ended(stage, ended_ns)
            self._open.clear()

    def _barrier(self, stage: Stage, seats: list[Seat]) -> None:
        """Each way's items go to one seat; the first ones are held until all seats have theirs, then let go together."""
        hands = [tuple(item for item in stage.items if item.slot.way == way) for way in range(stage.ways)]
        dealt = [(seat, hand) for seat, hand in zip(seats, hands, strict=True) if hand]
        self._ready.clear()
        for seat, hand in dealt:
            self._deal(seat, hand, hold=True)
        self._wait(lambda: len(self._ready) >= len(dealt) or bool(self._draining))
        if self._draining:  # the desks give back what they hold
            self._began(stage, self.clock.monotonic_ns())
            self._wait(lambda: not self._open)
            return
        several = len({seat.worker for seat, _ in dealt}) > 1
        due_ns = self.clock.monotonic_ns() + (LEAD_OF_SEVERAL_NS if several else LEAD_NS)
        for worker in {seat.worker for seat, _ in dealt}:
            self.stand.send(messages.RELEASE, {"due_ns": due_ns}, worker)
        self._began(stage, due_ns)
        self._wait(lambda: not self._open)

    def _queue(self, stage: Stage, seats: list[Seat]) -> None:
        """Any free seat takes the next item."""
        left = deque(stage.items)
        free = deque(seats)
        self._began(stage, self.clock.monotonic_ns())
        while left or self._open:
            if self._draining and left:
                self._skip(left, stage, self._draining)
                left.clear()
            while left and free:
                self._deal(free.popleft(), (left.popleft(),), hold=False)
            busy = dict(self._open)
            try:
                self._wait(lambda busy=busy: len(self._open) < len(busy))  # type: ignore[misc]
            except Stopped as why:
                self._skip(left, stage, str(why))
                raise
            free.extend(seat for name, seat in busy.items() if name not in self._open)

    # ---- inside

    def _wait(self, enough: Callable[[], bool]) -> None:
        while not enough():
            self._inbox.get()()

    def _deal(self, seat: Seat, items: tuple[Item, ...], *, hold: bool) -> None:
        self._open |= {item.id: seat for item in items}
        self.stand.send(messages.DEAL, {"seat": seat.number, "items": items_message(items), "hold": hold}, seat.worker)

    def _chosen(self, count: int) -> list[Seat]:
        """Seats by turns of the workers, so that every stage loads all of them."""
        return sorted(self._seats)[:count]

    def _done(self, item: str, *, completed: bool, left: str) -> None:
        self._open.pop(item, None)
        if left and self._draining and self._stage is not None:
            self._note_skipped(left, self._stage, self._draining)
            return
        if completed:
            return
        self.failures += 1
        if self.stop_on_failure:
            self._stop(f"stop on failure: {item} did not complete")
        self._break(f"{item} did not complete")

    def _break(self, reason: str) -> None:
        if self._stage is not None and self._stage.ladder is not None:
            self._broken.setdefault(self._stage.ladder, reason)

    def _drain(self, reason: str) -> None:
        if not self._draining:
            self._draining = reason
            self.stand.send(messages.STOP_NEW, {}, None)

    def _stop(self, reason: str) -> None:
        raise Stopped(reason)

    def _began(self, stage: Stage, at_ns: int) -> None:
        self.stand.note(_mark("stage_begin", stage, at_ns))
        self.stand.stage_began(stage, at_ns)

    def _skip(self, items: Iterable[Item], stage: Stage, reason: str) -> None:
        for item in items:
            self._note_skipped(item.id, stage, reason)

    def _note_skipped(self, name: str, stage: Stage, reason: str) -> None:
        self._cut = self._cut or reason == self._draining
        self.stand.note({"kind": "skipped", "id": name, "stage": stage.name, "round": stage.round, "reason": reason})

    def _note_stop(self, reason: str) -> None:
        self.stopped = reason
        self.stand.note({"kind": "stop", "reason": reason, "at_ns": self.clock.monotonic_ns()})


def _mark(kind: str, stage: Stage, at_ns: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "stage": stage.name,
        "round": stage.round,
        "phase": stage.phase.value,
        "ways": stage.ways,
        "at_ns": at_ns,
    }
