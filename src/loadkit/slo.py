"""Service level objectives: `ttft_p95=2s`, `tpot_max=50ms`, `decode_rate_p90=20`, `failed=1%`, `correct=95%`.

An objective on a figure of a request has a limit that each request keeps or breaks, and a share of the attempted requests that
must keep it: failed, truncated and aborted requests stay in the denominator. The share p is decided by the nearest-rank
percentile over all attempted requests with failures as infinity.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from loadkit.errors import UsageError
from loadkit.metrics import BY_NAME
from loadkit.record import Outcome, Record
from loadkit.statistics import minimum_count, nearest_rank

State = Literal["met", "missed", "inconclusive"]

SHARES = ("failed", "correct", "attainment")
"""Objectives on a share of the requests; `attainment` is the share that keeps every objective on a figure."""

_UNITS_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9}
_OBJECTIVE = re.compile(r"^\s*(?P<name>[a-z0-9_]+?)\s*(?:=|<=|>=)\s*(?P<value>[^=<>]+?)\s*$")
_FIGURE = re.compile(r"^(?P<metric>[a-z0-9_]+?)_(?P<share>p\d{1,2}(?:_\d+)?|median|max|min)$")
_VALUE = re.compile(r"^(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-zµ%/]*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One objective. `limit` is in the metric's unit (ns, tokens, tok/s) or a share from 0 to 1; `share` must keep it."""

    text: str
    metric: str
    limit: float
    share: float = 1.0

    @property
    def on_figure(self) -> bool:
        return self.metric in BY_NAME

    def keeps(self, record: Record) -> bool:
        """Whether one request is within the limit; one that did not complete, or has no such figure, is not."""
        if record.outcome is not Outcome.COMPLETED:
            return False
        value = BY_NAME[self.metric].of(record)
        if value is None:
            return False
        return value >= self.limit if BY_NAME[self.metric].worse == "low" else value <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How an objective came out. `value` is the percentile (infinite when failures reach it) or the share, as `limit` is."""

    objective: Objective
    state: State
    value: float | None
    attempted: int
    kept: int
    detail: str = ""


def parse(text: str, *, where: str = "--slo") -> Objective:
    """An objective as people write it.

    Raises:
        UsageError: an unknown figure, percentile or unit, with the nearest known name.
    """
    match = _OBJECTIVE.match(text)
    if match is None:
        raise UsageError(f"{text!r} is no objective", where=where, remedy="write it as ttft_p95=2s or failed=1%")
    name, value = match["name"], match["value"]
    if name in SHARES:
        return Objective(text=text.strip(), metric=name, limit=_share(value, text, where))
    figure = _FIGURE.match(name)
    if figure is None or figure["metric"] not in BY_NAME:
        raise UsageError(f"unknown objective {name!r}", where=where, remedy=_did_you_mean(name))
    metric = BY_NAME[figure["metric"]]
    share = _percentile(figure["share"], text, where)
    return Objective(text=text.strip(), metric=metric.name, limit=_limit(value, metric.unit, text, where), share=share)


def parse_all(texts: Iterable[str], *, where: str = "--slo") -> tuple[Objective, ...]:
    """Several objectives; one text may hold several, separated by commas or spaces."""
    return tuple(parse(part, where=where) for text in texts for part in re.split(r"[,\s]+(?=[a-z])", text.strip()) if part)


def is_good(record: Record, objectives: Sequence[Objective], *, wrong: bool) -> bool:
    """Completed, not wrong, and within every objective on a figure."""
    return record.outcome is Outcome.COMPLETED and not wrong and all(o.keeps(record) for o in objectives if o.on_figure)


def result(objective: Objective, records: Sequence[Record], *, correct: int, checked: int, good: int) -> Result:
    """The outcome of one objective over all attempted requests.

    `correct` of `checked` answers are right; `good` requests keep every objective. Too few requests for the percentile make it
    inconclusive, unless already the median breaks the limit.
    """
    if not objective.on_figure:
        return _of_share(objective, records, correct=correct, checked=checked, good=good)
    low = BY_NAME[objective.metric].worse == "low"
    ordered = sorted((_figure_or_failure(objective, record) for record in records), reverse=low)
    needed = minimum_count(objective.share) if objective.share < 1 else 1
    if len(ordered) < needed:
        broken = bool(ordered) and _breaks(nearest_rank(ordered, 0.5), objective, low=low)
        state: State = "missed" if broken else "inconclusive"
        detail = f"p{100 * objective.share:g} needs {needed} requests, there are {len(ordered)}"
    else:
        state = "missed" if _breaks(nearest_rank(ordered, objective.share), objective, low=low) else "met"
        detail = ""
    return Result(
        objective=objective,
        state=state,
        value=nearest_rank(ordered, objective.share) if ordered else None,
        attempted=len(ordered),
        kept=sum(objective.keeps(record) for record in records),
        detail=detail,
    )


def _figure_or_failure(objective: Objective, record: Record) -> float:
    """The request's figure; infinitely bad where it did not complete or has none."""
    metric = BY_NAME[objective.metric]
    value = metric.of(record) if record.outcome is Outcome.COMPLETED else None
    if value is None:
        return -math.inf if metric.worse == "low" else math.inf
    return value


