"""What of a request enters Locust's own statistics: one `request` event, and rows of its own for each figure."""

from __future__ import annotations

from typing import Any

from loadkit.front.bridge import Reply
from loadkit.metrics import decode_rate, e2e_ns, elapsed_ns, tpot_ns, ttfat_ns, ttft_ns
from loadkit.record import Answer, Outcome, Phase, Record

TYPE = "CHAT"
FINE = (Answer.CORRECT, Answer.UNVERIFIED)
NS_PER_MS = 1e6
NS_PER_US = 1e3


class RequestFailed(Exception):
    """Why a request counts as failed in Locust's statistics: an outcome with its class, or a wrong answer."""

    def __repr__(self) -> str:
        return str(self)


def log(environment: Any, reply: Reply) -> None:
    """Fire the `request` event of a measured request and log its figures; warm-ups enter no statistic.

    Response time is e2e, or what had passed when it failed (from its due time where nothing was sent); length is the output
    tokens. Figures go to rows of their own (type "TTFT ms" and so on), so that totals and rates count requests only.
    """
    record = reply.record
    if record.slot.phase is not Phase.MEASURED:
        return
    name = row_name(record)
    environment.events.request.fire(
        request_type=TYPE,
        name=name,
        response_time=_response_time_ms(record),
        response_length=record.usage.completion_tokens or 0,
        exception=failure(reply),
        context={"loadkit": reply},
        start_time=None,
        url="",
    )
    for kind, value in figures(record).items():
        environment.stats.get(name, kind).log(value, 0)


def row_name(record: Record) -> str:
    """Scenario and stage, as in "short · 2 ways"."""
    return f"{record.case.scenario} · {record.slot.stage}" if record.slot.stage else record.case.scenario


def figures(record: Record) -> dict[str, float]:
    """The figures that have rows; one that does not apply is left out."""
    values = {
        "TTFT ms": _scaled(ttft_ns(record), NS_PER_MS),
        "TTFAT ms": _scaled(ttfat_ns(record), NS_PER_MS),
        "TPOT µs": _scaled(tpot_ns(record), NS_PER_US),
        "decode tok/s": decode_rate(record),
    }
    return {kind: value for kind, value in values.items() if value is not None}


def failure(reply: Reply) -> RequestFailed | None:
    """`None` for a completed request whose answer is right or unchecked."""
    record = reply.record
    if record.outcome is not Outcome.COMPLETED:
        kind = record.failure.kind if record.failure is not None else ""
        return RequestFailed(f"{record.outcome}: {kind}" if kind else str(record.outcome))
    wrong = next((verdict.answer for verdict in reply.verdicts if verdict.answer not in FINE), None)
    return None if wrong is None else RequestFailed(f"answer: {wrong}")


def bucket(value: float) -> int:
    """Locust's buckets keep two digits; ours keep units up to a thousand and three digits above."""
    whole = round(value)
    step: int = 10 ** max(0, len(str(abs(whole))) - 3)
    return round(whole / step) * step


def _response_time_ms(record: Record) -> float:
    took = e2e_ns(record)
    if took is None:
        took = elapsed_ns(record)
    if took is None:
        took = 0 if record.closed_ns is None else record.closed_ns - record.due_ns
    return took / NS_PER_MS


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
