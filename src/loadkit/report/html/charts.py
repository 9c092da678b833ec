"""The charts that need no script: plain data in, SVG out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import median

from markupsafe import Markup

from loadkit.language import Language, say
from loadkit.report import figures
from loadkit.report.html import svg
from loadkit.report.html.scale import Scale, around, from_zero, spans_decades
from loadkit.statistics import Distribution
from loadkit.summary import Cell

_NEEDLESS_ZEROS = re.compile(r"\.0+(?=\D|$)|(?<=\.\d)0+(?=\D|$)")

CURVE_POINTS = 240
BANDS = 12
CLOUD_POINTS = 1200
"""A cloud of more points is thinned evenly, with its medians kept from all of them; the caption says so."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One bar of the throughput chart: tokens/s of the rounds at `ways` requests in flight."""

    ways: int
    rounds_per_s: tuple[float, ...]


def ecdf(groups: Mapping[str, Distribution], title: str, language: Language) -> Markup:
    """Share of requests that took at most x ns. A group with failures ends below 100 %: those never got there."""
    shown = {name: group for name, group in groups.items() if len(group)}
    frame = svg.Frame()
    every = list(chain.from_iterable(group.values for group in shown.values()))
    x = svg.Axis(around(every, *frame.x, log=spans_decades(every)), title, _duration)
    y = svg.Axis(Scale(0, 1, *frame.y), say("share of requests", language), _percent, (0.0, 0.25, 0.5, 0.75, 0.9, 1.0))
    curves = [
        svg.polyline(_steps(group, x.scale, y.scale), number, tip=name) for number, (name, group) in enumerate(shown.items())
    ]
    key = svg.legend([(_named(name, group, language), number) for number, (name, group) in enumerate(shown.items())])
    return key + svg.drawing(frame, svg.axes(frame, x, y), *curves, title=title)


def _named(name: str, group: Distribution, language: Language) -> str:
    total = len(group) + group.failed
    if not group.failed:
        return f"{name} (n = {total})"
    return say("{name} (n = {total}, {failed} failed)", language, name=name, total=total, failed=group.failed)


def _steps(group: Distribution, x: Scale, y: Scale) -> list[tuple[float, float]]:
    """The staircase; a long one is drawn at evenly spaced ranks."""
    values = group.values
    total = len(values) + group.failed
    ranks = range(len(values)) if len(values) <= CURVE_POINTS else _spaced(len(values), CURVE_POINTS)
    corners = [(x(values[0]), y(0))]
    for rank in ranks:
        at = x(values[rank])
        corners += [(at, corners[-1][1]), (at, y(bisect_right(values, values[rank]) / total))]
    return corners


def _spaced(total: int, wanted: int) -> list[int]:
    return [round(number * (total - 1) / (wanted - 1)) for number in range(wanted)]


def ttft_by_length(clouds: Mapping[str, Sequence[tuple[float, float]]], language: Language) -> Markup:
    """Dots (prompt tokens, TTFT ns) per state of the cache; the line joins the medians of lengths that were asked often."""
    frame = svg.Frame()
    every = list(chain.from_iterable(clouds.values()))
    lengths, times = [length for length, _ in every], [time for _, time in every]
    x = svg.Axis(around(lengths, *frame.x, log=spans_decades(lengths, 8)), say("prompt tokens", language), _tokens)
    y = svg.Axis(around(times, *frame.y, log=spans_decades(times)), "TTFT", _duration)
    parts = []
    for number, points in enumerate(clouds.values()):
        placed = [(x.scale(length), y.scale(time)) for length, time in thinned(points, CLOUD_POINTS)]
        parts.append(svg.dots(placed, number, hollow=number % 2 == 1))
        parts.append(svg.polyline([(x.scale(length), y.scale(time)) for length, time in _medians(points)], number))
    key = svg.legend([(f"{name} (n = {len(points)})", number) for number, (name, points) in enumerate(clouds.items())])
    return key + svg.drawing(frame, svg.axes(frame, x, y), *parts, title=say("TTFT by prompt length", language))


def thinned(points: Sequence[tuple[float, float]], most: int) -> Sequence[tuple[float, float]]:
    """At most `most` points, evenly taken."""
    return points if len(points) <= most else [points[index] for index in _spaced(len(points), most)]


