"""One definition of each figure of a request: name, unit, formula, and a function of its record.

Durations are integer nanoseconds, rates are per second. `None` means "does not apply" or "unknown"; 0 means zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import sub
from typing import Literal

from loadkit.record import Outcome, Record

NS_PER_S = 1_000_000_000
STALL_NS = NS_PER_S
"""A gap between chunks that a reader takes for a stall: one second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a request.

    `unit` is what `of` returns: "ns", "tokens", "tok/s" (tokens per second) or "tok/chunk". `worse` says which end of its
    distribution is the bad one, where failures count as infinitely bad.
    """

    name: str
    label: str
    unit: Literal["ns", "tokens", "tok/s", "tok/chunk"]
    formula: str
    of: Callable[[Record], float | None]
    note: str = ""
    worse: Literal["high", "low", "neither"] = "high"


def ttft_ns(record: Record) -> int | None:
    """Time to first token: first event − sent. Thinking and tool calls are tokens; `None` if no token was visible."""
    return _since(record.sent_ns, first_event_ns(record))


def ttfat_ns(record: Record) -> int | None:
    """Time to first answer token: first `answer` or `tool` event − sent."""
    return _since(record.sent_ns, first_answer_ns(record))


def e2e_ns(record: Record) -> int | None:
    """End to end: end − sent, of completed requests only."""
    return _since(record.sent_ns, record.end_ns) if record.outcome is Outcome.COMPLETED else None


def elapsed_ns(record: Record) -> int | None:
    """closed − sent, whatever the outcome; a failed request has this and no e2e."""
    return _since(record.sent_ns, record.closed_ns)


def send_lag_ns(record: Record) -> int | None:
    """sent − due: the client's own lateness."""
    return _since(record.due_ns, record.sent_ns)


def ttft_from_due_ns(record: Record) -> int | None:
    """First event − due: the headline of an open loop, free of coordinated omission."""
    return _since(record.due_ns, first_event_ns(record))


def e2e_from_due_ns(record: Record) -> int | None:
    """End − due, of completed requests only."""
    return _since(record.due_ns, record.end_ns) if record.outcome is Outcome.COMPLETED else None


def output_tokens(record: Record) -> int | None:
    """N = usage.completion_tokens; without usage it is unknown, never the tokens asked for."""
    return record.usage.completion_tokens


def first_event_tokens(record: Record) -> int | None:
    """k1, the tokens of the first event, from the running usage; `None` where the server gave none."""
    known = event_tokens(record)
    return known[0] if known else None


def tpot_ns(record: Record) -> float | None:
    """Time per output token: (end − first event) / (N − k1), needs N > k1; of completed requests only.

    Where k1 is unknown (no running usage) it is taken as 1, which is what vLLM sends first; `token_times` then says
    "estimated", and so does every table that shows the figure.
    """
    first, count = first_event_ns(record), output_tokens(record)
    if first is None or count is None or record.end_ns is None or record.outcome is not Outcome.COMPLETED:
        return None
    k1 = first_event_tokens(record)
    later = count - (1 if k1 is None else k1)
    return (record.end_ns - first) / later if later > 0 else None


def token_times(record: Record) -> Literal["known", "estimated"] | None:
    """Whether the tokens of each event are known; `None` for a request without events."""
    if not record.events.at_ns:
        return None
    return "known" if event_tokens(record) is not None else "estimated"


def event_tokens(record: Record) -> tuple[int, ...] | None:
    """k of each event; `None` where unknown, and for a damaged record whose columns are not of equal length."""
    tokens = record.events.tokens
    return tokens if tokens is not None and len(tokens) == len(record.events.at_ns) else None


def decode_rate(record: Record) -> float | None:
    """1 / TPOT: tokens per second of one request once it runs; never a throughput."""
    tpot = tpot_ns(record)
    return NS_PER_S / tpot if tpot else None


def gaps_ns(record: Record) -> tuple[int, ...]:
    """ICG, inter-chunk gaps: every gap between events, in order (nanoseconds)."""
    stamps = record.events.at_ns
    return tuple(map(sub, stamps[1:], stamps))


def longest_gap_ns(record: Record) -> int | None:
    """The longest gap between events: what a reader sees as the worst stutter."""
    return max(gaps_ns(record), default=None)


def stalls(record: Record) -> int | None:
    """Number of gaps longer than `STALL_NS`; `None` for fewer than two events."""
    gaps = gaps_ns(record)
    return sum(gap > STALL_NS for gap in gaps) if gaps else None


def itl_ns(record: Record) -> tuple[tuple[float, int], ...] | None:
    """ITL, inter-token latency: pairs (gap_j / k_j in nanoseconds, weight k_j); `None` where k is unknown."""
    tokens = event_tokens(record)
    if tokens is None:
        return None
    return tuple((gap / k, k) for gap, k in zip(gaps_ns(record), tokens[1:], strict=True) if k > 0)


def tokens_per_chunk(record: Record) -> float | None:
    """(N − k1) / (events − 1), where both are known and there are at least two events."""
    count, k1, chunks = output_tokens(record), first_event_tokens(record), len(record.events.at_ns)
    return (count - k1) / (chunks - 1) if count is not None and k1 is not None and chunks > 1 else None


def prefill_rate(record: Record) -> float | None:
    """(prompt − cached) / TTFT in tokens per second; `None` where the server does not report cached tokens."""
    prompt, cached, ttft = record.usage.prompt_tokens, record.usage.cached_tokens, ttft_ns(record)
    return (prompt - cached) * NS_PER_S / ttft if prompt is not None and cached is not None and ttft else None


