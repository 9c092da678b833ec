"""What a check found: the value for the answer axis, why in a few words, facts for tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from loadkit.record import Answer, Record

SHOWN = 80
"""Characters of an answer that a detail quotes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check on one answer."""

    answer: Answer
    detail: str = ""
    tags: dict[str, Any] = field(default_factory=dict)


CORRECT = Finding(Answer.CORRECT)


def wrong(detail: str) -> Finding:
    """The answer is there, has the form that was asked for, and is not right."""
    return Finding(Answer.WRONG, detail)


def malformed(detail: str) -> Finding:
    """The answer does not have the form that was asked for."""
    return Finding(Answer.MALFORMED, detail)


def no_answer(record: Record) -> Finding:
    """There is no text to judge; a budget that ran out is said, as that is the usual reason."""
    truncated = record.finish_reason == "length"
    return Finding(Answer.NO_ANSWER, "the budget ended before an answer" if truncated else "the answer is empty")


def quoted(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else line[: SHOWN - 1] + "…")
