"""Audits: invariants of records, and tokens counted three ways (usage, stream, server)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadkit.metrics import e2e_ns, event_tokens, gaps_ns, ttft_ns
from loadkit.record import Outcome, Record, Sample
from loadkit.run_folder import Run
from loadkit.summary.judged import Judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An invariant that does not hold: a bug of loadkit or an invalid run. `id` is the request, empty for the run."""

    invariant: str
    detail: str
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAudit:
    """Tokens counted three ways over the whole run (all phases, so that the server's counters can be compared).

    Attributes:
        usage_tokens: Σ usage.completion_tokens. `stream_tokens`: Σ tokens of events, where known, of the same requests.
        hidden_tokens: usage − stream: tokens that no event carried (the end of sequence after the last visible token).
        without_usage: completed requests without usage.
        planned_mismatch: ids of requests whose usage.prompt_tokens is not the planned number.
        server_tokens: rise of the server's generation counter over the run; `None` if it was not sampled on both sides.
        unseen: why it was not, as a sentence (a key of `language.say`); empty where it was, or where nothing was sent.
        server_prompt_tokens, prompt_tokens: the same for prompts. `server_hits`, `cached_tokens`: the same for the cache.
        alone: whether the server finished exactly our requests; `None` where it does not count them.
        cut: requests that did not complete: their tokens are in the server's counter, and only in part in ours.
        residue: server − usage. `explained` says in words what the residue is; empty where nothing is left to explain.
        mismatch: in words what does not agree; empty if all does.
    """

    usage_tokens: int
    stream_tokens: int | None
    hidden_tokens: int | None
    without_usage: int
    planned_mismatch: tuple[str, ...]
    prompt_tokens: int
    cached_tokens: int | None
    server_tokens: int | None = None
    unseen: str = ""
    server_prompt_tokens: int | None = None
    server_hits: int | None = None
    alone: bool | None = None
    cut: int = 0
    residue: int | None = None
    explained: str = ""
    mismatch: tuple[str, ...] = ()


def violations(run: Run, requests: Sequence[Judged]) -> tuple[Violation, ...]:
    """Every invariant of the metrics reference that a record or the run breaks."""
    found = [violation for request in requests for violation in _of_record(request.record)]
    return (*found, *_of_run(run))


def token_audit(run: Run, requests: Sequence[Judged]) -> TokenAudit:
    """Usage against the stream against the server's counters; what is left unexplained is said."""
    records = [request.record for request in requests]
    done = [record for record in records if record.outcome is Outcome.COMPLETED]
    counted = [record for record in done if record.usage.completion_tokens is not None]
    streamed = [record for record in counted if event_tokens(record) is not None]
    usage = sum(record.usage.completion_tokens or 0 for record in counted)
    stream = sum(sum(record.events.tokens or ()) for record in streamed) if streamed else None
    hidden = None if stream is None else sum(record.usage.completion_tokens or 0 for record in streamed) - stream
    server = _Counters.over(run, records)
    planned = tuple(
        record.id
        for record in done
        if record.case.planned_prompt_tokens is not None
        and record.usage.prompt_tokens is not None
        and record.usage.prompt_tokens != record.case.planned_prompt_tokens
    )
    cut = sum(record.outcome not in (Outcome.COMPLETED, Outcome.NOT_SENT) for record in records)
    alone = None if server.success is None else server.success == len(done)
    cached = [record.usage.cached_tokens for record in done]
    residue = None if server.tokens is None else server.tokens - usage
    mismatch = []
    if planned:
        mismatch.append(f"{len(planned)} prompts are not of the planned length")
    if hidden is not None and hidden < 0:
        mismatch.append(f"events carried {-hidden} tokens more than usage reports")
    if residue is not None and residue < 0:
        mismatch.append(f"usage reports {-residue} tokens more than the server's counter")
    if residue and residue > 0 and alone and not cut and len(counted) == len(done):
        mismatch.append(f"the server counted {residue} tokens more than usage reports, and served nobody else")
    return TokenAudit(
        usage_tokens=usage,
        stream_tokens=stream,
        hidden_tokens=hidden,
        without_usage=len(done) - len(counted),
        planned_mismatch=planned,
        prompt_tokens=sum(record.usage.prompt_tokens or 0 for record in done),
        cached_tokens=None if None in cached or not cached else sum(tokens or 0 for tokens in cached),
        server_tokens=server.tokens,
        unseen=server.unseen,
        server_prompt_tokens=server.prompt_tokens,
        server_hits=server.hits,
        alone=alone,
        cut=cut,
        residue=residue,
        explained=_explanation(residue, cut=cut, alone=alone, unknown=len(done) - len(counted)),
        mismatch=tuple(mismatch),
    )


def _explanation(residue: int | None, *, cut: int, alone: bool | None, unknown: int) -> str:
    if not residue or residue < 0:
        return ""
    causes = []
    if cut:
        causes.append(f"{cut} requests were cut off")
    if unknown:
        causes.append(f"{unknown} requests have no usage")
    if alone is False:
        causes.append("the server served others too")
    return ", ".join(causes) if causes else "unexplained"


