"""The report on a terminal (rich), or as plain text of a fixed width where the output is a file."""

from __future__ import annotations

from typing import IO

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

_COLOURS = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}


def console_for(stream: IO[str]) -> Console:
    """A console on `stream`, as wide as the terminal, or `WIDTH_OF_A_FILE` where there is none."""
    width = None if stream.isatty() else WIDTH_OF_A_FILE
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


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
