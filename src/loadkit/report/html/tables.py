"""HTML tables and lists of facts; every cell is escaped unless it is `Markup` already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from loadkit.report.content import Table

Cell = str | Markup


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], *, caption: str = "", words: Iterable[int] = ()) -> Markup:
    """A table whose first column names the row. Columns in `words` hold text: left-aligned and wrapped."""
    text = set(words)
    body = Markup("").join(_row(row, text) for row in rows)
    top = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_words(number in text), name) for number, name in enumerate(head)
    )
    title = Markup("<caption>{}</caption>").format(caption) if caption else Markup("")
    return Markup(
        '<div class="scroll" role="region" aria-label="{}" tabindex="0">'
        "<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(caption or head[0], title, top, body)


def of(content: Table | None) -> Markup:
    """A table of `report.content`; nothing where there is none."""
    if content is None:
        return Markup("")
    note = paragraph(content.note, "note") if content.note else Markup("")
    return table(content.head, content.rows, caption=content.title, words=content.words) + note


def _row(cells: Sequence[Cell], text: set[int]) -> Markup:
    first = Markup('<th scope="row"{}>{}</th>').format(_words(0 in text), cells[0])
    rest = Markup("").join(
        Markup("<td{}>{}</td>").format(_words(number in text), cell) for number, cell in enumerate(cells[1:], start=1)
    )
    return Markup("<tr>{}{}</tr>").format(first, rest)


def _words(is_text: bool) -> Markup:
    return Markup(' class="words"') if is_text else Markup("")


def facts(pairs: Iterable[tuple[str, Cell]]) -> Markup:
    """Names and values below each other."""
    return Markup("<dl>{}</dl>").format(
        Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(name, value) for name, value in pairs)
    )


def bullets(lines: Iterable[Cell]) -> Markup:
    """A plain list."""
    return Markup('<ul class="plain">{}</ul>').format(Markup("").join(Markup("<li>{}</li>").format(line) for line in lines))


def paragraph(words: Cell, kind: str = "") -> Markup:
    """One paragraph; `kind` "note" is small print."""
    return Markup('<p class="{}">{}</p>').format(kind, words) if kind else Markup("<p>{}</p>").format(words)


def figure(caption: str, chart: Markup) -> Markup:
    """A chart under its title."""
    return Markup("<figure><figcaption>{}</figcaption>{}</figure>").format(caption, chart)


def charts(figures: Iterable[Markup]) -> Markup:
    """Charts side by side where there is room."""
    return Markup('<div class="charts">{}</div>').format(Markup("").join(figures))
