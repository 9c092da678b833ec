"""Sections whose heart is a chart, drawn from the requests themselves."""

from __future__ import annotations

from markupsafe import Markup

from loadkit.metrics import BY_NAME, ttft_ns
from loadkit.report import content
from loadkit.report.html import charts, tables
from loadkit.report.html.view import View, failed
from loadkit.statistics import Distribution
from loadkit.summary import Judged

DISTRIBUTIONS = ("ttft", "tpot", "e2e", "longest_gap")


def throughput(view: View) -> Markup:
    """Makespan throughput by ways, for each set of stages that differ only in ways."""
    sets: dict[tuple[tuple[str, ...], str], list[charts.Rung]] = {}
    for stage in view.summary.stages:
        if stage.ways is not None and stage.workload == "speed":
            rounds = tuple(rate for part in stage.rounds if (rate := part.makespan_tok_s) is not None)
            sets.setdefault((stage.scenarios, stage.workload), []).append(charts.Rung(stage.ways, rounds))
    title = view.say("Throughput by ways")
    return Markup("").join(
        tables.figure(title if len(sets) == 1 else f"{title}: {', '.join(scenarios)}", charts.throughput(rungs, view.language))
        for (scenarios, _), rungs in sets.items()
        if len({rung.ways for rung in rungs}) > 1
    )


def distributions(view: View) -> Markup | None:
    """ECDFs of the durations that people wait for, with the percentiles as a table."""
    drawn = []
    for name in DISTRIBUTIONS:
        metric = BY_NAME[name]
        groups = {
            group: Distribution.of((metric.of(one.record) for one in requests if one.completed), failed=failed(requests))
            for group, requests in view.groups.items()
        }
        if any(len(group) for group in groups.values()):
            drawn.append(tables.figure(view.say(metric.label), charts.ecdf(groups, view.say(metric.label), view.language)))
    if not drawn:
        return None
    lead = view.say("Each curve gives the share of requests that took at most so long; a curve with failures ends below 100 %.")
    return tables.paragraph(lead, "note") + tables.charts(drawn) + _percentiles(view)


def _percentiles(view: View) -> Markup:
    """The long table, folded."""
    table = tables.of(content.percentiles(view.summary, view.language))
    return Markup("<details><summary>{}</summary>{}</details>").format(view.say("Percentiles by stage"), table)


def ttft_by_length(view: View) -> Markup | None:
    """TTFT by prompt length, cold and warm apart."""
    clouds: dict[str, list[tuple[float, float]]] = {}
    for request in view.counting:
        tokens, ttft = request.record.usage.prompt_tokens, ttft_ns(request.record)
        if tokens and ttft is not None and request.completed:
            clouds.setdefault(_cache_words(request), []).append((tokens, ttft))
    lengths = [tokens for points in clouds.values() for tokens, _ in points]
    if not lengths or max(lengths) < 2 * min(lengths):  # prompts of one size: nothing to see
        return None
    named = {view.say(name): clouds[name] for name in sorted(clouds)}
    note = view.say("Cold and warm by what the server said it had cached; the lines join medians of bands of length.")
    return tables.figure(view.say("TTFT by prompt length"), charts.ttft_by_length(named, view.language)) + tables.paragraph(
        note, "note"
    )


def _cache_words(request: Judged) -> str:
    """What the server itself said about its cache, where it did; otherwise what was planned, as such."""
    usage = request.record.usage
    if usage.cached_tokens is None or not usage.prompt_tokens:
        planned = request.record.case.cache
        return f"planned {planned}, cache unverified" if planned in ("cold", "warm") else "cache unverified"
    return "warm (half or more cached)" if usage.cached_tokens * 2 >= usage.prompt_tokens else "cold (less than half cached)"


def retrieval(view: View) -> Markup | None:
    """Length × depth of the record that was asked for, and the effective context."""
    cells = view.summary.cells
    names = dict.fromkeys(cell.scenario for cell in cells)
    grids = [
        tables.figure(name, charts.retrieval([cell for cell in cells if cell.scenario == name], view.language))
        for name in names
    ]
    contexts = tables.of(content.contexts(view.summary, view.language))
    if not grids and not contexts:
        return None
    lead = view.say("Each field: questions answered rightly of those asked; a blue field is good, an orange one bad.")
    return (tables.paragraph(lead, "note") + tables.charts(grids) if grids else Markup("")) + contexts
