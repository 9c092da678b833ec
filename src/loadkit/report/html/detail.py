"""The requests that the page shows one by one: which they are, and their texts and gaps within a fixed number of bytes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from loadkit.metrics import e2e_ns, tpot_ns, ttft_ns
from loadkit.record import Answer, Record
from loadkit.report import figures
from loadkit.summary import Judged

MOST = 200
TEXT_BYTES = 900_000
"""For all texts together; each request gets an even part of it, and what is cut is said."""
GAP_UNIT_NS = 10_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """A request to show, and why: "failed", "wrong", "slow" or "sampled"."""

    request: Judged
    why: str


def choose(requests: Sequence[Judged], most: int = MOST) -> list[Chosen]:
    """At most `most` requests, in order of time: failed and wrongly answered ones before the slowest, then an even sample."""
    why: dict[str, str] = {}
    for reason, found in _candidates(requests, most):
        for request in found:
            if len(why) < most:
                why.setdefault(request.record.id, reason)
    return [Chosen(request, why[request.record.id]) for request in requests if request.record.id in why]


def _candidates(requests: Sequence[Judged], most: int) -> Iterable[tuple[str, Sequence[Judged]]]:
    """Each reason with its requests; a share of the places is kept for those that follow."""
    yield "failed", [request for request in requests if not request.completed][: most * 3 // 10]
    yield "wrong", [request for request in requests if is_wrong(request)][: most * 3 // 10]
    for duration in (ttft_ns, tpot_ns, e2e_ns):
        yield "slow", _slowest(requests, duration, most // 15)
    yield "sampled", requests[:: max(1, len(requests) * 5 // most)]
    yield "slow", _slowest(requests, e2e_ns, most)
    yield "sampled", requests[:most]


def is_wrong(request: Judged) -> bool:
    """Whether the request completed and a check found fault with its answer."""
    return request.completed and request.answer not in (None, Answer.CORRECT, Answer.UNVERIFIED)


def _slowest(requests: Sequence[Judged], duration: Callable[[Record], float | None], number: int) -> list[Judged]:
    known = [(value, request) for request in requests if (value := duration(request.record)) is not None]
    return [request for _, request in sorted(known, key=lambda pair: pair[0], reverse=True)[:number]]


def rows(chosen: Sequence[Chosen], text_bytes: int = TEXT_BYTES) -> list[dict[str, Any]]:
    """What the page's script reads of each chosen request."""
    each = text_bytes // max(1, len(chosen))
    return [_row(one, each) for one in chosen]


def _row(one: Chosen, text_bytes: int) -> dict[str, Any]:
    record = one.request.record
    answer, answer_cut = cut(record.answer or "", text_bytes * 6 // 10)
    reasoning, reasoning_cut = cut(record.reasoning or "", text_bytes - len(answer.encode()))
    return {
        "id": record.id,
        "why": one.why,
        "title": " · ".join(_place(record)),
        "facts": _facts(record),
        "failure": failure_text(record),
        "checks": [" – ".join(filter(None, (f"{check.check}: {check.answer}", check.detail))) for check in one.request.checks],
        "answer": answer,
        "answer_cut": answer_cut,
        "reasoning": reasoning,
        "reasoning_cut": reasoning_cut,
        "tools": [f"{call.name}({call.arguments})"[:2000] for call in record.tool_calls],
        "kinds": _runs(record.events.kinds),
        "gaps": pack(record.events.at_ns),
    }


def _place(record: Record) -> list[str]:
    slot, case = record.slot, record.case
    place = [case.scenario, case.case, slot.stage]
    if slot.round is not None:
        place.append(f"r{slot.round}")
    if slot.way is not None:
        place.append(f"w{slot.way}")
    return [part for part in place if part]


def _facts(record: Record) -> list[list[str]]:
    usage = record.usage
    facts = [
        ("outcome", record.outcome.value), ("finish", record.finish_reason), ("status", record.http_status),
        ("TTFT", _known(ttft_ns(record))), ("TPOT", _known(tpot_ns(record))), ("e2e", _known(e2e_ns(record))),
        ("prompt", usage.prompt_tokens), ("cached", usage.cached_tokens), ("N", usage.completion_tokens),
        ("thinking", usage.reasoning_tokens), ("stamps", record.stamp_source), ("response id", record.response_id),
    ]  # fmt: skip
    return [[name, str(value)] for name, value in facts if value is not None]


def _known(value_ns: float | None) -> str | None:
    return None if value_ns is None else figures.duration(value_ns)


def failure_text(record: Record) -> str:
    """Class, phase and message of a failure in one line; empty for a completed request."""
    if record.failure is None:
        return ""
    phase = f" ({record.failure.phase.value})" if record.failure.phase else ""
    return f"{record.failure.kind}{phase}: {record.failure.message[:2000]}"


def cut(text: str, most_bytes: int) -> tuple[str, int]:
    """The beginning of a text in at most `most_bytes` of UTF-8, and how many characters were left out."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= most_bytes:
        return text, 0
    kept = raw[:most_bytes].decode("utf-8", "ignore")
    return kept, len(text) - len(kept)


def _runs(kinds: str) -> list[list[Any]]:
    """ "rrraa" → [["r", 3], ["a", 2]]."""
    found: list[list[Any]] = []
    for kind in kinds:
        if found and found[-1][0] == kind:
            found[-1][1] += 1
        else:
            found.append([kind, 1])
    return found


def pack(at_ns: Sequence[int]) -> str:
    """Every gap in units of 10 µs as base64 of LEB128 numbers: 2.7 characters a gap of 20 ms."""
    packed = bytearray()
    for before, after in pairwise(at_ns):
        rest = max(0, round((after - before) / GAP_UNIT_NS))
        while rest > 127:
            packed.append(rest & 127 | 128)
            rest >>= 7
        packed.append(rest)
    return base64.b64encode(packed).decode()


def unpack(text: str) -> list[int]:
    """What `pack` packed, in nanoseconds (to 10 µs); the page's script does the same."""
    gaps, number, shift = [], 0, 0
    for byte in base64.b64decode(text):
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            gaps.append(number * GAP_UNIT_NS)
            number, shift = 0, 0
    return gaps
