"""The record file of one engine: lines appended as things happen, kept in memory while the disk refuses them."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from loadkit.errors import FolderError
from loadkit.record import Line, Record, Start, to_line


class Ledger:
    """What `Client` calls a journal, on an append-only file.

    A line that can't be written (full disk) stays in `unwritten` and is tried again by `flush`, in order; `trouble` is told
    once when that begins. A partly written line goes on where it stopped, so the file never holds a line out of two halves.
    Without `keep_text` answers and thinking stay out of the file (their hashes are in it).
    """

    def __init__(self, path: Path, *, keep_text: bool = True, trouble: Callable[[str], None]):
        self.path = path
        self._keep_text = keep_text
        self.unwritten: deque[bytes] = deque()
        self._trouble = trouble
        self._dirty = False
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as problem:
            raise FolderError(f"can't open {path}: {problem.strerror}; choose another --run-dir") from problem

    def start(self, start: Start) -> None:
        self.note(start)

    def ended(self, record: Record) -> None:
        self.note(record if self._keep_text else replace(record, answer=None, reasoning=None, tool_calls=()))

    def note(self, line: Line) -> None:
        """Append one line now, or keep it for later."""
        healthy = not self.unwritten
        self.unwritten.append(to_line(line))
        if healthy:
            self.flush()

    def flush(self) -> None:
        """Write what is kept; what the disk still refuses stays kept."""
        while self.unwritten:
            piece = self.unwritten[0]
            try:
                written = os.write(self._file, piece)
            except OSError as problem:
                self._trouble(f"can't write {self.path}: {problem.strerror}; records are kept in memory, make room")
                return
            self._dirty = True
            if written == len(piece):
                self.unwritten.popleft()
            else:
                self.unwritten[0] = piece[written:]

    def sync(self) -> None:
        """To the disk itself; blocks, so the engine calls it in a thread."""
        if self._dirty:
            self._dirty = False
            os.fsync(self._file)

    def close(self) -> Path | None:
        """Write the rest and close. Where the disk refuses to the end, the rest is saved elsewhere and its path returned."""
        self.flush()
        elsewhere = _saved(tuple(self.unwritten), self.path.stem) if self.unwritten else None
        self.sync()
        os.close(self._file)
        return elsewhere


def _saved(pieces: tuple[bytes, ...], stem: str) -> Path | None:
    """The kept lines in a temporary directory, which is often another file system; `None` where that is full as well."""
    try:
        with tempfile.NamedTemporaryFile(prefix=f"loadkit-{stem}-", suffix=".jsonl", delete=False) as file:
            file.writelines(pieces)
    except OSError:
        return None
    return Path(file.name)
