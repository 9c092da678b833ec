"""What the sidecar itself costs and how late it was, once a second: its heartbeat in the file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadkit.sidecar.protection import rss_bytes
from loadkit.sidecar.recorder import Recorder


class Cost:
    """A source like any other; `late_ns` gives the worst lateness of the quickest sampler since it was asked last."""

    source = "recorder"

    def __init__(
        self, recorder: Recorder, *, late_ns: Callable[[], int], say: Callable[[str], None], proc: Path = Path("/proc")
    ):
        self._recorder = recorder
        self._late_ns = late_ns
        self._say = say
        self._proc = proc
        self._full = False

    def look(self) -> list[dict[str, Any]]:
        recorder = self._recorder
        full = recorder.unwritten_lines > 0
        if full != self._full:
            self._say("the disk is full: samples are kept in memory" if full else "the disk has room again")
        self._full = full
        return [
            {
                "late_ns": self._late_ns(),
                "rss_bytes": rss_bytes(self._proc),
                "cpu_ns": time.process_time_ns(),
                "lines": recorder.lines,
                "unwritten_lines": recorder.unwritten_lines,
                "lost_lines": recorder.lost_lines,
            }
        ]
