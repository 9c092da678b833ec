"""Checks on JSON: an answer against a schema, tool calls against the tool's parameters and the expected values."""

from __future__ import annotations

import re
from typing import Any

import orjson

from loadkit.checks.finding import CORRECT, Finding, malformed, no_answer, quoted, wrong
from loadkit.checks.refusal import refuses
from loadkit.checks.spec import JSONSchema, ToolCallCheck
from loadkit.record import Answer, Record, ToolCall

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)


def json_schema(record: Record, check: JSONSchema) -> Finding:
    """The answer is JSON, valid against the schema, and equal to `equals` where that is given."""
    said = record.answer or ""
    if not said.strip():
        return no_answer(record)
    fenced = _FENCED.match(said)
    try:
        data = orjson.loads(fenced[1] if fenced else said)
    except ValueError as problem:
        return Finding(Answer.REFUSED if refuses(said) else Answer.MALFORMED, f"no JSON ({problem}): {quoted(said)}")
    if mistake := schema_mistake(data, check.json_schema):
        return malformed(mistake)
    if check.equals is not None and data != check.equals:
        return wrong(f"{quoted(said)} is not the expected value")
    return CORRECT


def tool_call(record: Record, check: ToolCallCheck) -> Finding:
    """Name, ids, count, arguments as JSON, against the schema, and against the expected values, in this order."""
    calls = record.tool_calls
    if not calls:
        said = record.answer or ""
        if not said.strip():
            return no_answer(record)
        return Finding(Answer.REFUSED if refuses(said) else Answer.NO_ANSWER, f"no tool call, but {quoted(said)}")
    if record.finish_reason == "length":
        return malformed("the budget ended inside the tool call")
    if mistake := _id_mistake(calls):
        return malformed(mistake)
    named = [call for call in calls if call.name == check.name]
    if not named:
        return wrong(f"calls {', '.join(str(call.name) for call in calls)}, not {check.name}")
    findings = [_arguments(call, check) for call in named]
    best = next((found for found in findings if found.answer is Answer.CORRECT), findings[0])
    if best.answer is Answer.CORRECT and len(calls) != check.count:
        return Finding(Answer.HEDGED, f"{len(calls)} calls, not {check.count}: the right one among others")
    return best


def schema_mistake(data: Any, schema: dict[str, Any]) -> str | None:
    """The first way in which `data` breaks the JSON schema (draft 2020-12), with its place; `None` if it is valid."""
    import jsonschema  # a third of a second, which runs without such a check need not spend

    mistake = next(iter(jsonschema.Draft202012Validator(schema).iter_errors(data)), None)
    return None if mistake is None else f"{mistake.json_path}: {mistake.message}"


def _arguments(call: ToolCall, check: ToolCallCheck) -> Finding:
    try:
        arguments = orjson.loads(call.arguments or "{}")
    except ValueError as problem:
        return malformed(f"arguments are no JSON ({problem}): {quoted(call.arguments)}")
    if not isinstance(arguments, dict):
        return malformed(f"arguments are no JSON object: {quoted(call.arguments)}")
    if check.parameters is not None and (mistake := schema_mistake(arguments, check.parameters)):
        return malformed(mistake)
    for name, expected in check.arguments.items():
        if name not in arguments:
            return wrong(f"the argument {name} is missing")
        if not _same(arguments[name], expected):
            return wrong(f"{name} is {arguments[name]!r}, not {expected!r}")
    return CORRECT


def _id_mistake(calls: tuple[ToolCall, ...]) -> str | None:
    ids = [call.id for call in calls]
    if any(not each for each in ids):
        return "a tool call has no id"
    return "two tool calls share an id" if len(set(ids)) < len(ids) else None


def _same(found: Any, expected: Any) -> bool:
    """Texts without case and space around them; anything else as JSON has it (1 and 1.0 are one number, true is none)."""
    if isinstance(found, str) and isinstance(expected, str):
        return found.strip().casefold() == expected.strip().casefold()
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    return bool(found == expected)
