"""The JSON lines between Locust and its engine, and plain dataclasses made from them without a validation library.

Both ends are of one version and on one machine, so nothing is checked here; the cost counts, since a burst of a thousand
requests passes through at one moment. To the engine:

    open      {folder, worker, target, keep_text, kernel_stamps, offset_ns, offset_error_ns}  → opened | failed
    send      {request}                          send it now
    hold      {request}                          keep it ready until `release`, with a connection open → held
    release   {ids, due_ns}                      send what is held, all at one moment
    follow    {request, after}                   have it ready, and send it as soon as the request `after` has ended
    withdraw  {id}                               take a follower back that has not begun; one that has is left alone
    cancel    {id}                               close its stream; its record says `cancelled`; its follower is taken back
    check     {verdict}                          a verdict that a locustfile's own check found: goes into the record file
    call      {number, function, arguments}      run `module:function` here → answer
    close     {}                                 end of a run: close connections and the record file → closed

From the engine:

    ready     {pid}                              imports are done
    opened, closed, failed {problem}
    ended     {record, events, verdicts}         a record as `ended_line` writes it: its request's slot and case are known there
    held      {id}                               it can be released: body and connection are there
    unsent    {id}                               cancelled or taken back before anything of it began: there is no record
    pulse     {heartbeat}                        once a second while a run is open
    trouble   {problem}                          records can't be written (full disk); they are kept in memory
    answer    {number, value | mistake | fault}
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson

from loadkit.case import Case, Turn
from loadkit.plan import Item
from loadkit.record import (
    Answer,
    AnswerVerdict,
    CaseFacts,
    ErrorPhase,
    Events,
    Failure,
    Heartbeat,
    Outcome,
    Phase,
    Record,
    Slot,
    ToolCall,
    Usage,
)
from loadkit.request import Request, Target, Timeouts

JSON = dict[str, Any]

_REQUEST_FIELDS = tuple(field.name for field in fields(Request))

TOLD = tuple(field.name for field in fields(Record) if field.name not in ("slot", "case", "events", "kind"))
"""The fields of a record that an `ended` message has, in this order."""

_told = attrgetter(*TOLD)


def line(op: str, **values: Any) -> bytes:
    """One message, newline included. Paths become text, dataclasses and enums what orjson makes of them."""
    return orjson.dumps({"op": op, **values}, default=str, option=orjson.OPT_APPEND_NEWLINE)


def request_line(op: str, request: Request, **more: Any) -> bytes:
    """A `send`, `hold` or `follow` message; the body travels as text, since it is JSON in UTF-8."""
    return line(op, request=request_message(request), **more)


def request_message(request: Request) -> JSON:
    """The fields of a request; its body as text, since it is JSON in UTF-8."""
    plain = {name: getattr(request, name) for name in _REQUEST_FIELDS}
    return {**plain, "body": request.body.decode(), "body_tail": request.body_tail.decode()}


def request_of(message: JSON) -> Request:
    """The request that `request_message` described."""
    return Request(
        **{
            **message,
            "slot": slot_of(message["slot"]),
            "case": CaseFacts(**message["case"]),
            "body": message["body"].encode(),
            "body_file": _path(message["body_file"]),
            "body_tail": message["body_tail"].encode(),
            "timeouts": Timeouts(**message["timeouts"]),
            "checks": tuple(message["checks"]),
        }
    )


def slot_of(data: JSON) -> Slot:
    """A slot that was a JSON object on the way."""
    return Slot(**{**data, "phase": Phase(data["phase"])})


def target_message(target: Target) -> JSON:
    """Without the key: it is in no message and no file."""
    return {field.name: getattr(target, field.name) for field in fields(Target) if field.name != "api_key"}


def target_of(data: JSON, api_key: str | None) -> Target:
    """The target without its key, which comes from the environment and is in no message."""
    return Target(**{**data, "api_key": api_key})


def ended_line(record: Record, verdicts: list[AnswerVerdict]) -> bytes:
    """An `ended` message: the record's values in the order of `TOLD`, and its event columns `condensed`.

    A condensed record made anew and written with its names took four times as long.
    """
    return line("ended", record=_told(record), events=condensed(record.events), verdicts=verdicts)


def ended_record(message: JSON, slot: Slot, case: CaseFacts) -> Record:
    """The record of an `ended` message, with the slot and case of the request that ended."""
    data = dict(zip(TOLD, message["record"], strict=True))
    at_ns, kinds, tokens = message["events"]
    return _record(
        data,
        slot=slot,
        case=case,
        events=Events(at_ns=tuple(at_ns), kinds=kinds, tokens=None if tokens is None else tuple(tokens)),
    )


def condensed(events: Events) -> tuple[tuple[int, ...], str, tuple[int, ...] | None]:
    """`at_ns`, `kinds` and `tokens` of the first event, the first that is not thinking, and the last.

    TTFT, TTFAT, TPOT and the counts of `loadkit.metrics` come out the same from it; figures of gaps do not.
    """
    at_ns, kinds, tokens = events.at_ns, events.kinds, events.tokens
    last = len(at_ns) - 1
    if last < 0:
        return (), "", tokens
    answer = len(kinds) - len(kinds.lstrip("r"))
    kept = sorted({0, min(answer, last), last})
    return (
        tuple([at_ns[place] for place in kept]),
        "".join([kinds[place] for place in kept]),
        None if tokens is None else tuple([tokens[place] for place in kept]),
    )


def record_of(data: JSON) -> Record:
    """A record that was a JSON object on the way."""
    events = data["events"]
    tokens = events["tokens"]
    return _record(
        data,
        slot=slot_of(data["slot"]),
        case=CaseFacts(**data["case"]),
        events=Events(at_ns=tuple(events["at_ns"]), kinds=events["kinds"], tokens=None if tokens is None else tuple(tokens)),
    )


def _record(data: JSON, **known: Any) -> Record:
    failure = data["failure"]
    return Record(
        **{
            **data,
            **known,
            "outcome": Outcome(data["outcome"]),
            "failure": None if failure is None else _failure_of(failure),
            "usage": Usage(**data["usage"]),
            "tool_calls": tuple([ToolCall(**call) for call in data["tool_calls"]]),
        }
    )


def verdict_of(data: JSON) -> AnswerVerdict:
    """A verdict that was a JSON object on the way."""
    return AnswerVerdict(**{**data, "answer": Answer(data["answer"])})


def heartbeat_of(data: JSON) -> Heartbeat:
    """A heartbeat that was a JSON object on the way."""
    return Heartbeat(**data)


def case_of(data: JSON) -> Case:
    """A case that was made in another process."""
    turns = (Turn(**{**turn, "messages": tuple(turn["messages"]), "checks": tuple(turn["checks"])}) for turn in data["turns"])
    document = _path(data["document"])
    return Case(**{**data, "facts": CaseFacts(**data["facts"]), "turns": tuple(turns), "document": document})


def items_message(items: tuple[Item, ...]) -> bytes:
    """Items for the way to a desk, maybe on another host."""
    return orjson.dumps(items, default=str)


def items_of(message: bytes) -> tuple[Item, ...]:
    """Items that the conductor dealt."""
    return tuple(Item(id=item["id"], case=case_of(item["case"]), slot=slot_of(item["slot"])) for item in orjson.loads(message))


def _failure_of(data: JSON) -> Failure:
    phase = data["phase"]
    return Failure(**{**data, "phase": None if phase is None else ErrorPhase(phase)})


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
