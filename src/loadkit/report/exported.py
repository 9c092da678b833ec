"""`summary.json`: the figures of a run as flat JSON with units in its names, in a published, versioned schema.

`VERSION` rises when a key changes its meaning or goes away; new keys leave it as it is. `null` means "does not apply" or
"unknown". Infinity (a percentile that failures reach) is written as the string "inf".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from loadkit.metrics import BY_NAME
from loadkit.statistics import SHOWN, Distribution, Histogram
from loadkit.summary import Group, Part, Round, Spread, Stage, Summary
from loadkit.verdict import Axis, Verdict, invalid_reasons

VERSION = 1

Infinite = float | Literal["inf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadRow:
    """A figure over the rounds of a stage."""

    median: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """The distribution of a figure of requests. Durations are milliseconds, rates per second; `unit` says which.

    Percentiles are nearest rank, and null with too few values (29, 59, 299). `*_with_failures` count failed requests as
    infinite, and stand here as soon as one failed.
    """

    unit: str
    n: int
    failed: int
    minimum: float | None = None
    median: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    maximum: float | None = None
    median_with_failures: Infinite | None = None
    p90_with_failures: Infinite | None = None
    p95_with_failures: Infinite | None = None
    p99_with_failures: Infinite | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """Counts and figures of a set of measured requests (first attempts)."""

    attempted: int
    completed: int
    failed: int
    outcomes: dict[str, int]
    failures: dict[str, int]
    stops: dict[str, int]
    truncated: dict[str, int]
    answers: dict[str, int]
    caches: dict[str, int]
    hosts: dict[str, int]
    output_tokens: int
    tokens_unknown: int
    failed_tokens: int
    prefix_hit_share: float | None
    token_times_estimated: int
    stalls: int
    good: int
    figures: dict[str, FigureRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """One round of a stage. `window_tok_s` is the output throughput of the sustained window."""

    round: int | None
    attempted: int
    completed: int
    output_tokens: int
    makespan_s: float | None
    makespan_tok_s: float | None
    achieved_concurrency: float | None
    peak_in_flight: int
    peak_tok_s: float | None
    window_s: float | None
    window_requests: int | None
    window_tok_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage over all its rounds. `window_label`: exact, estimated or lower bound."""

    stage: str
    ways: int | None
    scenarios: list[str]
    workload: str
    load: str
    makespan_tok_s: SpreadRow | None
    per_user_tok_s: SpreadRow | None
    scaling: float | None
    window_tok_s: SpreadRow | None
    window_label: str | None
    achieved_concurrency: SpreadRow | None
    requests_per_s: SpreadRow | None
    goodput_per_s: SpreadRow | None
    goodput_label: str
    requests: GroupRow
    rounds: list[RoundRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """A scenario, or a scenario at one length and cache state."""

    scenario: str
    workload: str
    tier: str | None
    cache: str | None
    requests: GroupRow


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRow:
    """One axis of the verdict."""

    state: str
    asked: bool
    reasons: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFile:
    """The whole of `summary.json`."""

    schema_version: int
    run_id: str
    label: str
    state: str
    headline: str
    verdict: str
    exit_code: int
    planned: int
    axes: dict[str, AxisRow]
    invalid: dict[str, str]
    requests: GroupRow
    stages: list[StageRow]
    scenarios: list[PartRow]
    tiers: list[PartRow]
    retries: GroupRow | None
    skipped: list[dict[str, Any]]
    slos: list[dict[str, Any]]
    retrieval: list[dict[str, Any]]
    effective_context: list[dict[str, Any]]
    same_answers_cold_and_warm: dict[str, int]
    tokens: dict[str, Any]
    client: dict[str, Any]
    host: dict[str, Any]
    violations: list[dict[str, Any]]
    drifts: list[dict[str, Any]]
    selftest: dict[str, Any] | None
    not_verified: list[str]
    manifest: dict[str, Any]


def exported(summary: Summary, verdict: Verdict) -> SummaryFile:
    """Everything that `summary.json` holds."""
    manifest = summary.manifest
    return SummaryFile(
        schema_version=VERSION,
        run_id=str(manifest.get("run_id", "")),
        label=str(manifest.get("label", "")),
        state=summary.state,
        headline=verdict.headline,
        verdict=verdict.word,
        exit_code=verdict.exit_code,
        planned=summary.planned,
        axes={axis.name: _axis(axis) for axis in verdict.axes},
        invalid=dict(invalid_reasons(summary)),
        requests=group_row(summary.whole),
        stages=[_stage(stage) for stage in summary.stages],
        scenarios=[_part(part) for part in summary.scenarios],
        tiers=[_part(part) for part in summary.tiers],
        retries=None if summary.retries is None else group_row(summary.retries),
        skipped=list(summary.skipped),
        slos=[_slo(result) for result in summary.slos],
        retrieval=_plain(summary.cells),
        effective_context=_plain(summary.contexts),
        same_answers_cold_and_warm={"same": summary.pairs[0], "pairs": summary.pairs[1]},
        tokens=_plain(summary.tokens),
        client=_client(summary),
        host={**_plain(summary.host), "events": _plain(summary.host.events)},
        violations=_plain(summary.violations),
        drifts=_plain(summary.drifts),
        selftest=summary.selftest,
        not_verified=list(summary.not_verified),
        manifest=dict(manifest),
    )


def to_bytes(file: SummaryFile) -> bytes:
    """JSON, two spaces, a newline at the end."""
    return orjson.dumps(file, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS)


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of `summary.json`, made from the classes above."""
    from pydantic import TypeAdapter

    made = TypeAdapter(SummaryFile).json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://loadkit.invalid/summary-{VERSION}.schema.json",
        **made,
    }


def group_row(group: Group) -> GroupRow:
    """Counts and figures of one group."""
    named = {name: figure_row(name, group.distribution(name)) for name in group.distributions}
    named["gap"] = _histogram_row(group.gaps)
    named["itl"] = _histogram_row(group.itl)
    return GroupRow(
        attempted=group.attempted,
        completed=group.completed,
        failed=group.failed,
        outcomes=group.outcomes,
        failures=group.failures,
        stops=group.stops,
        truncated=group.truncated,
        answers=group.answers,
        caches=group.caches,
        hosts=group.hosts,
        output_tokens=group.tokens,
        tokens_unknown=group.tokens_unknown,
        failed_tokens=group.failed_tokens,
        prefix_hit_share=group.hit_share,
        token_times_estimated=group.estimated,
        stalls=group.gaps.above,
        good=group.good,
        figures={name: row for name, row in named.items() if row.n or row.failed},
    )


def figure_row(name: str, found: Distribution) -> FigureRow:
    """One distribution, durations in milliseconds."""
    unit = BY_NAME[name].unit
    scale = 1e-6 if unit == "ns" else 1.0
    with_failures: dict[str, Any] = (
        {f"{_name(p)}_with_failures": _finite(found.with_failures(p), scale) for p in (0.5, *SHOWN)}
        if found.failed and BY_NAME[name].worse == "high"
        else {}
    )
    return FigureRow(
        unit="ms" if unit == "ns" else unit,
        n=len(found),
        failed=found.failed,
        minimum=_scaled(found.minimum, scale),
        median=_scaled(found.median, scale),
        maximum=_scaled(found.maximum, scale),
        **{_name(p): _scaled(found.percentile(p), scale) for p in SHOWN},
        **with_failures,
    )


def _histogram_row(found: Histogram) -> FigureRow:
    return FigureRow(
        unit="ms",
        n=found.count,
        failed=0,
        minimum=_scaled(found.minimum, 1e-6),
        median=_scaled(found.median, 1e-6),
        maximum=_scaled(found.maximum, 1e-6),
        **{_name(p): _scaled(found.percentile(p), 1e-6) for p in SHOWN},
    )


def _name(p: float) -> str:
    return "median" if p == 0.5 else f"p{round(100 * p)}"


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _finite(value: float | None, scale: float) -> Infinite | None:
    if value is None:
        return None
    return "inf" if math.isinf(value) else value * scale


def _stage(stage: Stage) -> StageRow:
    return StageRow(
        stage=stage.name,
        ways=stage.ways,
        scenarios=list(stage.scenarios),
        workload=stage.workload,
        load=stage.load,
        makespan_tok_s=_spread(stage.makespan_tok_s),
        per_user_tok_s=_spread(stage.per_user_tok_s),
        scaling=stage.scaling,
        window_tok_s=_spread(stage.output_tok_s),
        window_label=None if stage.output_tok_s is None else stage.output_label,
        achieved_concurrency=_spread(stage.achieved_concurrency),
        requests_per_s=_spread(stage.requests_per_s),
        goodput_per_s=_spread(stage.goodput_per_s),
        goodput_label=stage.goodput_label,
        requests=group_row(stage.group),
        rounds=[_round(part) for part in stage.rounds],
    )


def _round(part: Round) -> RoundRow:
    window = part.window
    return RoundRow(
        round=part.number,
        attempted=part.group.attempted,
        completed=part.group.completed,
        output_tokens=part.group.tokens,
        makespan_s=part.makespan_s,
        makespan_tok_s=part.makespan_tok_s,
        achieved_concurrency=part.achieved_concurrency,
        peak_in_flight=part.peak_in_flight,
        peak_tok_s=part.peak_tok_s,
        window_s=None if window is None else window.seconds,
        window_requests=None if window is None else window.requests,
        window_tok_s=None if window is None else window.output_tok_s,
    )


def _part(part: Part) -> PartRow:
    return PartRow(
        scenario=part.scenario,
        workload=part.workload,
        tier=part.tier or None,
        cache=part.cache or None,
        requests=group_row(part.group),
    )


def _spread(spread: Spread | None) -> SpreadRow | None:
    return None if spread is None else SpreadRow(median=spread.median, minimum=spread.minimum, maximum=spread.maximum)


def _axis(axis: Axis) -> AxisRow:
    return AxisRow(state=axis.state, asked=axis.asked, reasons=list(axis.reasons))


def _slo(result: Any) -> dict[str, Any]:
    unit = BY_NAME[result.objective.metric].unit if result.objective.on_figure else "share"
    scale = 1e-6 if unit == "ns" else 1.0
    return {
        "text": result.objective.text,
        "state": result.state,
        "unit": "ms" if unit == "ns" else unit,
        "limit": result.objective.limit * scale,
        "value": _finite(result.value, scale),
        "attempted": result.attempted,
        "kept": result.kept,
        "detail": result.detail,
    }


def _client(summary: Summary) -> dict[str, Any]:
    client = summary.client
    return {
        "stamp_error": _histogram_row(client.stamp_error),
        "send_lag": figure_row("send_lag", client.send_lag),
        "loop_late": figure_row("send_lag", client.loop_late),
        "coalesced_share": client.coalesced_share,
        "cpu_share": client.cpu_share,
        "rss_max_bytes": client.rss_max_bytes,
        "limit_ms": client.limit_ns * 1e-6,
        "stamp_sources": client.stamp_sources,
        "transports": client.transports,
        "bottleneck": list(client.bottleneck),
        "degraded": list(client.degraded),
    }


def _plain(value: Any) -> Any:
    """Frozen facts as plain JSON values."""
    return orjson.loads(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