def prompt_tokens(record: Record) -> int | None:
    """usage.prompt_tokens."""
    return record.usage.prompt_tokens


def thinking_tokens(record: Record) -> int | None:
    """usage.completion_tokens_details.reasoning_tokens; an absent field is `None`."""
    return record.usage.reasoning_tokens


def cached_tokens(record: Record) -> int | None:
    """usage.prompt_tokens_details.cached_tokens; an absent field is unknown, not 0."""
    return record.usage.cached_tokens


def first_event_ns(record: Record) -> int | None:
    """Stamp of the first event that carries a token."""
    return record.events.at_ns[0] if record.events.at_ns else None


def first_answer_ns(record: Record) -> int | None:
    """Stamp of the first event that is not thinking."""
    kinds = record.events.kinds
    index = next((place for place, kind in enumerate(kinds) if kind != "r"), None)
    return None if index is None else record.events.at_ns[index]


def tokens_seen(record: Record) -> tuple[int | None, bool]:
    """Tokens that are known to have been made for this request, and whether that is only a lower bound.

    Of a completed request N. Of one that was cut off the running count, or without it one token an event (lower bound).
    """
    if record.outcome is Outcome.COMPLETED or record.usage.completion_tokens is not None:
        return record.usage.completion_tokens, False
    known = event_tokens(record)
    if known is not None:
        return sum(known), False
    return len(record.events.at_ns), True


def _since(start: int | None, stop: int | None) -> int | None:
    return None if start is None or stop is None else stop - start


METRICS: tuple[Metric, ...] = (
    Metric(
        name="ttft",
        label="TTFT",
        unit="ns",
        formula="first event − sent",
        of=ttft_ns,
        note="first token of any kind, thinking and tool calls included; none if no token was visible",
    ),
    Metric(
        name="ttfat",
        label="TTFAT",
        unit="ns",
        formula="first answer or tool event − sent",
        of=ttfat_ns,
        note="time to the first token that is not thinking",
    ),
    Metric(name="e2e", label="e2e", unit="ns", formula="end − sent", of=e2e_ns, note="only of completed requests"),
    Metric(
        name="elapsed",
        label="elapsed",
        unit="ns",
        formula="closed − sent",
        of=elapsed_ns,
        note="whatever the outcome; what Locust gets as the response time of a failed request",
    ),
    Metric(
        name="send_lag",
        label="send lag",
        unit="ns",
        formula="sent − due",
        of=send_lag_ns,
        note="the client's own lateness, in the closed loop too",
    ),
    Metric(
        name="ttft_from_due",
        label="TTFT from due",
        unit="ns",
        formula="first event − due",
        of=ttft_from_due_ns,
        note="the headline in an open loop: no coordinated omission",
    ),
    Metric(
        name="e2e_from_due",
        label="e2e from due",
        unit="ns",
        formula="end − due",
        of=e2e_from_due_ns,
        note="the headline in an open loop; only of completed requests",
    ),
    Metric(
        name="output_tokens",
        label="N",
        unit="tokens",
        formula="usage.completion_tokens",
        of=output_tokens,
        note="no usage = unknown, never the tokens asked for",
        worse="neither",
    ),
    Metric(
        name="tpot",
        label="TPOT",
        unit="ns",
        formula="(end − first event) / (N − k1), needs N > k1",
        of=tpot_ns,
        note="k1 = tokens in the first event; right also when a chunk holds several tokens (speculative decoding) or hidden "
        "ones; where the server gives no running usage k1 is taken as 1 and the figure is labelled estimated",
    ),
    Metric(
        name="decode_rate",
        label="decode rate",
        unit="tok/s",
        formula="1 / TPOT",
        of=decode_rate,
        note="tokens/s of one request once it runs; never called throughput",
        worse="low",
    ),
    Metric(
        name="longest_gap",
        label="longest gap",
        unit="ns",
        formula="max gap between events",
        of=longest_gap_ns,
        note="the worst stutter of one request; gaps longer than 1 s are counted as stalls",
    ),
    Metric(
        name="tokens_per_chunk",
        label="tokens per chunk",
        unit="tok/chunk",
        formula="(N − k1) / (events − 1)",
        of=tokens_per_chunk,
        worse="neither",
    ),
    Metric(
        name="prefill_rate",
        label="prefill rate",
        unit="tok/s",
        formula="(prompt − cached) / TTFT",
        of=prefill_rate,
        note="cached tokens from usage; without them it does not apply",
        worse="low",
    ),
    Metric(
        name="prompt_tokens",
        label="prompt tokens",
        unit="tokens",
        formula="usage.prompt_tokens",
        of=prompt_tokens,
        worse="neither",
    ),
    Metric(
        name="thinking_tokens",
        label="thinking tokens",
        unit="tokens",
        formula="usage.completion_tokens_details.reasoning_tokens",
        of=thinking_tokens,
        note="an absent field does not apply",
        worse="neither",
    ),
    Metric(
        name="cached_tokens",
        label="cached tokens",
        unit="tokens",
        formula="usage.prompt_tokens_details.cached_tokens",
        of=cached_tokens,
        note="an absent field is unknown, not 0",
        worse="neither",
    ),
)
"""The per-request figures, in the order of the reference page."""

BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}
