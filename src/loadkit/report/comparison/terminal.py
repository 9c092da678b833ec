"""A comparison on a terminal: headline, table of metrics, answers, notes."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from loadkit.compare.comparison import Comparison
from loadkit.language import Language, say
from loadkit.report.comparison import words


def show(found: Comparison, console: Console, language: Language | None = None) -> None:
    """Print everything; lines that are wider than the console wrap, nothing is cut."""
    console.print(words.headline(found, language), style="bold", markup=False, highlight=False)
    if found.refused:
        _refusal(found, console, language)
        return
    console.print(_metrics(found, language))
    if found.answers:
        console.print(_answers(found, language))
    hosts = " · ".join(
        f"{side.name}: {words.hosts(sound)}" for side, sound in zip((found.a, found.b), found.soundness, strict=True)
    )
    console.print(say("host: {hosts}", language, hosts=hosts), markup=False, highlight=False)
    for note in words.notes(found, language):
        console.print(f"· {note}", markup=False, highlight=False)


def _refusal(found: Comparison, console: Console, language: Language | None) -> None:
    table = _table(say("differs", language), found.a.name, found.b.name)
    for difference in found.drift:
        table.add_row(difference.key, difference.of_a, difference.of_b)
    console.print(table)
    remedy = say(
        "name what is meant to differ with --factor, or go on with --allow (the verdict is then indicative only)", language
    )
    console.print(remedy, markup=False, highlight=False)


def _metrics(found: Comparison, language: Language | None) -> Table:
    table = _table(
        say("metric", language), found.a.name, found.b.name, say("B against A", language), say("verdict", language), "p (Holm)"
    )
    for row in found.rows:
        adjusted = say("primary", language) if row is found.primary else "–" if row.p_holm is None else f"{row.p_holm:.2g}"
        cells = (words.value(row, row.a), words.value(row, row.b), words.change(row), words.verdict(row, language), adjusted)
        table.add_row(words.name(row, language), *cells, style="bold" if row is found.primary else "")
    return table


def _answers(found: Comparison, language: Language | None) -> Table:
    table = _table(say("right answers", language), found.a.name, found.b.name, say("B against A", language))
    for row in found.answers:
        table.add_row(row.scenario, words.right(row.a), words.right(row.b), words.answer_test(row, language))
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place in (0, 4) else "right", overflow="fold", no_wrap=place in (1, 2, 3))
    return table