@dataclass(frozen=True, slots=True)
class _Counters:
    """Rises of the server's counters from the last sample before the first request to the first after the last one that shows
    nothing running: a server counts a step after it wrote the step's tokens, so that a look in between is short of them."""

    tokens: int | None = None
    prompt_tokens: int | None = None
    hits: int | None = None
    success: int | None = None
    unseen: str = ""

    @classmethod
    def over(cls, run: Run, records: Sequence[Record]) -> _Counters:
        sent = [record.sent_ns for record in records if record.sent_ns is not None]
        closed = [record.closed_ns for record in records if record.closed_ns is not None]
        samples = sorted(
            (s for s in run.samples if s.source == "server" and s.data.get("generation_tokens") is not None),
            key=lambda sample: sample.monotonic_ns,
        )
        if not sent or not closed:
            return cls()
        first, last = min(sent), max(closed)
        before = next((sample for sample in reversed(samples) if sample.monotonic_ns <= first), None)
        later = [sample for sample in samples if sample.monotonic_ns >= last]
        after = next((sample for sample in later if not _busy(sample)), later[-1] if later else None)
        if not samples:
            return cls(unseen="Token totals: the server's own counters were not seen.")
        if before is None:
            return cls(unseen="Token totals: the server's own counters were seen only after the first request was sent.")
        if after is None:
            return cls(unseen="Token totals: the server's own counters were not seen after the last request ended.")
        if _restarted(before, after):
            return cls(unseen="Token totals: the server was started anew within the run, and its own counters with it.")
        return cls(
            tokens=_rise(before, after, "generation_tokens"),
            prompt_tokens=_rise(before, after, "prompt_tokens"),
            hits=_rise(before, after, "prefix_hit_tokens"),
            success=_rise(before, after, "success"),
        )


def _busy(sample: Sample) -> bool:
    return any(sample.data.get(gauge) for gauge in ("running", "waiting"))


def _restarted(before: Sample, after: Sample) -> bool:
    return before.data.get("process_start_time_s") != after.data.get("process_start_time_s")


def _rise(before: Sample, after: Sample, key: str) -> int | None:
    old, new = (_total(sample.data.get(key)) for sample in (before, after))
    return None if old is None or new is None else int(new - old)


def _total(value: object) -> float | None:
    """A counter, or one by reason (`success`), summed."""
    if isinstance(value, dict):
        return sum(float(part) for part in value.values())
    return float(value) if isinstance(value, (int, float)) else None


def _of_record(record: Record) -> Iterator[Violation]:
    ttft, e2e = ttft_ns(record), e2e_ns(record)
    if ttft is not None and ttft < 0:
        yield Violation(invariant="0 ≤ TTFT", detail=f"TTFT is {ttft} ns", id=record.id)
    if ttft is not None and e2e is not None and ttft > e2e:
        yield Violation(invariant="TTFT ≤ e2e", detail=f"TTFT {ttft} ns, e2e {e2e} ns", id=record.id)
    times, gaps = record.events.at_ns, gaps_ns(record)
    if times and sum(gaps) != times[-1] - times[0]:
        yield Violation(invariant="gaps sum to last event − first event", detail="", id=record.id)
    if gaps and min(gaps) < 0:
        yield Violation(invariant="events are in order of time", detail="a gap is negative", id=record.id)
    columns = {len(times), len(record.events.kinds)} | (
        {len(record.events.tokens)} if record.events.tokens is not None else set()
    )
    if len(columns) > 1:
        yield Violation(invariant="event columns are of equal length", detail=str(sorted(columns)), id=record.id)
    count, seen = record.usage.completion_tokens, record.events.tokens
    if count is not None and seen is not None and record.outcome is Outcome.COMPLETED and sum(seen) > count:
        yield Violation(invariant="tokens of events ≤ N", detail=f"{sum(seen)} > {count}", id=record.id)
    if record.outcome is Outcome.COMPLETED and record.finish_reason is None:
        yield Violation(invariant="completed means finish_reason seen", detail="", id=record.id)


def _of_run(run: Run) -> Iterator[Violation]:
    """sent = completed + failed + cancelled + lost: every start has one record, every record its start."""
    records = Counter(record.id for record in run.records)
    twice = [id_ for id_, number in records.items() if number > 1]
    if twice:
        yield Violation(invariant="each request ends once", detail=f"{len(twice)} ids have several records", id=twice[0])
    started = {start.id for start in run.starts}
    unknown = [record.id for record in run.records if record.id not in started and record.outcome is not Outcome.NOT_SENT]
    if run.starts and unknown:
        yield Violation(
            invariant="sent = completed + failed + cancelled + lost",
            detail=f"{len(unknown)} records have no start",
            id=unknown[0],
        )
