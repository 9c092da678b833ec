"""The server's log of one launch: written by the server itself, bounded in the middle, so that head and end are kept."""

from __future__ import annotations

from pathlib import Path

MARK = b"\n[... loadkit left out %d bytes here: the log was over its limit ...]\n"


class ServerLog:
    """A log file that the server appends to (opened with O_APPEND, so that cutting it does not move where it writes)."""

    def __init__(self, path: Path, *, limit_bytes: int):
        self.path = path
        self.limit_bytes = limit_bytes

    def bound(self) -> None:
        """If the file is over the limit keep its first half and last quarter of that size; called while the server runs."""
        if not self.path.exists() or self.path.stat().st_size <= self.limit_bytes:
            return
        head, tail = self.limit_bytes // 2, self.limit_bytes // 4
        with self.path.open("r+b") as file:
            size = file.seek(0, 2)
            file.seek(size - tail)
            end = file.read(tail)
            file.seek(head)
            file.truncate()
            file.write(MARK % (size - head - tail) + end)

    def text(self) -> str:
        """What is there; an absent file reads as empty."""
        return self.path.read_text(errors="replace") if self.path.exists() else ""

    def last_lines(self, count: int = 15) -> str:
        """For the message when a server ended."""
        return "\n".join(self.text().splitlines()[-count:])