def _medians(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Median length and time of each size of prompt; with many sizes, of bands of equal count."""
    pieces = _sizes(sorted(points))
    if len(pieces) > BANDS:
        ordered = sorted(points)
        cuts = [round(number * len(ordered) / BANDS) for number in range(BANDS + 1)]
        pieces = [ordered[start:stop] for start, stop in pairwise(cuts) if stop > start]
    return [(median(length for length, _ in piece), median(time for _, time in piece)) for piece in pieces]


def _sizes(ordered: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Neighbours within 15 % of the shortest of them are prompts of one size."""
    pieces: list[list[tuple[float, float]]] = []
    for point in ordered:
        if pieces and point[0] <= pieces[-1][0][0] * 1.15:
            pieces[-1].append(point)
        else:
            pieces.append([point])
    return pieces


def throughput(rungs: Sequence[Rung], language: Language) -> Markup:
    """Makespan tokens/s by ways: each round a dot, the median a bar, the dashed line what perfect scaling would give."""
    frame = svg.Frame()
    ordered = sorted(rungs, key=lambda rung: rung.ways)
    one_way = next((median(rung.rounds_per_s) for rung in ordered if rung.ways == 1 and rung.rounds_per_s), None)
    tops = list(chain.from_iterable(rung.rounds_per_s for rung in ordered))
    ideal_top = 0.0 if one_way is None else one_way * ordered[-1].ways
    shown = [*tops, ideal_top] if ideal_top <= 1.6 * max(tops, default=0.0) else tops
    y = svg.Axis(from_zero(shown, *frame.y), say("output tokens/s (makespan)", language), _rate)
    left, right = frame.x
    slot = (right - left) / len(ordered)
    centres = [left + slot * (number + 0.5) for number in range(len(ordered))]
    parts = [_y_only(frame, y)]
    for centre, rung in zip(centres, ordered, strict=True):
        parts += _bar(centre, min(slot * 0.5, 90), rung, y.scale, language)
        parts.append(svg.text(centre, frame.y[0] + 16, str(rung.ways), "tick mid"))
    if one_way is not None:
        ideal = [(centre, y.scale(one_way * rung.ways)) for centre, rung in zip(centres, ordered, strict=True)]
        inside = [point for point, rung in zip(ideal, ordered, strict=True) if one_way * rung.ways <= y.scale.high]
        parts.append(svg.polyline(inside, 1, dash="5 4", tip=say("perfect scaling", language)))
    parts.append(svg.text(sum(frame.x) / 2, frame.height - 6, say("ways (requests in flight)", language), "title mid"))
    key = [(say("median of rounds", language), 0)] + ([(say("perfect scaling", language), 1)] if one_way is not None else [])
    return svg.legend(key) + svg.drawing(frame, *parts, title=say("Throughput by ways", language))


def _y_only(frame: svg.Frame, y: svg.Axis) -> Markup:
    nothing = svg.Axis(Scale(0, 1, *frame.x), "", str, ())
    return svg.axes(frame, nothing, y)


def _bar(centre: float, width: float, rung: Rung, y: Scale, language: Language) -> list[Markup]:
    if not rung.rounds_per_s:
        return [svg.text(centre, y.start - 8, say("none completed", language), "tick mid")]
    middle, low, high = median(rung.rounds_per_s), min(rung.rounds_per_s), max(rung.rounds_per_s)
    tip = f"{rung.ways}: {figures.rate(middle)} ({figures.rate(low)}–{figures.rate(high)}) tok/s"
    top = y(middle)
    return [
        svg.rect(centre - width / 2, top, width, y.start - top, "bar c0", tip=tip),
        svg.line(centre, y(low), centre, y(high), "whisker"),
        svg.dots([(centre, y(value)) for value in rung.rounds_per_s], 6, radius=2.2),
        svg.text(centre, min(y(high), top) - 7, figures.rate(middle), "value mid"),
    ]


def retrieval(cells: Sequence[Cell], language: Language) -> Markup:
    """Length × depth: how many questions were answered rightly; the number stands in the field, the shade repeats it."""
    tiers = list(dict.fromkeys(cell.tier for cell in cells))
    depths = sorted({cell.depth for cell in cells})
    row = 34.0
    frame = svg.Frame(height=64 + row * len(tiers), left=70, bottom=50)
    left, right = frame.x
    column = (right - left) / len(depths)
    parts = []
    for cell in cells:
        x, y = left + depths.index(cell.depth) * column, frame.top + tiers.index(cell.tier) * row
        good = cell.correct / cell.checked if cell.checked else 0.0
        tip = say("{tier} at {depth}: {correct} of {checked} correct", language, tier=cell.tier, depth=_percent(cell.depth),
                  correct=cell.correct, checked=cell.checked)  # fmt: skip
        parts.append(svg.rect(x + 1, y + 1, column - 2, row - 2, f"heat h{round(good * 5)}", tip=tip))
        parts.append(
            svg.text(x + column / 2, y + row / 2 + 4, f"{cell.correct}/{cell.checked}", f"heat-text t{round(good * 5)} mid")
        )
    bottom = frame.top + row * len(tiers)
    parts += [svg.text(left - 8, frame.top + row * (number + 0.5) + 4, tier, "tick end") for number, tier in enumerate(tiers)]
    parts += [
        svg.text(left + column * (number + 0.5), bottom + 17, _percent(depth), "tick mid")
        for number, depth in enumerate(depths)
    ]
    parts.append(svg.text((left + right) / 2, bottom + 38, say("depth of the record in the document", language), "title mid"))
    return svg.drawing(frame, *parts, title=say("Retrieval by length and depth", language))


def _duration(value_ns: float) -> str:
    """A tick: round, so it needs no zeros behind the point."""
    return _NEEDLESS_ZEROS.sub("", figures.duration(value_ns))


def _rate(value_per_s: float) -> str:
    return _NEEDLESS_ZEROS.sub("", figures.rate(value_per_s))


def _percent(value: float) -> str:
    return f"{value * 100:.3g} %"


def _tokens(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
