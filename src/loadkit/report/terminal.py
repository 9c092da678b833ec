"""The report on a terminal (rich), or as plain text of a fixed width where the output is a file."""

from __future__ import annotations

import re
from typing import IO, cast

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from loadkit.language import Language, language_of
from loadkit.report.content import Table
from loadkit.report.document import Document, document
from loadkit.summary import Summary
from loadkit.verdict import Verdict

WIDTH_OF_A_FILE = 160
"""Columns where the output is no terminal: tables in CI logs should not wrap."""

_PADDING = re.compile(r" +$", re.MULTILINE)
_COLOURS = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}


def console_for(stream: IO[str]) -> Console:
    """A console on `stream`, as wide as the terminal, or `WIDTH_OF_A_FILE` where there is none."""
    if stream.isatty():
        return Console(file=stream, highlight=False, soft_wrap=False)
    return Console(file=cast("IO[str]", Trimmed(stream)), width=WIDTH_OF_A_FILE, highlight=False, soft_wrap=False)


class Trimmed:
    """Writes to `stream` without the spaces that pad the rows of a table: nobody wants them in a file or a diff."""

    def __init__(self, stream: IO[str]):
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        """All of `text` but the spaces at the ends of its lines."""
        self._stream.write(_PADDING.sub("", text))
        return len(text)

    def flush(self) -> None:
        """That of the stream."""
        self._stream.flush()


def show(summary: Summary, verdict: Verdict, console: Console, *, language: Language | None = None) -> None:
    """Print the whole report; the headline stands last too, where a terminal ends up."""
    told = document(summary, verdict, language_of() if language is None else language)
    colour = _COLOURS[verdict.word]
    console.print(Text(told.headline, style=colour))
    for line in told.lead:
        console.print(Text(line, style="dim"))
    _sections(told, console)
    console.print()
    console.print(Text(told.headline, style=colour))


def _sections(told: Document, console: Console) -> None:
    for section in told.sections:
        console.print()
        console.print(Text(section.title, style="bold"))
        for part in section.parts:
            if isinstance(part, Table):
                show_table(part, console)
            else:
                console.print(Text(f"· {part}"))


def show_table(table: Table, console: Console) -> None:
    """One table: its title, its rows, its note."""
    grid = Grid(
        title=table.title or None, title_justify="left", title_style="italic", box=None, pad_edge=False, header_style="dim"
    )
    for number, name in enumerate(table.head):
        words = number == 0 or number in table.words
        grid.add_column(name, justify="left" if words else "right", overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(cell) for cell in row))
    console.print(grid)
    if table.note:
        console.print(Text(table.note, style="dim"))
