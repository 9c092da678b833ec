"""Tables of what streams were like: gaps between chunks with their stalls, tokens and rates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from loadkit.language import Language, say
from loadkit.metrics import STALL_NS, gaps_ns
from loadkit.report import figures
from loadkit.report.content import Table
from loadkit.report.figures import DASH
from loadkit.statistics import Distribution, Histogram
from loadkit.summary import Judged, Stage, Summary


def gaps(summary: Summary, language: Language) -> Table | None:
    """Every gap between chunks, pooled by stage, and the latency between tokens where tokens of chunks are known."""
    rows = tuple(
        (_name(stage), *_cells(stage.group.gaps), str(stage.group.gaps.above), *_short(stage.group.itl))
        for stage in summary.stages
        if stage.group.gaps.count
    )
    head = ("stage", "gaps", "median", "p95", "p99", "maximum", "stalls (> 1 s)", "ITL median", "ITL p99")
    note = say("Gaps in a histogram of at most 0.1 % error; `loadkit report RUN --exact-gaps` sorts them all.", language)
    return _table("Gaps between chunks", head, rows, language, note)


def exact_gaps(summary: Summary, language: Language) -> Table | None:
    """The same, exactly: every gap of every completed request, sorted."""
    by_stage: dict[str, list[Judged]] = {}
    for request in summary.requests:
        if request.counts and request.completed:
            by_stage.setdefault(request.record.slot.stage or request.record.case.scenario, []).append(request)
    pooled = {name: _pooled(requests) for name, requests in by_stage.items()}
    rows = tuple(
        (name, *_cells(found), str(sum(gap > STALL_NS for gap in found.values))) for name, found in pooled.items() if len(found)
    )
    head = ("stage", "gaps", "median", "p95", "p99", "maximum", "stalls (> 1 s)")
    return _table("Gaps between chunks, exactly", head, rows, language)


def rates(summary: Summary, language: Language) -> Table | None:
    """Tokens and rates of single requests, medians by scenario; a decode rate is never a throughput."""
    shown = (
        ("prompt tokens", "prompt_tokens", figures.count),
        ("output tokens", "output_tokens", figures.count),
        ("thinking tokens", "thinking_tokens", figures.count),
        ("tokens per chunk", "tokens_per_chunk", figures.rate),
        ("decode rate (tokens/s)", "decode_rate", figures.rate),
        ("prefill rate (tokens/s)", "prefill_rate", figures.rate),
    )
    rows = []
    for part in summary.scenarios:
        cells = [show(part.group.distribution(name).median) for _, name, show in shown]
        most = figures.count(part.group.distribution("output_tokens").maximum)
        rows.append((part.scenario, *cells, most))
    head = ("scenario", *(label for label, _, _ in shown), "most output")
    note = say("Medians of the requests.", language)
    return _table("Tokens and rates of single requests", head, tuple(rows), language, note)


def _pooled(requests: Sequence[Judged]) -> Distribution:
    return Distribution.of(chain.from_iterable(gaps_ns(request.record) for request in requests))


def _cells(found: Histogram | Distribution) -> tuple[str, ...]:
    count = found.count if isinstance(found, Histogram) else len(found)
    shown = (found.median, found.percentile(0.95), found.percentile(0.99), found.maximum)
    return (figures.count(count), *(figures.duration(value) for value in shown))


def _short(found: Histogram) -> tuple[str, str]:
    return figures.duration(found.median), figures.duration(found.percentile(0.99))


def _name(stage: Stage) -> str:
    return stage.name or ", ".join(stage.scenarios)


def _table(
    title: str, head: tuple[str, ...], rows: tuple[tuple[str, ...], ...], language: Language, note: str = ""
) -> Table | None:
    """Columns in which no row has anything are left out."""
    if not rows:
        return None
    kept = [place for place in range(len(head)) if any(row[place] != DASH for row in rows)]
    return Table(
        title=say(title, language),
        head=tuple(say(head[place], language) for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in rows),
        note=note,
    )
