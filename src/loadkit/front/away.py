"""A worker with a folder or a host of its own: its clock against the run's, and its record lines on the way to the master."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gevent
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
