"""Long-context tables: right answers by length and depth, and what each length proved."""

from __future__ import annotations

from loadkit.language import Language, say
from loadkit.report import content, figures
from loadkit.report.content import Table
from loadkit.report.figures import DASH
from loadkit.summary import Cell, EffectiveContext, Summary


def tables(summary: Summary, language: Language) -> list[Table | str | None]:
    """A grid and a ladder for each scenario with lengths, and the effective context."""
    names = dict.fromkeys(cell.scenario for cell in summary.cells)
    grids = [grid([cell for cell in summary.cells if cell.scenario == name], language) for name in names]
    same, pairs = summary.pairs
    words = "Asked cold and warm: {same} of {pairs} questions got the same answer."
    line = say(words, language, same=same, pairs=pairs) if pairs else ""
    return [*grids, *(ladder(one, language) for one in summary.contexts), content.contexts(summary, language), line]


def grid(cells: list[Cell], language: Language) -> Table:
    """Rows are lengths, columns the needle's depth; each cell is right / checked."""
    depths = sorted({cell.depth for cell in cells})
    rows = []
    for tier in dict.fromkeys(cell.tier for cell in cells):
        at = {cell.depth: f"{cell.correct}/{cell.checked}" for cell in cells if cell.tier == tier}
        rows.append((tier or DASH, *(at.get(depth, DASH) for depth in depths)))
    title = say("Right answers by length and depth: {scenario}", language, scenario=cells[0].scenario)
    return Table(title=title, head=(say("length", language), *(f"{100 * depth:.0f} %" for depth in depths)), rows=tuple(rows))


def ladder(one: EffectiveContext, language: Language) -> Table:
    """One row per length: what it completed, how much was right, whether its tokens were those planned, the host."""
    head = ("length", "prompt tokens", "completed", "correct", "accuracy", "tokens as planned", "host", "quality", "capacity")
    rows = tuple(
        (
            rung.tier,
            DASH
            if rung.prompt_tokens is None
            else "–".join(dict.fromkeys(figures.count(tokens) for tokens in rung.prompt_tokens)),
            f"{rung.completed}/{rung.attempted}",
            f"{rung.correct}/{rung.checked}" if rung.checked else DASH,
            figures.share(rung.accuracy),
            _word(rung.tokens_verified, language),
            say(rung.host, language),
            _word(rung.quality, language),
            _word(rung.capacity, language),
        )
        for rung in one.rungs
    )
    title = say("What each length proved: {scenario}", language, scenario=one.scenario)
    return Table(title=title, head=tuple(say(name, language) for name in head), rows=rows, words=frozenset({5, 6, 7, 8}))


def _word(holds: bool | None, language: Language) -> str:
    return say({True: "yes", False: "no", None: "unverified"}[holds], language)
