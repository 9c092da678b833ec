"""Is the answer right? Looks at the answer and the tool calls only, never at the thinking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from loadkit.checks import answer_line, code, structured, text
from loadkit.checks.finding import Finding
from loadkit.checks.spec import (
    ADAPTER,
    AnswerLine,
    Code,
    Contains,
    Exact,
    JSONSchema,
    LanguageCheck,
    Number,
    Regex,
    ToolCallCheck,
)
from loadkit.record import Answer, AnswerVerdict, Outcome, Record

__all__ = ["Finding", "judge", "overall"]

JUDGES: dict[type[Any], Callable[[Record, Any], Finding]] = {
    Exact: text.exact,
    Contains: text.contains,
    Number: text.number,
    Regex: text.regex,
    LanguageCheck: text.language,
    AnswerLine: answer_line.answer_line,
    JSONSchema: structured.json_schema,
    ToolCallCheck: structured.tool_call,
    Code: code.code,
}

WORST_FIRST = (
    Answer.NO_ANSWER,
    Answer.REFUSED,
    Answer.MALFORMED,
    Answer.WRONG_DISTRACTOR,
    Answer.WRONG,
    Answer.HEDGED,
    Answer.UNVERIFIED,
    Answer.CORRECT,
)


def judge(record: Record, spec: Mapping[str, Any]) -> AnswerVerdict:
    """What one check (a plain JSON object, see `loadkit.checks.spec`) finds in the answer of a record that ended.

    A request that did not complete has no answer to judge: `no_answer`, with the outcome as detail, so that it stays in the
    denominator and is never a pass. One that this side stopped says nothing of the model: `unverified`, and in no denominator.

    Raises:
        pydantic.ValidationError: the spec is none; scenario files are checked when they are loaded, so this is a bug.
    """
    check = ADAPTER.validate_python(spec)
    if record.outcome is Outcome.CANCELLED:
        found = Finding(Answer.UNVERIFIED, "stopped by this side")
    elif record.outcome is not Outcome.COMPLETED:
        found = Finding(Answer.NO_ANSWER, f"the request ended as {record.outcome.value}")
    else:
        found = JUDGES[type(check)](record, check)
    return AnswerVerdict(id=record.id, check=check.check, answer=found.answer, detail=found.detail, tags=found.tags)


def overall(verdicts: Iterable[AnswerVerdict]) -> Answer:
    """The verdict on an answer that several checks looked at: the worst of them; `unverified` without any."""
    found = {verdict.answer for verdict in verdicts}
    return next((answer for answer in WORST_FIRST if answer in found), Answer.UNVERIFIED)
