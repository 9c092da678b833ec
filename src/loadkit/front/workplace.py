"""The side of the users, in the single process and in each worker: engine, desk, and what is told of every request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gevent.event import Event

from loadkit.clock import Clock
from loadkit.engine.protocol import JSON, case_of, target_of
from loadkit.errors import EngineDied
from loadkit.front import locust_rows, messages
from loadkit.front.bridge import Bridge, Listener, Reply
from loadkit.front.desk import Desk, Setting
from loadkit.front.supply import CASES, Supply
from loadkit.record import Heartbeat, Slot

SETTLE_S = 3.0
"""An engine cancels within milliseconds; one that takes longer than this hangs."""


class Workplace(Listener):
    """One per process with users. `tell` reaches the conductor's process, `report` counts a reply there."""

    def __init__(
        self,
        environment: Any,
        *,
        clock: Clock,
        tell: Callable[[str, JSON], None],
        report: Callable[[Reply], None],
        started: Callable[[Slot, int], None],
    ):
        self._environment = environment
        self._clock = clock
        self._tell = tell
        self._report = report
        self._started = started
        self.bridge = Bridge(self)
        self._desk: Desk | None = None
        self._supply: Supply | None = None
        self._there = Event()
        self._offset_ns = 0

    def start(self) -> None:
        """Start the engine process; its imports go on while Locust does other things."""
        self.bridge.start()

    def open(
        self,
        facts: JSON,
        *,
        folder: Path,
        worker: str,
        first: int,
        workers: int,
        offset: tuple[int, int] = (0, 0),
        document: Callable[[Path], Path] = Path,
    ) -> None:
        """A run begins: `facts` are what the master says of it, `folder` is where this process keeps its records.

        `document` says where a document of the plan lies in this process; it may wait for it.

        Raises:
            FolderError: the record file can't be opened.
            EngineDied: the engine is gone.
        """
        target = target_of(facts["target"], None)
        self._offset_ns = offset[0]
        self.bridge.open(
            folder=str(folder),
            worker=worker,
            target=target,
            keep_text=facts["keep_text"],
            offset_ns=offset[0],
            offset_error_ns=offset[1],
        )
        setting = Setting(
            run_id=facts["run_id"], target=target, token_times=facts["token_times"], worker=worker, offset_ns=offset[0]
        )
        self._supply = Supply(lambda name: self._drawn(facts, name), first=first, workers=workers)
        self._desk = Desk(
            setting,
            bridge=self.bridge,
            clock=self._clock,
            tell=self._tell,
            ended=self.ended,
            started=self._started,
            document=document,
        )
        self._there.set()

    @property
    def desk(self) -> Desk:
        """Users of a worker may be there before the run is open, so they wait here."""
        self._there.wait()
        assert self._desk is not None
        return self._desk

    @property
    def supply(self) -> Supply:
        """Cases for users with tasks."""
        self._there.wait()
        assert self._supply is not None
        return self._supply

    def heard(self, message: str, data: JSON) -> None:
        """A message for the desk, which comes only while a run is open."""
        if self._desk is not None:
            self._desk.heard(message, data)

    def settle(self) -> None:
        """Wait for the last records; what still runs is cancelled."""
        self.bridge.cancel_all()
        self.bridge.settle(SETTLE_S)

    def close(self) -> JSON:
        """The run ends: the record file is complete afterwards."""
        self._there.clear()
        if self._desk is None or self.bridge.died is not None:
            return {"unwritten": 0, "elsewhere": None}
        self._desk = None
        self.settle()
        return self.bridge.close()

    def stop(self) -> None:
        """Locust ends: the engine too."""
        self.bridge.stop()

    def ended(self, reply: Reply) -> None:
        """Every reply comes through here once, whether a user waited for it or not."""
        locust_rows.log(self._environment, reply)
        self._report(reply)

    def user_failed(self, user: str, fault: Exception) -> None:
        """A user of the plan raised: the plan would wait for it for ever."""
        problem = f"{user} raised {type(fault).__name__}: {fault}; its traceback is above"
        self._tell(messages.TROUBLE, {"problem": problem, "reason": "a user of the plan failed"})

    # ---- what the engine says besides

    def abandoned(self, reply: Reply) -> None:
        self.ended(reply)

    def pulse(self, heartbeat: Heartbeat) -> None:
        """On the run's clock: it is compared with those of other workers."""
        moved = replace(heartbeat, at_ns=heartbeat.at_ns + self._offset_ns)
        self._tell(messages.PULSE, {"heartbeat": _plain(moved)})

    def trouble(self, problem: str) -> None:
        self._tell(messages.TROUBLE, {"problem": problem, "reason": "records can't be written"})

    def engine_died(self, problem: EngineDied) -> None:
        self._tell(messages.TROUBLE, {"problem": str(problem), "reason": "engine_died"})

    def _drawn(self, facts: JSON, name: str) -> tuple[Any, ...]:
        drawn = self.bridge.call(
            "loadkit.engine.preparation:cases",
            name=name,
            folder=facts["scenarios"],
            drawing=facts["drawing"],
            count=CASES,
        )
        return tuple(case_of(case) for case in drawn["cases"])


def _plain(heartbeat: Heartbeat) -> JSON:
    return {name: getattr(heartbeat, name) for name in heartbeat.__slots__}
