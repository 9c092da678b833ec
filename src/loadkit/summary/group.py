"""`Group`: what a set of measured requests adds up to. Groups merge, so a summary of a whole is the merge of its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from loadkit.metrics import METRICS, STALL_NS, event_tokens, token_times, tokens_seen
from loadkit.record import Outcome, Record
from loadkit.statistics import Distribution, Histogram
from loadkit.summary.judged import Judged

Counts = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Counts, distributions and the span of a set of requests. All times are ns of the run's clock.

    Attributes:
        attempted: requests, lost and unsent ones included.
        outcomes, stops, truncated, answers, failures, caches, hosts: how many of each word; `caches` by "cold verified" etc.
        tokens: Σ N of completed requests with usage. `tokens_unknown`: completed requests without.
        failed_tokens: tokens of requests that did not complete, a bucket of their own; of `failed_tokens_bound` requests only
            a lower bound is known.
        prompt_tokens, cached_tokens: sums over the `cached_known` requests that report both (the hit share's two sides).
        distributions: by metric name, exact. `gaps`, `itl`, `stamp_error`: histograms (ITL weighted by tokens).
        events: chunks with tokens. coalesced: those of completed requests whose stamp is a later one's.
        estimated: streamed requests whose tokens per event are unknown.
        good: requests that are completed, not wrong and within every SLO.
        first_sent_ns, last_end_ns: first sent and last end (completed requests) or close (others).
        last_completed_ns: last end of a completed request. `busy_ns`: Σ (end or close − sent), the integral of in-flight.
    """

    attempted: int = 0
    outcomes: Counts = field(default_factory=dict)
    stops: Counts = field(default_factory=dict)
    truncated: Counts = field(default_factory=dict)
    answers: Counts = field(default_factory=dict)
    failures: Counts = field(default_factory=dict)
    caches: Counts = field(default_factory=dict)
    hosts: Counts = field(default_factory=dict)
    tokens: int = 0
    tokens_unknown: int = 0
    failed_tokens: int = 0
    failed_tokens_bound: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    cached_known: int = 0
    distributions: dict[str, Distribution] = field(default_factory=dict)
    gaps: Histogram = field(default_factory=Histogram)
    itl: Histogram = field(default_factory=Histogram)
    stamp_error: Histogram = field(default_factory=Histogram)
    events: int = 0
    coalesced: int = 0
    estimated: int = 0
    good: int = 0
    busy_ns: int = 0
    first_sent_ns: int | None = None
    last_end_ns: int | None = None
    last_completed_ns: int | None = None

    @property
    def completed(self) -> int:
        return self.outcomes.get(Outcome.COMPLETED, 0)

    @property
    def failed(self) -> int:
        """Attempted, and neither completed nor cancelled by us."""
        return self.attempted - self.completed - self.outcomes.get(Outcome.CANCELLED, 0)

    @property
    def checked(self) -> int:
        return sum(self.answers.values())

    @property
    def correct(self) -> int:
        return self.answers.get("correct", 0)

    @property
    def hit_share(self) -> float | None:
        """Cached tokens / prompt tokens, of the requests that report both."""
        return self.cached_tokens / self.prompt_tokens if self.cached_known and self.prompt_tokens else None

    def distribution(self, metric: str) -> Distribution:
        return self.distributions.get(metric, Distribution())