def _breaks(value: float, objective: Objective, *, low: bool) -> bool:
    return value < objective.limit if low else value > objective.limit


def _of_share(objective: Objective, records: Sequence[Record], *, correct: int, checked: int, good: int) -> Result:
    attempted = len(records)
    failed = sum(record.outcome is not Outcome.COMPLETED for record in records)
    of, kept = {"failed": (attempted, failed), "correct": (checked, correct), "attainment": (attempted, good)}[objective.metric]
    if not of:
        return Result(
            objective=objective, state="inconclusive", value=None, attempted=of, kept=kept, detail="no request to judge"
        )
    value = kept / of
    met = value <= objective.limit if objective.metric == "failed" else value >= objective.limit
    return Result(objective=objective, state="met" if met else "missed", value=value, attempted=of, kept=kept)


def _percentile(word: str, text: str, where: str) -> float:
    """The share of requests that must keep the limit; for a rate too, `decode_rate_p90=20` asks 90 % to be at least so fast."""
    if word in ("max", "min"):
        return 1.0
    share = 0.5 if word == "median" else float(word[1:].replace("_", ".")) / 100
    if not 0 < share < 1:
        raise UsageError(f"{text!r}: {word} is no percentile", where=where, remedy="use p1 to p99, or max")
    return share


def _share(value: str, text: str, where: str) -> float:
    match = _VALUE.match(value)
    if match is None or match["unit"] not in ("", "%"):
        raise UsageError(f"{text!r}: {value!r} is no share", where=where, remedy="write 1% or 0.01")
    share = float(match["number"]) / (100 if match["unit"] else 1)
    if share > 1:
        raise UsageError(f"{text!r}: a share can't exceed 1", where=where, remedy=f"write {match['number']}%")
    return share


def _limit(value: str, unit: str, text: str, where: str) -> float:
    match = _VALUE.match(value)
    if match is None:
        raise UsageError(f"{text!r}: {value!r} is no number with a unit", where=where, remedy="write 2s, 50ms or 20")
    if unit != "ns":
        if match["unit"] not in ("", "tok/s", "/s", "tokens", "tok"):
            raise UsageError(f"{text!r}: {match['unit']!r} is no unit of this figure", where=where, remedy=f"it is in {unit}")
        return float(match["number"])
    if match["unit"] not in _UNITS_NS:
        raise UsageError(f"{text!r}: a duration needs a unit", where=where, remedy="write 2s, 50ms or 300us")
    return float(match["number"]) * _UNITS_NS[match["unit"]]


def _did_you_mean(name: str) -> str:
    known = [*SHARES, *(f"{metric}_{share}" for metric in BY_NAME for share in ("p50", "p90", "p95", "p99", "median", "max"))]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    figures = ", ".join(BY_NAME)
    return (
        f"did you mean {near[0]}?"
        if near
        else f"known figures: {figures} (each with _p50, _p90, _p95, _p99, _max); {', '.join(SHARES)}"
    )
