"""CSV files that spreadsheets open rightly: Chinese stays Chinese, and no cell is taken for a formula.

Excel reads a CSV file as UTF-8 only if it begins with a byte order mark, and runs a cell that begins with `=`, `+`, `-`, `@`,
tab or carriage return as a formula (OWASP: CSV injection). Answers and error messages are untrusted text, so such a text gets
an apostrophe in front; numbers are left alone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loadkit.errors import FolderError

if TYPE_CHECKING:
    from _csv import Writer

ENCODING = "utf-8-sig"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Rows:
    """Writes rows of one file; `None` becomes an empty cell, which is not 0."""

    def __init__(self, writer: Writer):
        self._writer = writer

    def add(self, cells: Iterable[object]) -> None:
        self._writer.writerow([cell(value) for value in cells])


@contextmanager
def written(path: Path, head: Sequence[str]) -> Iterator[Rows]:
    """A new CSV file with `head` as its first line.

    Raises:
        FolderError: the file can't be written; the message names it.
    """
    try:
        with path.open("w", newline="", encoding=ENCODING) as file:
            rows = Rows(csv.writer(file))
            rows.add(head)
            yield rows
    except OSError as problem:
        raise FolderError(f"can't write {path}: {problem.strerror}") from problem


def cell(value: object) -> object:
    """The value as it may stand in a cell."""
    if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
