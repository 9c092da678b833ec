"""`Judged`: one request with what is known about it beyond its record: answer, truncation, cache state, host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from loadkit.checks import WORST_FIRST
from loadkit.prefix_cache import expected_hit
from loadkit.record import Answer, AnswerVerdict, Outcome, Phase, Record, Start
from loadkit.run_folder import Run

HostState = Literal["stable", "suspect", "unstable", "unverified"]
CacheState = Literal["verified", "unverified", "contradicted"]
Place = Literal["thinking", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One request and its verdicts.

    Attributes:
        record: the facts; a request that never ended is a record with outcome `in_flight_lost` and no stamps but `due_ns`.
        answer: the third axis; `None` where no check is declared for its scenario, and where this side stopped it.
        detail: why, in the check's words.
        checks: each check's own verdict.
        truncated: where the budget ran out (quality workloads only: a speed workload ends by length on purpose).
        cache: whether the declared cache state is confirmed by cached tokens; `None` where none is declared.
        host: the host axis of the time it was in flight.
        mem_available_min_bytes: lowest MemAvailable sampled while it was in flight.
    """

    record: Record
    answer: Answer | None = None
    detail: str = ""
    checks: tuple[AnswerVerdict, ...] = ()
    truncated: Place | None = None
    cache: CacheState | None = None
    host: HostState = "unverified"
    mem_available_min_bytes: int | None = None

    @property
    def completed(self) -> bool:
        return self.record.outcome is Outcome.COMPLETED

    @property
    def counts(self) -> bool:
        """Whether it enters figures: measured, and the first attempt (retries are listed apart)."""
        return self.record.slot.phase is Phase.MEASURED and self.record.slot.attempt == 1


def judged(run: Run) -> tuple[Judged, ...]:
    """Every request of the run in order of its due time, lost ones included; the host is not judged yet."""
    records = [*run.records, *(lost(start) for start in run.lost)]
    verdicts = _verdicts(run.checks)
    block_size = run.manifest.get("preflight", {}).get("block_size")
    declared = _scenarios_with_checks(records, verdicts, asked=bool(run.manifest.get("asked", {}).get("answers")))
    return tuple(
        _judged(record, verdicts.get(record.id, ()), declared=record.case.scenario in declared, block_size=block_size)
        for record in sorted(records, key=lambda record: (record.due_ns, record.id))
    )


def lost(start: Start) -> Record:
    """The record of a request that was about to be sent and never ended: the client or its host died."""
    return Record(
        id=start.id,
        slot=start.slot,
        case=start.case,
        outcome=Outcome.IN_FLIGHT_LOST,
        due_ns=start.due_ns,
        body_sha256=start.body_sha256,
    )


def truncation(record: Record) -> Place | None:
    """Where the token budget of a quality request ran out; `None` if it did not."""
    if record.finish_reason != "length" or record.case.workload != "quality":
        return None
    answered = bool(record.answer) or bool(record.tool_calls) or any(kind != "r" for kind in record.events.kinds)
    return "answer" if answered else "thinking"


def cache_state(record: Record, *, block_size: int | None = None) -> CacheState | None:
    """Whether cached tokens confirm the declared state; `block_size` of the server's cache in tokens, where it is known.

    Cold: exactly 0 cached tokens. Warm: at least what the block formula expects; where nothing is expected any, and also none
    for a prompt that is too short for a single block. Requests that merely share a salt may hit or not: for them it is enough
    that the server says what it had cached.
    """
    declared, cached, expected = record.case.cache, record.usage.cached_tokens, record.case.expected_cached_tokens
    if declared not in ("cold", "warm", "shared"):
        return None
    if cached is None:
        return "unverified"
    if declared == "cold":
        return "verified" if cached == 0 else "contradicted"
    if expected is None and block_size is not None and record.usage.prompt_tokens is not None:
        tokens = record.usage.prompt_tokens
        expected = 0 if expected_hit(tokens, tokens, block_size=block_size) == 0 else None
    if expected is None:
        return "verified" if cached > 0 or declared == "shared" else "unverified"
    return "verified" if cached >= expected else "contradicted"


def _judged(record: Record, verdicts: tuple[AnswerVerdict, ...], *, declared: bool, block_size: int | None) -> Judged:
    worst = min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.answer), default=None)
    answer: Answer | None = None
    if declared and record.outcome is not Outcome.CANCELLED:  # stopped by us: nothing of it was asked to the end
        answer = worst.answer if worst is not None else Answer.UNVERIFIED
        if worst is None and record.outcome is not Outcome.COMPLETED:
            answer = Answer.NO_ANSWER
    return Judged(
        record=record,
        answer=answer,
        detail=worst.detail if worst is not None else "",
        checks=verdicts,
        truncated=truncation(record),
        cache=cache_state(record, block_size=block_size) if record.outcome is Outcome.COMPLETED else None,
    )


def _verdicts(checks: Iterable[AnswerVerdict]) -> dict[str, tuple[AnswerVerdict, ...]]:
    found: dict[str, list[AnswerVerdict]] = {}
    for verdict in checks:
        found.setdefault(verdict.id, []).append(verdict)
    return {id_: tuple(verdicts) for id_, verdicts in found.items()}


def _scenarios_with_checks(records: Iterable[Record], verdicts: Mapping[str, object], *, asked: bool) -> set[str]:
    """Scenarios that declare a check: one of their requests has a verdict; if none has, every quality scenario of a run that
    asked for answers (its requests all failed, or the checks were lost)."""
    records = list(records)
    found = {record.case.scenario for record in records if record.id in verdicts}
    if asked and not found:
        return {record.case.scenario for record in records if record.case.workload == "quality"}
    return found
