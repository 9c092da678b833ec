"""The sections with charts that are drawn from the records themselves."""

from __future__ import annotations

from markupsafe import Markup

from loadkit.metrics import BY_NAME, ttft_ns
from loadkit.record import Answer, Outcome, Record
from loadkit.report.html import charts, tables
from loadkit.report.html.view import View, grouped
from loadkit.statistics import Distribution

DISTRIBUTIONS = ("ttft", "tpot", "e2e", "longest_gap")


def distributions(view: View) -> Markup | None:
    """ECDFs of the durations that people wait for."""
    drawn = []
    for name in DISTRIBUTIONS:
        metric = BY_NAME[name]
        groups = {
            group: Distribution.of((metric.of(record) for record in records), failed=view.failed(records))
            for group, records in view.groups.items()
        }
        if any(len(group) for group in groups.values()):
            drawn.append(tables.figure(view.say(metric.label), charts.ecdf(groups, view.say(metric.label), view.language)))
    if not drawn:
        return None
    lead = view.say("Each curve gives the share of requests that took at most so long; a curve with failures ends below 100 %.")
    return tables.paragraph(lead, "note") + tables.charts(drawn)


def ttft_by_length(view: View) -> Markup | None:
    """TTFT by prompt length, cold and warm apart."""
    clouds: dict[str, list[tuple[float, float]]] = {}
    for record in view.measured:
        tokens, ttft = record.usage.prompt_tokens, ttft_ns(record)
        if tokens is not None and ttft is not None and record.outcome is Outcome.COMPLETED:
            clouds.setdefault(_cache(view, record), []).append((tokens, ttft))
    if not clouds or len({tokens for points in clouds.values() for tokens, _ in points}) < 2:
        return None
    named = {view.say(name): clouds[name] for name in sorted(clouds)}
    return tables.figure(view.say("TTFT by prompt length"), charts.ttft_by_length(named, view.language))


def _cache(view: View, record: Record) -> str:
    """What the server itself said about its cache, where it did; otherwise what was planned, as such."""
    cached, prompt = record.usage.cached_tokens, record.usage.prompt_tokens
    if cached is None or not prompt:
        planned = record.case.cache
        return view.say("planned {state}, cache unverified", state=view.say(planned)) if planned else "cache unverified"
    return "warm (half or more cached)" if cached * 2 >= prompt else "cold (less than half cached)"


def retrieval(view: View) -> Markup | None:
    """Length × depth of the record that was asked for."""
    asked = [record for record in view.measured if record.case.tier and "depth" in record.case.tags]
    if not asked:
        return None
    cells = [
        charts.Cell(tier, _depth(view, depth), sum(map(view.is_correct, records)), len(records))
        for tier, of_tier in grouped(asked, lambda record: record.case.tier or "").items()
        for depth, records in sorted(grouped(of_tier, _depth_key).items())
    ]
    return tables.figure(view.say("Retrieval by length and depth"), charts.retrieval(cells, view.language))


def _depth_key(record: Record) -> str:
    depth = record.case.tags["depth"]
    return f"{depth:08.3f}" if isinstance(depth, int | float) else str(depth)


def _depth(view: View, key: str) -> str:
    try:
        return f"{float(key):g} %"
    except ValueError:
        return view.say(key)


def is_wrong(answer: Answer) -> bool:
    """Whether the check found fault."""
    return answer not in (Answer.CORRECT, Answer.UNVERIFIED)
