"""Writes samples as JSON lines that survive: each flushed at once, fsynced every second, kept in memory while the disk is full.

A gap in the file is itself evidence, so nothing is ever left out in silence: a full disk, lost lines and the sidecar's own
lateness are lines too.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loadkit.errors import FolderError
from loadkit.record import Sample, to_line
from loadkit.run_folder import LineFile
from loadkit.sidecar.samples import Stamper
from loadkit.sidecar.span import lines_between

MOST_WAITING_BYTES = 4 * 1024 * 1024  # about 20 minutes of samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A file that grows beyond `most_bytes` (0: never) becomes `NAME.1`, the one before `NAME.2`, … up to `keep` old files."""

    most_bytes: int = 64 * 1024 * 1024
    keep: int = 8


class Recorder:
    """The one writer of the file; samplers call `record` from their threads, listeners hear every sample."""

    def __init__(self, path: Path, stamper: Stamper, *, rotation: Rotation = Rotation()):
        self.path = path
        self.latest: dict[str, Sample] = {}
        self.listeners: list[Callable[[Sample], None]] = []
        self.lines = 0
        self.lost_lines = 0
        self._stamper = stamper
        self._rotation = rotation
        self._lock = threading.Lock()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._full = False
        _end_cut_line(path)
        self._file = LineFile(path)
        self._size = path.stat().st_size

    @property
    def unwritten_lines(self) -> int:
        """Lines that the disk refused; the one that is being written at the moment is none of them."""
        return len(self._waiting) if self._full else 0

    def record(self, sample: Sample) -> None:
        """Write one sample, then let the listeners hear it. Never raises for a full disk."""
        with self._lock:
            if "event" not in sample.data or sample.source == "kernel":
                self.latest[_place(sample)] = sample
            self._write(to_line(sample))
        for listener in self.listeners:
            listener(sample)

    def sync(self) -> None:
        """fsync; outside of the lock, since a busy disk may take seconds for it."""
        try:
            self._file.sync()
        except (OSError, ValueError):  # full disk, or the file was rotated away meanwhile (it was synced then)
            return

    def between(self, from_ns: int, to_ns: int) -> Iterator[bytes]:
        """Lines of this boot in the span, from all files and from memory; the lock is not held while they are read."""
        with self._lock:
            waiting = tuple(self._waiting)
            files = [*reversed([path for path in self._old_files() if path.exists()]), self.path]
        yield from lines_between(files, waiting, from_ns=from_ns, to_ns=to_ns, boot_id=self._stamper.boot_id)

    def close(self) -> None:
        with self._lock:
            self._drain()
            try:
                self._file.close()
            except OSError:
                return

    def _write(self, line: bytes) -> None:
        was_full = bool(self._waiting)
        self._wait(line)
        if not self._drain():
            if not was_full:
                self._wait(to_line(self._stamper.sample("recorder", {"event": "disk_full"})))
        elif was_full:
            data = {"event": "disk_back", "lost_lines": self.lost_lines}
            self._wait(to_line(self._stamper.sample("recorder", data)))
            self._drain()
        if 0 < self._rotation.most_bytes < self._size and not self._waiting:
            self._rotate()

    def _wait(self, line: bytes) -> None:
        self._waiting.append(line)
        self._waiting_bytes += len(line)
        while self._waiting_bytes > MOST_WAITING_BYTES:
            self._waiting_bytes -= len(self._waiting.popleft())
            self.lost_lines += 1

    def _drain(self) -> bool:
        while self._waiting:
            line = self._waiting[0]
            try:
                self._file.append(line)
            except FolderError:
                self._full = True
                self._cut_back()
                return False
            self._waiting.popleft()
            self._waiting_bytes -= len(line)
            self._size += len(line)
            self.lines += 1
        self._full = False
        return True

    def _cut_back(self) -> None:
        """Part of the line may have been written before the disk ran full: take it away, it will be written again."""
        try:
            with self.path.open("r+b") as file:
                file.truncate(self._size)
        except OSError:
            return

    def _rotate(self) -> None:
        names = list(self._old_files())
        try:
            for older, newer in zip(reversed(names), [*reversed(names[:-1]), self.path], strict=True):
                if newer.exists():
                    newer.replace(older)
            self._file.close()
            self._file = LineFile(self.path)
        except (OSError, FolderError):
            return
        self._size = 0
        self._wait(to_line(self._stamper.sample("recorder", {"event": "rotated"})))
        self._drain()

    def _old_files(self) -> Iterator[Path]:
        """NAME.1 is the youngest."""
        return (self.path.with_name(f"{self.path.name}.{number}") for number in range(1, self._rotation.keep + 1))


def _place(sample: Sample) -> str:
    """Where a sample stands among the newest: the second GPU does not push the first one out."""
    index = sample.data.get("index", 0)
    return f"{sample.source}:{index}" if index else sample.source


def _end_cut_line(path: Path) -> None:
    """A file that a crash left without a newline at its end gets one, so that the next line stands alone."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("r+b") as file:
        file.seek(-1, 2)
        if file.read(1) != b"\n":
            file.write(b"\n")
