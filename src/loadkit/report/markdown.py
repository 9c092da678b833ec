"""The report as Markdown, for pasting into an issue."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loadkit.language import Language, language_of
from loadkit.report.content import Table
from loadkit.report.document import document
from loadkit.summary import Summary
from loadkit.verdict import Verdict

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")
_BREAKS = re.compile(r"[\r\n\u0085\u2028\u2029]+")


def render(summary: Summary, verdict: Verdict, *, language: Language | None = None) -> str:
    """One Markdown document; text from the server or the user can't break out of its cell."""
    told = document(summary, verdict, language_of() if language is None else language)
    lines = [f"# {plain(told.title)}", "", f"**{plain(told.headline)}**", ""]
    for line in told.lead:
        lines += [plain(line), ""]
    for section in told.sections:
        lines += [f"## {plain(section.title)}", ""]
        for part in section.parts:
            lines += [*_table(part), ""] if isinstance(part, Table) else [f"- {plain(part)}"]
        lines.append("")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", _BREAKS.sub(" ", text))


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"**{plain(table.title)}**"
        yield ""
    yield _row(table.head)
    yield "|" + "|".join("---" if number == 0 or number in table.words else "--:" for number in range(len(table.head))) + "|"
    for row in table.rows:
        yield _row(row)
    if table.note:
        yield ""
        yield plain(table.note)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(plain(cell) for cell in cells) + " |"
