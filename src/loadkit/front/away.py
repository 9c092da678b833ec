"""A worker with a folder or a host of its own: its clock against the run's, documents on the way to it, its records from it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import gevent
from gevent.event import AsyncResult
from gevent.queue import Empty, Queue

from loadkit.clock import Clock
from loadkit.engine.protocol import JSON
from loadkit.front import messages

ROUND_TRIPS = 9
ANSWER_S = 2.0
BATCH_BYTES = 1 << 20


class ClockTalk:
    """Finds (run clock − this clock) by round trips to the master: the quickest of nine, ± half of it."""

    def __init__(self, tell: Callable[[str, JSON], None], clock: Clock):
        self._tell = tell
        self._clock = clock
        self._answers: Queue[tuple[int, int, int]] = Queue()

    def heard(self, data: JSON) -> None:
        self._answers.put((data["asked_ns"], data["at_ns"], self._clock.monotonic_ns()))

    def offset(self) -> tuple[int, int]:
        """(offset, error) in nanoseconds; (0, 0) when the master does not answer."""
        trips = []
        for _ in range(ROUND_TRIPS):
            self._tell(messages.CLOCK_ASKED, {"asked_ns": self._clock.monotonic_ns()})
            try:
                trips.append(self._answers.get(timeout=ANSWER_S))
            except Empty:
                break
        if not trips:
            return 0, 0
        asked_ns, at_ns, back_ns = min(trips, key=lambda trip: trip[2] - trip[0])
        return at_ns - (asked_ns + back_ns) // 2, (back_ns - asked_ns + 1) // 2


class Documents:
    """Long documents of the master's run, fetched once each when a request needs them, and kept in `folder`."""

    def __init__(self, folder: Path, tell: Callable[[str, JSON], None]):
        self._folder = folder
        self._tell = tell
        self._asked: dict[Path, AsyncResult] = {}

    def local(self, path: Path) -> Path:
        """Where the document lies here; waits for it. A master that has none ends the run, and who waits with it."""
        if path not in self._asked:
            self._asked[path] = AsyncResult()
            self._tell(messages.DOCUMENT_ASKED, {"path": str(path)})
        here: Path = self._asked[path].get()
        return here

    def heard(self, data: JSON) -> None:
        path = Path(data["path"])
        self._folder.mkdir(parents=True, exist_ok=True)
        here = self._folder / f"{hashlib.sha256(data['path'].encode()).hexdigest()[:8]}-{path.name}"
        here.write_bytes(data["text"])
        self._asked[path].set(here)


class Courier:
    """Sends what is appended to a record file, whole lines at a time, about once a second and at the end."""

    def __init__(self, path: Path, worker: str, tell: Callable[[str, JSON], None]):
        self._path = path
        self._worker = worker
        self._tell = tell
        self._sent = 0
        self._greenlet = gevent.spawn(self._carry)

    def stop(self) -> None:
        """Send the rest; the file is complete by then."""
        self._greenlet.kill()
        self._send_new()

    def _carry(self) -> None:
        while True:
            gevent.sleep(1)
            self._send_new()

    def _send_new(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._sent)
            while batch := self._whole_lines(file.readlines(BATCH_BYTES)):
                self._tell(messages.LINES, {"worker": self._worker, "data": batch})
                self._sent += len(batch)

    @staticmethod
    def _whole_lines(lines: list[bytes]) -> bytes:
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        return b"".join(lines)
