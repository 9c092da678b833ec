"""`Request`: one case of a scenario with its wire body, ready to be sent; nothing is serialised after this point.

request = first_request(case, id=…, target=…, slot=…, run_id=…)
record = await client.send(request)
while has_next(case, records):
    request = next_request(case, records, id=…, target=…, slot=…, run_id=…)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from loadkit import dialect
from loadkit.case import DOCUMENT_MARK, Case
from loadkit.record import CaseFacts, Outcome, Record, Slot, ToolCall

PREFILL_FLOOR_TOKENS_PER_S = 300
"""Slowest prefill that the first-token timeout still waits for (method.md: max(600 s, prompt tokens / 300 per s))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds that each phase of a request may take; there is no total. SSE comments count as life, not as tokens."""

    connect_s: float = 5.0
    send_s: float = 60.0
    headers_s: float = 30.0
    first_token_s: float = 600.0
    between_tokens_s: float = 120.0

    @classmethod
    def for_prompt(cls, prompt_tokens: int | None) -> Timeouts:
        """The defaults, with a first-token limit that grows with the prompt (tokens; `None` where unknown)."""
        tokens = 0 if prompt_tokens is None else prompt_tokens
        return cls(first_token_s=max(600.0, tokens / PREFILL_FLOOR_TOKENS_PER_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server that a run measures.

    `base_url` ends in the API's root (``http://spark:8000/v1``), without a trailing slash. The key comes from
    `OPENAI_API_KEY`, and is never written anywhere. `dialect` names a `loadkit.dialect`: what this server understands.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    max_model_len: int | None = None
    dialect: str = "vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request whose body bytes are final.

    `body` is the whole body, or, where `body_file` names a text file (a long document), the part before the document; the text
    is spliced in as part of a JSON string, and `body_tail` follows. `wire_body` puts them together, before the request is due.
    `checks` are plain JSON objects that `loadkit.checks` understands; the engine applies them after the answer ended.
    `due_ns` is `None` until the request is released: an open loop sets it to the planned time, a closed loop to the moment
    the user asked.
    """

    id: str
    slot: Slot
    case: CaseFacts
    body: bytes = b""
    body_file: Path | None = None
    body_tail: bytes = b""
    path: str = "/chat/completions"
    stream: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    checks: tuple[dict[str, Any], ...] = ()
    due_ns: int | None = None


def wire_body(request: Request) -> bytes:
    """The bytes that go on the wire. Reads the document where there is one, so it belongs off the event loop.

    Raises:
        OSError: the document can't be read.
    """
    if request.body_file is None:
        return request.body
    document = orjson.dumps(request.body_file.read_text(encoding="utf-8"))
    return b"".join((request.body, document[1:-1], request.body_tail))


def first_request(
    case: Case,
    *,
    id: str,  # noqa: A002 - the name that the record has
    target: Target,
    slot: Slot,
    run_id: str,
    token_times: bool = True,
) -> Request:
    """The request of a case's first turn. `token_times=False` leaves `continuous_usage_stats` out (see the metrics page)."""
    return _request(case, (), id=id, target=target, slot=slot, run_id=run_id, token_times=token_times)


def next_request(
    case: Case,
    answers: Sequence[Record],
    *,
    id: str,  # noqa: A002 - the name that the record has
    target: Target,
    slot: Slot,
    run_id: str,
    token_times: bool = True,
) -> Request:
    """The request after `answers`, which are the records of the case's turns so far, in order, with their texts.

    The model's own answers enter the conversation without their thinking, as chat templates expect; results of tools answer
    the calls that were made, by their ids.
    """
    return _request(case, answers, id=id, target=target, slot=slot, run_id=run_id, token_times=token_times)


def has_next(case: Case, answers: Sequence[Record]) -> bool:
    """Whether the conversation goes on: a turn is left, the last one completed, and it called a tool where a result follows."""
    if len(answers) >= len(case.turns):
        return False
    if not answers:
        return True
    last = answers[-1]
    wants_calls = bool(case.turns[len(answers)].tool_results)
    return last.outcome is Outcome.COMPLETED and (bool(last.tool_calls) or not wants_calls)


def conversation(case: Case, answers: Sequence[Record] = ()) -> list[dict[str, Any]]:
    """All messages of the request that follows `answers`; a document still stands as its mark."""
    messages: list[dict[str, Any]] = []
    for number, turn in enumerate(case.turns[: len(answers) + 1]):
        if number > 0:
            messages.append(_said(answers[number - 1]))
            messages.extend(_results(answers[number - 1], turn.tool_results))
        messages.extend(turn.messages)
    return messages


