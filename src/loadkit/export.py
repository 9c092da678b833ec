"""`<csv>_requests.csv` and `<csv>_stages.csv`: one row a request, one row a stage and round, for spreadsheets and scripts.

Each column is an entry of a table (name, meaning, function), from which the reference page is made. An empty cell means "does
not apply" or "unknown".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from loadkit import spreadsheet
from loadkit.clock import Anchor
from loadkit.metrics import METRICS, Metric, stalls
from loadkit.run_folder import Run
from loadkit.summary import Judged, Round, Stage, Summary

T = TypeVar("T")
Cell = str | int | float | None

MS = 1e6
S = 1e9
DIGITS = 6


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column: its heading, what it means, and its value for one row."""

    name: str
    meaning: str
    of: Callable[[T], Cell]


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A request with the clock that turns its stamps into wall time."""

    judged: Judged
    anchor: Anchor | None


@dataclass(frozen=True, slots=True)
class StageRow:
    """One round of one stage."""

    stage: Stage
    round: Round


def write(run: Run, summary: Summary, prefix: str) -> tuple[Path, Path]:
    """Write both files beside Locust's own; returns their paths.

    Raises:
        FolderError: a file can't be written.
    """
    anchor = _anchor(run)
    requests = (RequestRow(judged, anchor) for judged in summary.requests)
    stages = (StageRow(stage, one) for stage in summary.stages for one in stage.rounds)
    return (
        _written(Path(f"{prefix}_requests.csv"), REQUEST_COLUMNS, requests),
        _written(Path(f"{prefix}_stages.csv"), STAGE_COLUMNS, stages),
    )


def _written(path: Path, columns: tuple[Column[T], ...], rows: Iterable[T]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with spreadsheet.written(path, [column.name for column in columns]) as file:
        for row in rows:
            file.add(_shown(column.of(row)) for column in columns)
    return path


def _shown(value: Cell) -> Cell:
    return round(value, DIGITS) if isinstance(value, float) else value


def _anchor(run: Run) -> Anchor | None:
    """Wall time of the run's clock; a worker's on another host is off by its stored offset, which a table can do without."""
    line = next(iter(run.anchors), None)
    return None if line is None else Anchor(line.monotonic_ns + line.offset_ns, line.wall_ns, line.error_ns)


def _metric_column(metric: Metric) -> Column[RequestRow]:
    """Nanoseconds become milliseconds; the unit is in the heading."""
    if metric.unit != "ns":
        name = f"{metric.name}_tok_per_s" if metric.unit == "tok/s" else metric.name
        return Column(name, metric.formula, lambda row: metric.of(row.judged.record))

    def milliseconds(row: RequestRow) -> Cell:
        value = metric.of(row.judged.record)
        return None if value is None else value / MS

    return Column(f"{metric.name}_ms", metric.formula, milliseconds)


def _sent_wall_s(row: RequestRow) -> Cell:
    sent_ns = row.judged.record.sent_ns
    return None if sent_ns is None or row.anchor is None else row.anchor.wall_of(sent_ns) / S


def _failure(row: RequestRow) -> Cell:
    failure = row.judged.record.failure
    return None if failure is None else failure.kind


def _chunks(row: RequestRow) -> Cell:
    record = row.judged.record
    return len(record.events.at_ns) if record.streamed else None


def _stalls(row: RequestRow) -> Cell:
    return stalls(row.judged.record)


REQUEST_COLUMNS: tuple[Column[RequestRow], ...] = (
    Column("id", "id of the request; it was sent as X-Request-Id", lambda row: row.judged.record.id),
    Column("phase", "only measured requests enter figures", lambda row: row.judged.record.slot.phase),
    Column("scenario", "scenario", lambda row: row.judged.record.case.scenario),
    Column("case", "case of the scenario", lambda row: row.judged.record.case.case),
    Column("tier", "length group", lambda row: row.judged.record.case.tier),
    Column("stage", "stage of the plan", lambda row: row.judged.record.slot.stage),
    Column("round", "round, from 1; 0 for warm-ups", lambda row: row.judged.record.slot.round),
    Column("ways", "requests that the stage keeps in flight", lambda row: row.judged.record.slot.ways),
    Column("way", "which of them, from 0", lambda row: row.judged.record.slot.way),
    Column("turn", "turn of a conversation, from 0", lambda row: row.judged.record.slot.turn),
    Column("attempt", "1 for the first try", lambda row: row.judged.record.slot.attempt),
    Column("user", "Locust user", lambda row: row.judged.record.slot.user),
    Column("worker", "Locust worker; empty in a single process", lambda row: row.judged.record.slot.worker),
    Column("outcome", "how the transport ended", lambda row: row.judged.record.outcome),
    Column("failure", "class of the failure", _failure),
    Column("http_status", "HTTP status", lambda row: row.judged.record.http_status),
    Column("finish_reason", "why the model stopped", lambda row: row.judged.record.finish_reason),
    Column("truncated", "cut by the budget while thinking, or in the answer", lambda row: row.judged.truncated),
    Column("answer", "verdict on the answer", lambda row: row.judged.answer),
    Column("answer_detail", "why", lambda row: row.judged.detail),
    Column("host", "state of the server's host while it ran", lambda row: row.judged.host),
    Column("mem_available_min_bytes", "lowest MemAvailable while it ran", lambda row: row.judged.mem_available_min_bytes),
    Column("cache", "declared state of the prefix cache", lambda row: row.judged.record.case.cache),
    Column("cache_state", "whether cached tokens confirm it", lambda row: row.judged.cache),
    Column("sent_wall_s", "when it was sent, seconds since 1970", _sent_wall_s),
    *(_metric_column(metric) for metric in METRICS),
    Column("chunks", "chunks that carried a token", _chunks),
    Column("stalls", "gaps between chunks longer than 1 s", _stalls),
    Column("planned_prompt_tokens", "what was planned", lambda row: row.judged.record.case.planned_prompt_tokens),
    Column("max_tokens", "budget of the answer", lambda row: row.judged.record.case.max_tokens),
    Column("stamp_source", "where times were taken", lambda row: row.judged.record.stamp_source),
    Column("transport", "which transport it came by", lambda row: row.judged.record.transport),
    Column("response_id", "id that the server gave it", lambda row: row.judged.record.response_id),
    Column("body_sha256", "hash of what was sent", lambda row: row.judged.record.body_sha256),
)  # fmt: skip


def _figure(metric: str, pick: Callable[[tuple[float, ...]], float], scale: float) -> Callable[[StageRow], Cell]:
    def of(row: StageRow) -> Cell:
        values = tuple(row.round.group.distribution(metric).values)
        return pick(values) / scale if values else None

    return of


def _sustained(row: StageRow) -> Cell:
    window = row.round.window
    return None if window is None else window.output_tok_s


def _median(values: tuple[float, ...]) -> float:
    from loadkit.statistics import nearest_rank

    return nearest_rank(values, 0.5)


STAGE_COLUMNS: tuple[Column[StageRow], ...] = (
    Column("stage", "stage of the plan", lambda row: row.stage.name),
    Column("round", "round, from 1", lambda row: row.round.number),
    Column("ways", "requests that the stage keeps in flight", lambda row: row.round.ways),
    Column("scenarios", "scenarios asked", lambda row: " ".join(row.stage.scenarios)),
    Column("workload", "speed or quality", lambda row: row.stage.workload),
    Column("attempted", "requests", lambda row: row.round.group.attempted),
    Column("completed", "of them completed", lambda row: row.round.group.completed),
    Column("failed", "of them not", lambda row: row.round.group.attempted - row.round.group.completed),
    Column("output_tokens", "tokens of completed requests", lambda row: row.round.group.tokens),
    Column("makespan_s", "last end − first sent", lambda row: row.round.makespan_s),
    Column("makespan_tok_per_s", "Σ N / makespan", lambda row: row.round.makespan_tok_s),
    Column("per_user_tok_per_s", "makespan throughput / ways", lambda row: row.round.per_user_tok_s),
    Column("output_tok_per_s", "tokens in the window / its length; sustained load only", _sustained),
    Column("achieved_concurrency", "∫ in-flight dt / window", lambda row: row.round.achieved_concurrency),
    Column("requests_per_s", "completed requests / window", lambda row: row.round.requests_per_s),
    Column("goodput_per_s", "good requests / window", lambda row: row.round.goodput_per_s),
    Column("ttft_median_ms", "median TTFT", _figure("ttft", _median, MS)),
    Column("ttft_max_ms", "longest TTFT", _figure("ttft", max, MS)),
    Column("tpot_median_ms", "median TPOT", _figure("tpot", _median, MS)),
    Column("e2e_median_ms", "median e2e", _figure("e2e", _median, MS)),
    Column("e2e_max_ms", "longest e2e", _figure("e2e", max, MS)),
)  # fmt: skip
