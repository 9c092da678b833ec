"""Drawing in SVG: a frame with axes and marks in it. Every text passes `Markup.format`, which escapes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from markupsafe import Markup

from loadkit.report.html.scale import Scale

Points = Iterable[tuple[float, float]]

COLOURS = 7
"""How many colours the style sheet has for series; they stay apart for colour-blind readers (Okabe and Ito 2008)."""

DASHES = ("", "6 3", "2 3", "8 3 2 3", "12 4", "4 2 1 2", "1 2")
"""Series differ in dash too: a report may be printed in grey."""

_CHARACTER_PX = 6.6


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotting area inside a drawing, in pixels."""

    width: float = 560
    height: float = 300
    left: float = 74
    right: float = 14
    top: float = 14
    bottom: float = 44

    @property
    def x(self) -> tuple[float, float]:
        return self.left, self.width - self.right

    @property
    def y(self) -> tuple[float, float]:
        """From bottom to top, as y axes grow."""
        return self.height - self.bottom, self.top


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale with its title and how its ticks are written."""

    scale: Scale
    title: str
    write: Callable[[float], str]
    ticks: tuple[float, ...] | None = None

    def marks(self, about: int) -> tuple[float, ...]:
        return self.scale.ticks(about) if self.ticks is None else self.ticks


def drawing(frame: Frame, *parts: Markup, title: str, description: str = "") -> Markup:
    """The whole image; `title` and `description` are what a screen reader says."""
    return Markup('<svg class="chart" viewBox="0 0 {w:g} {h:g}" role="img" aria-label="{label}">{parts}</svg>').format(
        w=frame.width, h=frame.height, label=f"{title}. {description}".strip(". "), parts=Markup("").join(parts)
    )


def axes(frame: Frame, x: Axis, y: Axis) -> Markup:
    """Grid, ticks and titles of both axes."""
    return Markup("").join([*_x_axis(frame, x), *_y_axis(frame, y)])


def _x_axis(frame: Frame, axis: Axis) -> Iterable[Markup]:
    bottom, top = frame.y
    last_end = float("-inf")
    for tick in axis.marks(6):
        at, label = axis.scale(tick), axis.write(tick)
        yield line(at, bottom, at, top, "grid")
        half = len(label) * _CHARACTER_PX / 2
        if at - half > last_end + 4 and at + half <= frame.width + 6:  # a label that would touch its neighbour is left out
            yield text(at, bottom + 16, label, "tick mid")
            last_end = at + half
    yield line(*frame.x[:1], bottom, frame.x[1], bottom, "axis")
    yield text(sum(frame.x) / 2, frame.height - 6, axis.title, "title mid")


def _y_axis(frame: Frame, axis: Axis) -> Iterable[Markup]:
    left, right = frame.x
    for tick in axis.marks(5):
        at = axis.scale(tick)
        yield line(left, at, right, at, "grid")
        yield text(left - 6, at + 4, axis.write(tick), "tick end")
    middle = sum(frame.y) / 2
    yield Markup('<text class="title mid" transform="translate(13 {:.0f}) rotate(-90)">{}</text>').format(middle, axis.title)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line; `kind` is its class in the style sheet."""
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(kind, x1, y1, x2, y2)


def text(x: float, y: float, words: str, kind: str) -> Markup:
    """Words at a baseline point; `kind` says how they are aligned and set."""
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(kind, x, y, words)


def rect(x: float, y: float, width: float, height: float, kind: str, *, tip: str = "") -> Markup:
    """A box; `tip` shows when the pointer rests on it."""
    inside = Markup("<title>{}</title>").format(tip) if tip else Markup("")
    return Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>').format(
        kind, x, y, max(0.0, width), max(0.0, height), inside
    )


def dots(points: Points, colour: int, *, radius: float = 2.6, hollow: bool = False) -> Markup:
    """Many points as one path: a stroke of no length with round ends is a dot."""
    path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
    kind = f"dots c{colour % COLOURS}" + (" hollow" if hollow else "")
    return Markup('<path class="{}" stroke-width="{:.1f}" d="{}"/>').format(kind, radius * 2, path) if path else Markup("")


def polyline(points: Points, colour: int, *, dash: str | None = None, tip: str = "") -> Markup:
    """A line through the points."""
    path = "".join(f"{'M' if number == 0 else 'L'}{x:.1f} {y:.1f}" for number, (x, y) in zip(count(), points, strict=False))
    pattern = DASHES[colour % len(DASHES)] if dash is None else dash
    inside = Markup("<title>{}</title>").format(tip) if tip else Markup("")
    return Markup('<path class="line c{}" stroke-dasharray="{}" d="{}">{}</path>').format(
        colour % COLOURS, pattern, path, inside
    )


def legend(entries: Sequence[tuple[str, int]], *, dashed: bool = True) -> Markup:
    """The key of a chart, as HTML above it: colour, dash and name of each series."""
    items = Markup("").join(
        Markup(
            '<li><svg class="key" viewBox="0 0 28 10" aria-hidden="true">'
            '<path class="line c{}" stroke-dasharray="{}" d="M1 5H27"/></svg>{}</li>'
        ).format(colour % COLOURS, DASHES[colour % len(DASHES)] if dashed else "", name)
        for name, colour in entries
    )
    return Markup('<ul class="legend">{}</ul>').format(items)