def salt(case: Case, slot: Slot, run_id: str) -> str | None:
    """The cache salt of a request: 32 hex digits that depend on the run and on who shares it; `None` where none is sent.

    Without a group: the request's own (case, phase, round, stage, way, attempt), so that it is cold. With one: the group's,
    in which `{round}`, `{way}`, `{attempt}`, `{stage}` and `{phase}` stand for the slot's, so that a first and a repeated
    request of one round can share a salt that no other round has.
    """
    if case.facts.cache == "none":
        return None
    place = {"round": slot.round, "way": slot.way, "attempt": slot.attempt, "stage": slot.stage, "phase": slot.phase.value}
    if case.salt_group is None:
        group = orjson.dumps([case.facts.scenario, case.facts.case, slot.turn, *place.values(), slot.user]).decode()
    else:
        group = case.salt_group.format(**place)
    return hashlib.sha256(f"{run_id}\n{group}".encode()).hexdigest()[:32]


def _request(
    case: Case,
    answers: Sequence[Record],
    *,
    id: str,  # noqa: A002 - the name that the record has
    target: Target,
    slot: Slot,
    run_id: str,
    token_times: bool,
) -> Request:
    number = len(answers)
    turn = case.turns[number]
    speaks = dialect.named(target.dialect)
    cache_salt = salt(case, slot, run_id) if speaks.cache_salt else None
    max_tokens = case.body.get("max_tokens") if turn.max_tokens is None else turn.max_tokens
    fields: dict[str, Any] = {
        "model": target.model,
        **({} if cache_salt is None else {"cache_salt": cache_salt}),
        **_understood(case.body, speaks),
        **({} if max_tokens is None else {"max_tokens": max_tokens}),
        "stream": case.stream,
        **({"stream_options": _stream_options(speaks, token_times)} if case.stream else {}),
        "messages": conversation(case, answers),
    }
    head, _, tail = (
        orjson.dumps(fields).partition(DOCUMENT_MARK.encode()) if case.document else (orjson.dumps(fields), b"", b"")
    )
    facts = replace(
        case.facts,
        max_tokens=max_tokens,
        cache="warm" if number > 0 and case.facts.cache == "cold" else case.facts.cache,
        cache_salt=cache_salt,
        planned_prompt_tokens=case.facts.planned_prompt_tokens if number == 0 else None,
        expected_cached_tokens=case.facts.expected_cached_tokens if number == 0 else None,
    )
    return Request(
        id=id,
        slot=replace(slot, turn=number),
        case=facts,
        body=head,
        body_file=case.document,
        body_tail=tail,
        stream=case.stream,
        headers={"X-Request-Id": id},
        timeouts=Timeouts.for_prompt(case.facts.planned_prompt_tokens),
        checks=turn.checks,
    )


def _stream_options(speaks: dialect.Dialect, token_times: bool) -> dict[str, bool]:
    running = {"continuous_usage_stats": True} if token_times and speaks.running_usage else {}
    return {"include_usage": True, **running}


def _understood(body: dict[str, Any], speaks: dialect.Dialect) -> dict[str, Any]:
    """The body without what this server would refuse or silently ignore."""
    unknown = {"chat_template_kwargs": speaks.template_arguments, "ignore_eos": speaks.ignore_eos}
    return {key: value for key, value in body.items() if unknown.get(key, True)}


def _said(answer: Record) -> dict[str, Any]:
    """The assistant's message as it goes back into the conversation."""
    calls = [
        {
            "id": call.id or f"call-{call.index}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in answer.tool_calls
    ]
    return {"role": "assistant", "content": answer.answer or "", **({"tool_calls": calls} if calls else {})}


def _results(answer: Record, results: dict[str, str]) -> list[dict[str, Any]]:
    """One `tool` message for each call; a call of a tool that has no result here is told so."""
    if not results:
        return []
    unknown = '{"error": "there is no such tool"}'
    return [
        {"role": "tool", "tool_call_id": _id(call), "content": results.get(call.name or "", unknown)}
        for call in answer.tool_calls
    ]


def _id(call: ToolCall) -> str:
    """A call's id; servers that send none get one by position, the same in the call and in its result."""
    return call.id or f"call-{call.index}"
