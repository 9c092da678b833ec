"""`Flow`: tokens and requests over the time of one round: sustained window, peak in flight, peak rate. Flows merge."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from loadkit.metrics import NS_PER_S, event_tokens
from loadkit.record import Record
from loadkit.summary.group import end_of
from loadkit.summary.judged import Judged

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW_REQUESTS = 20
"""Fewest requests that end inside a sustained window; with fewer only the makespan throughput is given."""

Span = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What one round put through, in order of time (ns of the run's clock).

    Attributes:
        users: user → (end of its first request, end of its last, number of requests).
        ended: ends of completed requests. `sent`, `left`: when requests began and ceased to be in flight. All sorted.
        at_ns, tokens: the steps of output, sorted by time.
        estimated, bound: requests whose steps are N / events each, and whose steps are 1 token each (a lower bound).
    """

    users: dict[str, Span] = field(default_factory=dict)
    ended: array[int] = field(default_factory=lambda: array("q"))
    sent: array[int] = field(default_factory=lambda: array("q"))
    left: array[int] = field(default_factory=lambda: array("q"))
    at_ns: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[float] = field(default_factory=lambda: array("d"))
    estimated: int = 0
    bound: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The sustained part of a round: [a, b] in ns of the run's clock, from every user having finished its first request to the
    first moment that a user has nothing left to send. `label` says how sure its tokens are."""

    begin_ns: int
    end_ns: int
    requests: int
    tokens: float
    label: str = "exact"

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / NS_PER_S

    @property
    def output_tok_s(self) -> float:
        """Σ tokens whose time lies in [a, b] / (b − a)."""
        return self.tokens / self.seconds

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds


def flow_of(requests: Sequence[Judged]) -> Flow:
    """The flow of the requests of one round.

    Known tokens per event are used as they are; what no event carried (the end of sequence, or all of an answer that was not
    streamed) counts at the request's end. Where tokens per event are unknown, each event of a completed request counts as
    N / events, and each of a cut-off one as 1 (a lower bound).
    """
    records = [request.record for request in requests]
    flights = [(r, r.sent_ns, end) for r in records if r.sent_ns is not None and (end := end_of(r)) is not None]
    unknown = [record for record in records if _is_estimated(record)]
    steps = [step for record in records for step in _steps(record)]
    return Flow(
        users=_merged_users(((_user(record), (end, end, 1)) for record, _, end in flights)),
        ended=_sorted(r.end_ns for r in records if r.end_ns is not None and r.outcome == "completed"),
        sent=_sorted(start for _, start, _ in flights),
        left=_sorted(end for _, _, end in flights),
        estimated=sum(record.usage.completion_tokens is not None for record in unknown),
        bound=sum(record.usage.completion_tokens is None for record in unknown),
        **_in_order([times for times, _ in steps], [tokens for _, tokens in steps]),
    )


def merged_flows(flows: Iterable[Flow]) -> Flow:
    """All flows together; associative and commutative."""
    import numpy as np

    flows = list(flows)
    return Flow(
        users=_merged_users(item for flow in flows for item in flow.users.items()),
        ended=_sorted(end for flow in flows for end in flow.ended),
        sent=_sorted(start for flow in flows for start in flow.sent),
        left=_sorted(end for flow in flows for end in flow.left),
        estimated=sum(flow.estimated for flow in flows),
        bound=sum(flow.bound for flow in flows),
        **_in_order(
            [np.frombuffer(flow.at_ns, dtype=np.int64) for flow in flows if flow.at_ns],
            [np.frombuffer(flow.tokens, dtype=np.float64) for flow in flows if flow.tokens],
        ),
    )


def window_of(flow: Flow) -> Window | None:
    """The sustained window of a round; `None` where no user sends twice, or fewer than 20 requests end in it."""
    if all(number < 2 for _, _, number in flow.users.values()):
        return None
    begin = max(first for first, _, _ in flow.users.values())
    end = min(last for _, last, _ in flow.users.values())
    requests = sum(begin < moment <= end for moment in flow.ended)
    if end <= begin or requests < WINDOW_REQUESTS:
        return None
    label = "lower bound" if flow.bound else "estimated" if flow.estimated else "exact"
    tokens = _tokens_between(flow, begin, end)
    return Window(begin_ns=begin, end_ns=end, requests=requests, tokens=tokens, label=label)


def peak_in_flight(flow: Flow) -> int:
    """Most requests in flight at one moment; one that ends as another is sent does not overlap it."""
    peak = now = gone = 0
    for start in flow.sent:
        now += 1
        while gone < len(flow.left) and flow.left[gone] <= start:
            gone += 1
            now -= 1
        peak = max(peak, now)
    return peak


def peak_tok_s(flow: Flow) -> float | None:
    """Most tokens in one of the equal parts (of at most a second) of the span from the first sent to the last event."""
    import numpy as np

    span = _span_ns(flow)
    if span is None:
        return None
    parts = -(-span // NS_PER_S)
    at = np.frombuffer(flow.at_ns, dtype=np.int64)
    sums, _ = np.histogram(at - flow.sent[0], bins=parts, range=(0, span), weights=np.frombuffer(flow.tokens, dtype=np.float64))
    return float(sums.max()) / (span / parts / NS_PER_S)


def span_s(flow: Flow) -> float | None:
    """From the first sent to the last event of all that streamed, also of what did not complete."""
    span = _span_ns(flow)
    return None if span is None else span / NS_PER_S


def _span_ns(flow: Flow) -> int | None:
    if not flow.sent or not flow.at_ns or flow.at_ns[-1] <= flow.sent[0]:
        return None
    return flow.at_ns[-1] - flow.sent[0]


def _tokens_between(flow: Flow, begin: int, end: int) -> float:
    """Tokens after `begin`, up to and with `end`."""
    import numpy as np

    at = np.frombuffer(flow.at_ns, dtype=np.int64)
    inside = slice(np.searchsorted(at, begin, side="right"), np.searchsorted(at, end, side="right"))
    return float(np.frombuffer(flow.tokens, dtype=np.float64)[inside].sum())


def _is_estimated(record: Record) -> bool:
    """Tokens are there, and their times are not: events without counts, or an answer that was not streamed."""
    if record.events.at_ns:
        return event_tokens(record) is None
    return record.outcome == "completed" and not record.streamed and bool(record.usage.completion_tokens)


def _steps(record: Record) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """(times, tokens) of the events, and of what no event carried."""
    import numpy as np

    known, total, chunks = event_tokens(record), record.usage.completion_tokens, len(record.events.at_ns)
    if chunks:
        spread = 1.0 if total is None else total / chunks
        tokens = np.full(chunks, spread) if known is None else np.array(known, dtype=np.float64)
        yield np.array(record.events.at_ns, dtype=np.int64), tokens
    carried = total if chunks and known is None else sum(known or ())
    if (
        record.outcome == "completed"
        and record.end_ns is not None
        and total is not None
        and carried is not None
        and total > carried
    ):
        yield np.array([record.end_ns], dtype=np.int64), np.array([total - carried], dtype=np.float64)


def _user(record: Record) -> str:
    """Who sent it: a named user of its worker, else the way of the plan."""
    return f"{record.slot.worker}/{record.slot.user}" if record.slot.user else f"way {record.slot.way}"


def _merged_users(items: Iterable[tuple[str, Span]]) -> dict[str, Span]:
    users: dict[str, Span] = {}
    for name, (first, last, number) in items:
        known = users.get(name)
        users[name] = (first, last, number) if known is None else (min(first, known[0]), max(last, known[1]), number + known[2])
    return dict(sorted(users.items()))


def _sorted(values: Iterable[int]) -> array[int]:
    return array("q", sorted(values))


def _in_order(times: Sequence[NDArray[Any]], tokens: Sequence[NDArray[Any]]) -> dict[str, Any]:
    import numpy as np

    if not times:
        return {}
    at, counts = np.concatenate(times), np.concatenate(tokens)
    order = np.lexsort((counts, at))
    return {"at_ns": array("q", at[order].tobytes()), "tokens": array("d", counts[order].tobytes())}
