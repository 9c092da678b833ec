"""The lines of a span of time out of sample files, found by bisection: a day of samples is not read for a minute's.

Lines of one boot are in order of time up to the few milliseconds that threads race for the lock; those of earlier boots stand
before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

RACE_NS = 2_000_000_000  # how far apart two lines may be out of order; a generous bound
_STAMP = re.compile(rb'"monotonic_ns":(\d+)')
_BOOT = re.compile(rb'"boot_id":"([^"]*)"')


def lines_between(
    files: Sequence[Path], waiting: Iterable[bytes], *, from_ns: int, to_ns: int, boot_id: str
) -> Iterator[bytes]:
    """Lines of this boot with from_ns ≤ stamp ≤ to_ns: of the files, oldest first, then of those that wait for the disk."""
    boot = boot_id.encode()
    for path in files:
        try:
            with path.open("rb") as file:
                yield from _in_file(file, from_ns, to_ns, boot)
        except OSError:  # rotated away this moment
            continue
    for line in waiting:
        stamp = _stamp(line, boot)
        if stamp is not None and from_ns <= stamp <= to_ns:
            yield line


def _in_file(file: IO[bytes], from_ns: int, to_ns: int, boot: bytes) -> Iterator[bytes]:
    file.seek(_offset_of(file, from_ns - RACE_NS, boot))
    for line in file:
        stamp = _stamp(line, boot)
        if stamp is None or not line.endswith(b"\n"):
            continue
        if stamp > to_ns + RACE_NS:
            return
        if from_ns <= stamp <= to_ns:
            yield line


def _offset_of(file: IO[bytes], from_ns: int, boot: bytes) -> int:
    """The begin of a line before which all lines are older than `from_ns`."""
    low, high = 0, file.seek(0, 2)
    while high - low > 65536:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()  # the rest of a line that began before
        begin, line = file.tell(), file.readline()
        stamp = _stamp(line, boot)
        if begin >= high or (stamp is not None and stamp >= from_ns):
            high = middle
        else:
            low = begin
    return low


def _stamp(line: bytes, boot: bytes) -> int | None:
    """The line's time on this boot's clock; `None` for one of another boot or a broken one."""
    stamp, of_boot = _STAMP.search(line), _BOOT.search(line)
    return int(stamp[1]) if stamp and of_boot and of_boot[1] == boot else None
