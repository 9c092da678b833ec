"""A comparison as HTML: a section for another page, or a page of its own that opens offline."""

from __future__ import annotations

from markupsafe import Markup

from loadkit import assets
from loadkit.compare.comparison import Comparison, Row
from loadkit.compare.judgement import Word
from loadkit.language import Language, language_of, say
from loadkit.report.comparison import words
from loadkit.report.html import svg, tables
from loadkit.report.html.scale import Scale, around

ROW_PX = 24
LABELS_PX = 230
FAR_APART = 2.0
"""Ratios further apart than this are drawn on a logarithmic axis."""


def page(found: Comparison, *, language: Language | None = None) -> str:
    """A whole HTML document; nothing in it is loaded from elsewhere."""
    spoken = language or language_of()
    title = say("{b} against {a}", spoken, a=found.a.name, b=found.b.name)
    return Markup(
        '<!doctype html>\n<html lang="{lang}"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>{palette}\n{style}\nbody {{ margin: 0; }}</style>"
        "</head><body>{section}</body></html>\n"
    ).format(
        lang=spoken,
        title=title,
        palette=assets.style("palette.css"),
        style=assets.style("report.css"),
        section=section(found, language=spoken),
    )


def section(found: Comparison, *, language: Language | None = None) -> Markup:
    """The comparison without a page around it; all its styles stand under `.lk`."""
    parts = [
        Markup("<h1>{}</h1>").format(say("{b} against {a}", language, a=found.a.name, b=found.b.name)),
        Markup('<p class="verdict {}">{}</p>').format(_mood(found), words.headline(found, language)),
    ]
    if found.refused:
        heads = [say("differs", language), found.a.name, found.b.name]
        parts.append(tables.table(heads, [(d.key, d.of_a, d.of_b) for d in found.drift], words=(1, 2)))
    else:
        parts += [_forest(found, language), _metrics(found, language), _answers(found, language)]
    parts += [tables.bullets(words.notes(found, language)), _launches(found, language)]
    return Markup('<section class="lk">{}</section>').format(Markup("").join(parts))


def _mood(found: Comparison) -> str:
    row = found.primary
    if found.refused or found.exit_code == 1:
        return "bad"
    if row is None or row.judgement.word in (Word.INCONCLUSIVE, Word.INDICATIVE):
        return "unsure"
    return "bad" if row.judgement.word in (Word.WORSE, Word.WORSE_MAYBE_NEGLIGIBLE) else "good"


def _metrics(found: Comparison, language: Language | None) -> Markup:
    heads = [say(head, language) for head in ("metric", "A", "B", "B against A", "verdict", "launches", "p (Holm)")]
    heads[1:3] = [found.a.name, found.b.name]
    rows = [
        (
            words.name(row, language),
            words.value(row, row.a),
            words.value(row, row.b),
            words.change(row),
            words.verdict(row, language),
            words.basis(row, language),
            say("primary", language) if row is found.primary else "–" if row.p_holm is None else f"{row.p_holm:.2g}",
        )
        for row in found.rows
    ]
    return tables.table(heads, rows, caption=say("Metrics", language), words=(0, 4, 5))


def _answers(found: Comparison, language: Language | None) -> Markup:
    if not found.answers:
        return Markup("")
    heads = [say("right answers", language), found.a.name, found.b.name, say("B against A", language)]
    rows = [(row.scenario, words.right(row.a), words.right(row.b), words.answer_test(row, language)) for row in found.answers]
    return tables.table(heads, rows, words=(3,))


def _launches(found: Comparison, language: Language | None) -> Markup:
    heads = [say(head, language) for head in ("launch", "side", "host", "measurement")]
    rows = [
        (
            launch.name,
            side.name,
            "; ".join((launch.host, *launch.host_reasons)),
            "; ".join((launch.measurement, *launch.measurement_reasons)),
        )
        for side, sound in zip((found.a, found.b), found.soundness, strict=True)
        for launch in sound.launches
    ]
    return tables.table(heads, rows, caption=say("Launches", language), words=(0, 1, 2, 3))


def _forest(found: Comparison, language: Language | None) -> Markup:
    """Each row's ratio with its interval on one axis, the band of ±δ behind them."""
    rows = [row for row in found.rows if row.estimate.low is not None]
    if not rows:
        return Markup("")
    frame = svg.Frame(width=760, height=ROW_PX * len(rows) + 60, left=LABELS_PX)
    ends = [bound for row in rows for bound in (row.estimate.low, row.estimate.high) if bound]
    band = (1 / (1 + found.margin), 1 + found.margin)
    scale = around([*ends, *band], *frame.x, log=max(ends) > FAR_APART * min(ends))
    bottom, top = frame.y
    marks = [
        svg.rect(scale(band[0]), top, scale(band[1]) - scale(band[0]), bottom - top, "heat h2"),
        *_ticks(scale, bottom, top),
        svg.line(scale(1.0), bottom, scale(1.0), top, "axis"),
    ]
    for place, row in enumerate(rows):
        marks += _whisker(row, scale, top + ROW_PX * (place + 0.5), language)
    title = say("Ratios with their intervals; the band is ±{margin}", language, margin=words.percent(found.margin))
    return tables.figure(title, svg.drawing(frame, *marks, title=title))


def _ticks(scale: Scale, bottom: float, top: float) -> list[Markup]:
    """Changes in percent, or factors where the rows lie far apart."""
    return [
        mark
        for tick in scale.ticks(6)
        for mark in (
            svg.line(scale(tick), bottom, scale(tick), top, "grid"),
            svg.text(scale(tick), bottom + 16, f"× {tick:g}" if scale.log else f"{(tick - 1) * 100:+.1f} %", "tick mid"),
        )
    ]


def _whisker(row: Row, scale: Scale, y: float, language: Language | None) -> list[Markup]:
    low, high = row.estimate.low, row.estimate.high
    if low is None or high is None:
        return []
    return [
        svg.text(LABELS_PX - 8, y + 4, words.name(row, language), "tick end"),
        svg.line(scale(low), y, scale(high), y, "whisker"),
        svg.dots([(scale(row.estimate.ratio), y)], 0, radius=4),
    ]
