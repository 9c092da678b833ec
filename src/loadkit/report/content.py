"""The tables of a report as plain text in the reader's language; terminal, Markdown and HTML only differ in how they set them.

Each function gives one `Table`, or `None` where the run has nothing to put into it. A dash stands for "does not apply" or
"unknown"; 0 is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadkit.language import Language, gloss, say
from loadkit.report import figures
from loadkit.report.figures import DASH
from loadkit.statistics import SHOWN, Distribution
from loadkit.summary import EffectiveContext, Part, Spread, Stage, Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. The first column names the row; columns in `words` hold text, the others figures."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()
    note: str = ""


Column = tuple[str, Callable[..., str]]


def stages(summary: Summary, language: Language) -> Table | None:
    """The comparison: one row per stage."""
    shown = [stage for stage in summary.stages if stage.name or stage.ways]
    columns: list[Column] = [
        ("ways", lambda stage: figures.count(stage.ways)),
        ("tokens/s (makespan)", lambda stage: spread(stage.makespan_tok_s)),
        ("per user", lambda stage: middle(stage.per_user_tok_s)),
        ("scaling", lambda stage: figures.scaling(stage.scaling)),
        ("tokens/s (sustained)", lambda stage: spread(stage.output_tok_s)),
        ("TTFT median", lambda stage: figures.duration(stage.group.distribution("ttft").median)),
        ("TTFT maximum", lambda stage: figures.duration(stage.group.distribution("ttft").maximum)),
        ("TPOT median", lambda stage: figures.duration(stage.group.distribution("tpot").median)),
        ("e2e median", lambda stage: figures.duration(stage.group.distribution("e2e").median)),
        ("achieved concurrency", lambda stage: middle(stage.achieved_concurrency)),
        ("completed", lambda stage: f"{stage.group.completed}/{stage.group.attempted}"),
        ("failed", lambda stage: figures.count(stage.group.failed)),
        ("prefix hits", lambda stage: figures.share(stage.group.hit_share)),
    ]
    note = say(
        "Medians of the rounds, with minimum and maximum; scaling is against one way, never against a decode rate.", language
    )
    return _table(say("Stages", language), "stage", _stage_name, columns, shown, language, note=note)


def _stage_name(stage: Stage) -> str:
    scenarios = ", ".join(stage.scenarios)
    return f"{stage.name} ({scenarios})" if scenarios and stage.name else stage.name or scenarios


def scenarios(summary: Summary, language: Language) -> Table | None:
    """One row per scenario; speed and quality workloads are never averaged together."""
    columns = [("workload", lambda part: say(part.workload, language)), *_group_columns()]
    return _table(
        say("Scenarios", language), "scenario", lambda part: part.scenario, columns, summary.scenarios, language,
        words=frozenset({"workload"}),
    )  # fmt: skip


def tiers(summary: Summary, language: Language) -> Table | None:
    """One row per scenario, length and cache state, with what truncation needs to be judged."""
    columns: list[Column] = [
        ("length", lambda part: part.tier),
        ("cache", lambda part: say(part.cache, language) if part.cache else DASH),
        *_group_columns()[:-1],
        ("truncated thinking", lambda part: figures.count(part.group.truncated.get("thinking", 0))),
        ("truncated answer", lambda part: figures.count(part.group.truncated.get("answer", 0))),
        ("most output", lambda part: figures.count(part.group.distribution("output_tokens").maximum)),
        ("most thinking", lambda part: figures.count(part.group.distribution("thinking_tokens").maximum)),
        ("prefix hits", lambda part: figures.share(part.group.hit_share)),
        ("cache state", lambda part: _cache_words(part, language)),
    ]
    return _table(
        say("Lengths", language), "scenario", lambda part: part.scenario, columns, summary.tiers, language,
        words=frozenset({"cache", "cache state"}),
    )  # fmt: skip


def _cache_words(part: Part, language: Language) -> str:
    """Whether the declared state was confirmed: `cache unverified` as soon as one request could not say."""
    states = {name.rpartition(" ")[2] for name in part.group.caches}
    for state in ("contradicted", "unverified", "verified"):
        if state in states:
            return say(f"cache {state}", language)
    return DASH


def _group_columns() -> list[Column]:
    def answers(part: Part) -> str:
        return f"{part.group.correct}/{part.group.checked}" if part.group.checked else DASH

    return [
        ("completed", lambda part: f"{part.group.completed}/{part.group.attempted}"),
        ("correct", answers),
        ("TTFT median", lambda part: figures.duration(part.group.distribution("ttft").median)),
        ("TTFT maximum", lambda part: figures.duration(part.group.distribution("ttft").maximum)),
        ("TPOT median", lambda part: figures.duration(part.group.distribution("tpot").median)),
        ("e2e median", lambda part: figures.duration(part.group.distribution("e2e").median)),
        ("longest gap", lambda part: figures.duration(part.group.gaps.maximum)),
    ]


def percentiles(summary: Summary, language: Language) -> Table | None:
    """Latencies by stage with every percentile that the count allows, and with failures as infinity once one failed."""
    rows = []
    for stage in summary.stages:
        for name, label in (("ttft", "TTFT"), ("ttfat", "TTFAT"), ("tpot", "TPOT"), ("e2e", "e2e")):
            found = stage.group.distribution(name)
            if len(found):
                rows.append((f"{_stage_name(stage)} {label}", *_percentile_cells(found)))
    head = ("figure", "n", "minimum", "median", *(f"p{100 * p:.0f}" for p in SHOWN), "maximum", "with failures as infinity")
    kept = [number for number in range(len(head)) if any(row[number] != DASH for row in rows)]
    return Table(
        title=say("Percentiles", language),
        head=tuple(say(head[number], language) for number in kept),
        rows=tuple(tuple(row[number] for number in kept) for row in rows),
        note=say("Nearest rank; p90, p95 and p99 only from 29, 59 and 299 values on.", language),
    ) if rows else None  # fmt: skip


def _percentile_cells(found: Distribution) -> tuple[str, ...]:
    named = [(f"p{100 * p:.0f}", found.with_failures(p)) for p in (0.5, *SHOWN)] if found.failed else []
    worst = ", ".join(f"{name} {infinite(value)}" for name, value in named if value is not None)
    return (
        str(len(found)), figures.duration(found.minimum), figures.duration(found.median),
        *(figures.duration(found.percentile(p)) for p in SHOWN), figures.duration(found.maximum), worst or DASH,
    )  # fmt: skip


def infinite(value_ns: float) -> str:
    """A duration that may be infinite: a failed request never got there."""
    return "∞" if value_ns == float("inf") else figures.duration(value_ns)


def outcomes(summary: Summary, language: Language) -> Table | None:
    """How many requests ended how, over all axes."""
    whole = summary.whole
    axes = (
        ("transport", whole.outcomes), ("why not completed", whole.failures), ("stop", whole.stops),
        ("truncated", whole.truncated), ("answers", whole.answers), ("cache", whole.caches),
        ("host while in flight", whole.hosts),
    )  # fmt: skip
    rows = tuple(
        (say(axis, language), " · ".join(f"{say(word, language)} {count}" for word, count in counts.items()))
        for axis, counts in axes
        if counts
    )
    head = (say("axis", language), say("requests", language))
    return Table(title=say("Outcomes", language), head=head, rows=rows, words=frozenset({1})) if rows else None


def contexts(summary: Summary, language: Language) -> Table | None:
    """Effective context, quality and capacity apart."""
    columns: list[Column] = [
        ("quality", lambda one: one.quality or say("none", language)),
        ("capacity", lambda one: _capacity(one, language)),
        ("base score", lambda one: f"{figures.share(one.base)} ({one.base_of})"),
    ]
    return _table(
        say("Effective context", language), "scenario", lambda one: one.scenario, columns, summary.contexts, language,
        note=say("Quality: accuracy at it and every shorter length at least 85 % of the base score. Capacity: all completed, "
                 "tokens as planned, no host event.", language),
    )  # fmt: skip


def _capacity(one: EffectiveContext, language: Language) -> str:
    found = one.capacity or say("none", language)
    return f"{found} ({say('host unverified', language)})" if one.capacity_unverified else found


def slos(summary: Summary, language: Language) -> Table | None:
    """Each objective with its state."""
    columns: list[Column] = [
        ("state", lambda one: say(one.state, language)),
        ("measured", lambda one: _slo_value(one.value, one.objective.metric)),
        ("kept by", lambda one: f"{one.kept}/{one.attempted}"),
        ("detail", lambda one: gloss(one.detail, language) or DASH),
    ]
    return _table(
        say("Service levels", language), "objective", lambda one: one.objective.text, columns, summary.slos, language,
        words=frozenset({"state", "detail"}),
    )  # fmt: skip


def _slo_value(value: float | None, metric: str) -> str:
    if value is None:
        return DASH
    if metric in ("failed", "correct", "attainment"):
        return figures.share(value)
    return infinite(value) if metric in _DURATIONS else figures.rate(value)


_DURATIONS = ("ttft", "ttfat", "e2e", "elapsed", "send_lag", "ttft_from_due", "e2e_from_due", "tpot", "longest_gap")


def client(summary: Summary, language: Language) -> Table:
    """What the client itself added, beside the limit above which it would reach a figure."""
    error = summary.client
    rows = (
        ("stamp error (read − kernel stamp)", *_spread_cells(error.stamp_error)),
        ("send lag (sent − due)", *_spread_cells(error.send_lag)),
        ("loop lag (50 ms probe)", *_spread_cells(error.loop_late)),
    )
    limit = figures.duration(error.limit_ns)
    more = say(
        "Coalesced gaps {coalesced}; busiest engine {cpu} of a core; an error above {limit} would reach a figure.",
        language,
        coalesced=figures.share(error.coalesced_share), cpu=figures.share(error.cpu_share), limit=limit,
    )  # fmt: skip
    head = ("error of the client", "n", "median", "p99", "maximum")
    return Table(
        title=say("The client's measured error", language),
        head=tuple(say(name, language) for name in head),
        rows=tuple((say(name, language), *cells) for name, *cells in rows),
        note=more,
    )


def _spread_cells(found: object) -> tuple[str, str, str, str]:
    count = len(found) if isinstance(found, Distribution) else found.count  # type: ignore[attr-defined]
    middle_ns, top = found.median, found.maximum  # type: ignore[attr-defined]
    p99 = found.percentile(0.99)  # type: ignore[attr-defined]
    return figures.count(count), figures.duration(middle_ns), figures.duration(p99), figures.duration(top)


def tokens(summary: Summary, language: Language) -> Table:
    """Tokens counted three ways."""
    audit = summary.tokens
    rows = (
        ("usage (what the server told each request)", audit.usage_tokens),
        ("stream (running usage of the chunks)", audit.stream_tokens),
        ("hidden (in no chunk: end of sequence)", audit.hidden_tokens),
        ("the server's own counter, rise over the run", audit.server_tokens),
        ("left over (server − usage)", audit.residue),
        ("prompt tokens", audit.prompt_tokens),
        ("cached prompt tokens (usage)", audit.cached_tokens),
        ("cached prompt tokens (server's counter)", audit.server_hits),
    )
    notes = [say("left over: {why}", language, why=gloss(audit.explained, language))] if audit.explained else []
    return Table(
        title=say("Token audit", language),
        head=(say("counted by", language), say("tokens", language)),
        rows=tuple((say(name, language), figures.count(value)) for name, value in rows),
        note="; ".join([*notes, *(gloss(line, language) for line in audit.mismatch)]),
    )


def spread(found: Spread | None) -> str:
    """Median, with minimum and maximum of the rounds where they differ."""
    if found is None:
        return DASH
    if found.minimum == found.maximum:
        return figures.rate(found.median)
    return f"{figures.rate(found.median)} ({figures.rate(found.minimum)}–{figures.rate(found.maximum)})"


def middle(found: Spread | None) -> str:
    """The median of the rounds alone."""
    return DASH if found is None else figures.rate(found.median)


def _table(
    title: str, first: str, name: Callable[..., str], columns: Sequence[Column], items: Sequence[object], language: Language,
    *, note: str = "", words: frozenset[str] = frozenset(),
) -> Table | None:  # fmt: skip
    """A row per item; columns in which no item has anything are left out."""
    if not items:
        return None
    cells = [[of(item) for item in items] for _, of in columns]
    kept = [number for number, column in enumerate(cells) if any(cell != DASH for cell in column)]
    return Table(
        title=title,
        head=(say(first, language), *(say(columns[number][0], language) for number in kept)),
        rows=tuple((name(item), *(cells[number][row] for number in kept)) for row, item in enumerate(items)),
        note=note,
        words=frozenset(place for place, number in enumerate(kept, start=1) if columns[number][0] in words),
    )