def group_of(requests: Sequence[Judged], *, good: Mapping[str, bool] | None = None) -> Group:
    """The group of `requests` (measured, first attempts). `good` tells by id which are good (see `slo`)."""
    records = [request.record for request in requests]
    done = [request.record for request in requests if request.completed]
    lost = [record for record in records if record.outcome not in (Outcome.COMPLETED, Outcome.CANCELLED)]
    cut = [tokens_seen(record) for record in records if record.outcome is not Outcome.COMPLETED]
    known = [usage for usage in (record.usage for record in done) if None not in (usage.prompt_tokens, usage.cached_tokens)]
    sent = [record.sent_ns for record in records if record.sent_ns is not None]
    ends = [(record.sent_ns, end) for record in records if (end := end_of(record)) is not None and record.sent_ns is not None]
    return Group(
        attempted=len(records),
        outcomes=_count(record.outcome.value for record in records),
        stops=_count(record.finish_reason for record in done),
        truncated=_count(request.truncated for request in requests),
        answers=_count(request.answer.value for request in requests if request.answer is not None),
        failures=_count((record.failure.kind if record.failure else record.outcome.value) for record in lost),
        caches=_count(f"{request.record.case.cache} {request.cache}" for request in requests if request.cache is not None),
        hosts=_count(request.host for request in requests),
        tokens=sum(record.usage.completion_tokens or 0 for record in done),
        tokens_unknown=sum(record.usage.completion_tokens is None for record in done),
        failed_tokens=sum(tokens for tokens, _ in cut if tokens is not None),
        failed_tokens_bound=sum(bound for _, bound in cut),
        prompt_tokens=sum(usage.prompt_tokens or 0 for usage in known),
        cached_tokens=sum(usage.cached_tokens or 0 for usage in known),
        cached_known=len(known),
        distributions={
            metric.name: Distribution.of(
                (metric.of(record) for record in _of_metric(metric.name, records, done)), failed=len(lost)
            )
            for metric in METRICS
        },
        **_histograms(done),
        events=sum(len(record.events.at_ns) for record in records),
        coalesced=sum(len(record.events.coalesced) for record in done),
        estimated=sum(token_times(record) == "estimated" for record in done),
        good=sum((good or {}).get(record.id, False) for record in records),
        busy_ns=sum(end - start for start, end in ends),
        first_sent_ns=min(sent, default=None),
        last_end_ns=max((end for _, end in ends), default=None),
        last_completed_ns=max((record.end_ns for record in done if record.end_ns is not None), default=None),
    )


def merged(groups: Iterable[Group]) -> Group:
    """All groups together; associative and commutative, and an empty group changes nothing."""
    total = Group()
    for group in groups:
        total = Group(
            **{item.name: _add(item.name, getattr(total, item.name), getattr(group, item.name)) for item in fields(Group)}
        )
    return total


def end_of(record: Record) -> int | None:
    """When a request stopped being in flight: its end if it completed, else its close."""
    return record.end_ns if record.outcome is Outcome.COMPLETED else record.closed_ns


def _histograms(records: Sequence[Record]) -> dict[str, Histogram]:
    """Gaps and ITL of the completed requests, and the lateness of the client over all their stamps."""
    import numpy as np

    gaps: list[Any] = []
    itl: list[Any] = []
    weights: list[Any] = []
    late: list[Any] = []
    for record in records:
        gap = np.diff(np.array(record.events.at_ns, dtype=np.int64))
        gaps.append(gap)
        known = event_tokens(record)
        if known is not None:
            tokens = np.array(known[1:], dtype=np.int64)
            with_tokens = tokens > 0
            itl.append(gap[with_tokens] / tokens[with_tokens])
            weights.append(tokens[with_tokens])
        if record.events.late_ns:
            late.append(np.array(record.events.late_ns, dtype=np.int64))
    return {
        "gaps": Histogram.of(np.concatenate(gaps), limit=STALL_NS) if gaps else Histogram(),
        "itl": Histogram.of(np.concatenate(itl), weights=np.concatenate(weights)) if itl else Histogram(),
        "stamp_error": Histogram.of(np.concatenate(late)) if late else Histogram(),
    }


def _of_metric(name: str, records: Sequence[Record], done: Sequence[Record]) -> Sequence[Record]:
    """Latencies and token counts are of completed requests; the client's own lateness and `elapsed` are of all."""
    return records if name in ("elapsed", "send_lag") else done


def _count(words: Iterable[str | None]) -> Counts:
    return dict(sorted(Counter(word for word in words if word is not None).items()))


def _add(name: str, left: Any, right: Any) -> Any:
    if name == "first_sent_ns":
        return min((value for value in (left, right) if value is not None), default=None)
    if name in ("last_end_ns", "last_completed_ns"):
        return max((value for value in (left, right) if value is not None), default=None)
    if isinstance(left, Histogram):
        return left.merged(right)
    if name == "distributions":
        return {
            key: left.get(key, Distribution()).merged(right.get(key, Distribution())) for key in dict.fromkeys([*left, *right])
        }
    if isinstance(left, dict):
        return dict(sorted((Counter(left) + Counter(right)).items()))
    return left + right
