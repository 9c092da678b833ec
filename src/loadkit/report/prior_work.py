"""The result tables of the two earlier experiments, row by row, from runs of `retest.py` and `context.py`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from loadkit.language import Language, say
from loadkit.metrics import decode_rate, ttft_ns
from loadkit.record import Answer, Record
from loadkit.report.content import Table
from loadkit.report.figures import DASH
from loadkit.summary import Judged, Summary
from loadkit.summary.tally import tier_tokens


def tables(summary: Summary, language: Language) -> list[Table | str | None]:
    """The tables of the plan that was run; nothing for any other plan."""
    name = str(summary.manifest.get("plan", {}).get("name", ""))
    counting = [request for request in summary.requests if request.counts]
    if name == "retest":
        return [retest(summary, counting, language)]
    if name == "context":
        return [context_answers(counting, language), context_latency(counting, language)]
    return []


def retest(summary: Summary, counting: Sequence[Judged], language: Language) -> Table:
    """Short answers (medians over all rounds), throughput at 2 and 4 ways, long retrieval, prefix reuse, smoke."""
    short = [
        request.record
        for request in counting
        if request.record.case.scenario == "short" and (request.record.slot.ways or 1) == 1
    ]
    prefix, smoke, code = (_of_scenario(counting, name) for name in ("prefix", "smoke", "code"))
    long = [request for request in counting if request.record.case.tier and request not in prefix]
    rows = (
        ("short answer, decode rate (tokens/s)", _middle(short, decode_rate, 3)),
        ("short answer, first token (s, thinking included)", _middle(short, _ttft_s, 4)),
        ("2 ways, total throughput (tokens/s)", _throughput(summary, 2)),
        ("4 ways, total throughput (tokens/s)", _throughput(summary, 4)),
        ("long retrieval, correct", _share(long, lambda request: request.answer is Answer.CORRECT)),
        ("long retrieval, cut off by the budget", _share(long, lambda request: request.truncated is not None)),
        ("long retrieval, most output tokens", _most(long, lambda record: record.usage.completion_tokens)),
        ("long retrieval, most thinking tokens", _most(long, lambda record: record.usage.reasoning_tokens)),
        ("prefix reuse, correct", _share(prefix, lambda request: request.answer is Answer.CORRECT)),
        ("prefix reuse, cached tokens", _sum(prefix, lambda record: record.usage.cached_tokens)),
        ("prefix reuse, same answers cold and warm", f"{summary.pairs[0]}/{summary.pairs[1]}" if summary.pairs[1] else DASH),
        ("smoke (arithmetic, Chinese, tool call), correct", _share(smoke, lambda request: request.answer is Answer.CORRECT)),
        ("code, correct", _share(code, lambda request: request.answer is Answer.CORRECT)),
    )
    head = (say("figure", language), str(summary.manifest.get("label") or say("value", language)))
    return Table(title="", head=head, rows=tuple((say(name, language), value) for name, value in rows))


def context_answers(counting: Sequence[Judged], language: Language) -> Table:
    """Length, right answers at the first attempt, and whether the length held: completed on a stable host."""
    rows = tuple(
        (
            tier,
            _prompt_range(requests),
            _share(requests, lambda request: request.answer is Answer.CORRECT),
            f"{sum(request.completed for request in requests)}/{len(requests)}",
            _held(requests, language),
        )
        for tier, requests in _by_tier(counting)
    )
    head = tuple(say(name, language) for name in ("length", "prompt tokens", "correct", "completed", "stability"))
    return Table(title=say("Answers by length", language), head=head, rows=rows, words=frozenset({4}))


def context_latency(counting: Sequence[Judged], language: Language) -> Table:
    """First token of the first reading (each document's own value) and of the questions after it (median), in seconds."""
    rows = []
    for tier, requests in _by_tier(counting):
        first = [request for request in requests if request.record.case.cache != "warm"]
        later = [request.record for request in requests if request.record.case.cache == "warm"]
        rows.append((tier, _each(first), _middle(later, _ttft_s, 2), _middle(later, _e2e_s, 2), str(len(later))))
    names = (
        "length",
        "first reading, first token (s)",
        "reused, first token (s, median)",
        "reused, whole answer (s, median)",
        "n",
    )
    return Table(title=say("Latency by length", language), head=tuple(say(name, language) for name in names), rows=tuple(rows))


def _of_scenario(counting: Iterable[Judged], name: str) -> list[Judged]:
    return [request for request in counting if request.record.case.scenario == name]


def _by_tier(counting: Iterable[Judged]) -> list[tuple[str, list[Judged]]]:
    tiers: dict[str, list[Judged]] = {}
    for request in counting:
        if request.record.case.tier:
            tiers.setdefault(request.record.case.tier, []).append(request)
    return sorted(tiers.items(), key=lambda item: tier_tokens(item[0]))


def _held(requests: Sequence[Judged], language: Language) -> str:
    if any(request.host == "unstable" for request in requests):
        return say("host unstable", language)
    if not all(request.completed for request in requests):
        return say("not completed", language)
    host = {request.host for request in requests}
    return (
        say("held", language)
        if host == {"stable"}
        else say("completed, host {state}", language, state=say(max(host), language))
    )


def _prompt_range(requests: Sequence[Judged]) -> str:
    known = [tokens for request in requests if (tokens := request.record.usage.prompt_tokens) is not None]
    if not known:
        return DASH
    return str(known[0]) if min(known) == max(known) else f"{min(known)}–{max(known)}"


def _throughput(summary: Summary, ways: int) -> str:
    found = [spread for stage in summary.stages if stage.ways == ways and (spread := stage.makespan_tok_s) is not None]
    return f"{found[0].median:.3f}" if found else DASH


def _middle(records: Iterable[Record], of: Callable[[Record], float | None], digits: int) -> str:
    known = [value for record in records if (value := of(record)) is not None]
    return f"{statistics.median(known):.{digits}f}" if known else DASH


def _each(requests: Iterable[Judged]) -> str:
    return " / ".join(DASH if (value := _ttft_s(request.record)) is None else f"{value:.2f}" for request in requests) or DASH


def _share(requests: Sequence[Judged], holds: Callable[[Judged], bool]) -> str:
    return f"{sum(map(holds, requests))}/{len(requests)}" if requests else DASH


def _most(requests: Sequence[Judged], of: Callable[[Record], int | None]) -> str:
    known = [value for request in requests if (value := of(request.record)) is not None]
    return str(max(known)) if known else DASH


def _sum(requests: Sequence[Judged], of: Callable[[Record], int | None]) -> str:
    known = [of(request.record) for request in requests]
    return DASH if not known or None in known else str(sum(value or 0 for value in known))


def _ttft_s(record: Record) -> float | None:
    ttft = ttft_ns(record)
    return None if ttft is None else ttft / 1e9


def _e2e_s(record: Record) -> float | None:
    if record.outcome != "completed" or record.end_ns is None or record.sent_ns is None:
        return None
    return (record.end_ns - record.sent_ns) / 1e9
