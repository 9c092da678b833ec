"""A Locust worker: opens its engine when the master's run reaches it, tells what happens, and settles before it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gevent
import orjson
from gevent.lock import BoundedSemaphore

from loadkit import provenance
from loadkit.clock import Clock
from loadkit.engine.protocol import JSON, record_of, verdict_of
from loadkit.errors import LoadkitError
from loadkit.front import messages
from loadkit.front.away import ClockTalk, Courier, Documents
from loadkit.front.bridge import Reply
from loadkit.front.workplace import Workplace
from loadkit.record import Slot
from loadkit.run_folder import INPUTS, records_file

BATCH_S = 0.25
FACTS = "loadkit_run"
"""Locust sends the master's parsed options with the spawn message; the run's facts travel under this name."""


class Worker:
    """One per worker process. `run_dir` is this process's own: the master's options overwrite ours when a run begins."""

    def __init__(self, environment: Any, *, clock: Clock, run_dir: Path):
        self._environment = environment
        self._run_dir = run_dir.resolve()
        self._outbox: list[Reply] = []
        self._courier: Courier | None = None
        self._documents: Documents | None = None
        self._opening: Any = None
        self._finishing = BoundedSemaphore()
        self._clock_talk = ClockTalk(self.tell, clock)
        self.workplace = Workplace(environment, clock=clock, tell=self.tell, report=self._outbox.append, started=_not_told)
        gevent.spawn(self._post)

    def tell(self, message: str, data: JSON) -> None:
        """A message for the master."""
        self._environment.runner.send_message(message, data)

    def heard(self, message: str, data: JSON) -> None:
        """Runs in Locust's listening greenlet, so nothing here waits."""
        if message == messages.CLOCK:
            self._clock_talk.heard(data)
        elif message == messages.DOCUMENT:
            if self._documents is not None:
                self._documents.heard(data)
        elif message == messages.HALT:
            gevent.spawn(self._halt)
        else:
            self.workplace.heard(message, data)

    def begin(self) -> None:
        """At test_start, which Locust fires in its listening greenlet: the work is done in another one."""
        facts = getattr(self._environment.parsed_options, FACTS, None)
        if facts:
            self._opening = gevent.spawn(self._open, facts)

    def finish(self) -> None:
        """Everything that is known goes to the master. Locust's ways out all lead here: the second waits for the first."""
        with self._finishing:
            if self._opening is not None:
                self._opening.join()
            self._opening = None
            self.workplace.close()
            if self._courier is not None:
                self._courier.stop()
                self._courier = None
            self._send_replies()
            self._send_stats()

    def _send_stats(self) -> None:
        self._environment.runner._send_stats()  # Locust's own final report may come too late for its master

    def _halt(self) -> None:
        self._environment.runner.stop()
        self.finish()
        self.tell(messages.SETTLED, {})

    def _open(self, facts: JSON) -> None:
        runner = self._environment.runner
        name = f"w{runner.worker_index}"
        shared = self._shares(facts)
        folder = Path(facts["folder"]) if shared else self._run_dir / Path(facts["folder"]).name
        here = facts["boot_id"] == provenance.boot_id()
        self._documents = Documents(folder / INPUTS, self.tell)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.workplace.open(
                facts,
                folder=folder,
                worker=name,
                first=runner.worker_index,
                workers=facts["workers"],
                offset=(0, 0) if here else self._clock_talk.offset(),
                document=_in_place if shared else self._documents.local,
            )
        except (LoadkitError, OSError) as problem:
            self.tell(messages.TROUBLE, {"problem": f"worker {name}: {problem}", "reason": "worker can't begin"})
            return
        if not shared:
            self._courier = Courier(records_file(folder, name), name, self.tell)

    def _shares(self, facts: JSON) -> bool:
        """Whether the master's run folder is also ours: the same path, with that run's manifest in it."""
        folder = Path(facts["folder"])
        return facts["run_dir"] == str(self._run_dir) and (folder / "manifest.json").exists()

    def _post(self) -> None:
        while True:
            gevent.sleep(BATCH_S)
            self._send_replies()

    def _send_replies(self) -> None:
        if self._outbox:
            replies = self._outbox[:]
            self._outbox.clear()
            self.tell(messages.ENDED, {"replies": orjson.dumps(replies)})


def replies_of(data: bytes) -> list[Reply]:
    """The replies of an ENDED message."""
    return [
        Reply(record_of(reply["record"]), tuple(verdict_of(verdict) for verdict in reply["verdicts"]))
        for reply in orjson.loads(data)
    ]


def _in_place(path: Path) -> Path:
    """The master's folder is ours too."""
    return path


def _not_told(slot: Slot, at_ns: int) -> None:
    """The master hears of requests when they end."""
