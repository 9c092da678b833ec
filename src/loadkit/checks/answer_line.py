"""The last line `ANSWER: <value>`: correct, hedged, wrong_distractor with its depth, wrong, refused, no_answer or malformed."""

from __future__ import annotations

import re

from loadkit.checks.finding import CORRECT, Finding, malformed, no_answer, quoted, wrong
from loadkit.checks.refusal import refuses
from loadkit.checks.spec import AnswerLine
from loadkit.record import Answer, Record

_LINE = re.compile(r"^[\s>*_`#\-]*ANSWER[\s*_`]*[:：][\s*_`]*(.*?)[\s*_`]*$", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^\s*`{3,}\w*\s*$", re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,  '_]*(?:\.\d+)?")
_WORD = re.compile(r"[^\s,;/|、，；。()\[\]<>\"'`*]+")
ABSENT = "NONE"

TAIL = 200
"""Characters of the end of an answer that are quoted where its last line was looked for."""


def answer_line(record: Record, check: AnswerLine) -> Finding:
    """Judges the last line of the answer.

    Exactly one value and equal → correct. The right value among others, on the line or on another ANSWER line → hedged. A value
    of a distractor → wrong_distractor, with its depth as a tag. No ANSWER line: refused if the text says so, malformed if the
    right value stands in it or another line follows, else no_answer.
    """
    text = _FENCE.sub("", record.answer or "").strip()
    if not text:
        return no_answer(record)
    lines = list(_LINE.finditer(text))
    if not lines:
        return _without_line(record, text, check)
    if text[lines[-1].end() :].strip():
        return malformed(f"the ANSWER line is not the last: {quoted(text[lines[-1].end() :])}")
    said = lines[-1][1]
    values = _values(said, check)
    others = {value for line in lines[:-1] for value in _values(line[1], check)}
    return _judged(said, values, others, check, text)


def _judged(said: str, values: set[str], others: set[str], check: AnswerLine, text: str) -> Finding:
    right = _normal(check.value, check)
    if right in values:
        if values | others == {right}:
            return CORRECT
        return Finding(Answer.HEDGED, f"the right value among others: {quoted(said)}")
    if not values:
        return no_answer_on_line(said)
    if right in others:
        return Finding(Answer.HEDGED, f"the right value on an earlier line, then {quoted(said)}")
    for distractor in check.distractors:
        if _normal(distractor.value, check) in values:
            depth = {} if distractor.depth is None else {"depth": distractor.depth}
            return Finding(Answer.WRONG_DISTRACTOR, f"a near-duplicate's value: {quoted(said)}", depth)
    if ABSENT in values and refuses(text):
        return Finding(Answer.REFUSED, quoted(text))
    return wrong(f"{quoted(said)}, not {check.value!r}")


def no_answer_on_line(said: str) -> Finding:
    """An ANSWER line without a value, such as `ANSWER: <number>` copied from the question."""
    return Finding(Answer.NO_ANSWER, f"the ANSWER line holds no value: {quoted(said)}")


def _without_line(record: Record, text: str, check: AnswerLine) -> Finding:
    if record.finish_reason == "length":
        return Finding(Answer.NO_ANSWER, "the budget ended before the ANSWER line")
    if refuses(text):
        return Finding(Answer.REFUSED, quoted(text))
    if _normal(check.value, check) in _values(text, check):
        return malformed("the right value without an ANSWER line")
    return Finding(Answer.NO_ANSWER, f"no ANSWER line: {quoted(text if len(text) <= TAIL else '…' + text[-TAIL:])}")


def _values(text: str, check: AnswerLine) -> set[str]:
    """The candidates on a line: numbers where a number is expected, words shaped like the code where a code is, else words."""
    if _is_number(check.value):
        numbers = {_plain_number(found[0]) for found in _NUMBER.finditer(text)}
        return numbers | ({ABSENT} if _says_none(text) else set())
    if not _is_code(check.value):
        whole = _normal(text.strip(" .。!\"'<>[]()"), check)
        if whole == _normal(check.value, check):
            return {whole}
    known = {_normal(check.value, check), ABSENT, *(_normal(each.value, check) for each in check.distractors)}
    shapes = {len(check.value), *(len(each.value) for each in check.distractors)}
    found = set()
    for word in (match[0].strip(".:：!?-_") for match in _WORD.finditer(text)):
        normal = _normal(word, check)
        code_like = word.isascii() and word.isalnum() and word == word.upper() and len(word) in shapes
        if normal in known or code_like or (word and not _is_code(check.value) and not check.absent):
            found.add(normal)
    return found


def _normal(value: str, check: AnswerLine) -> str:
    if _is_number(value):
        return _plain_number(value)
    return value.strip().upper() if check.ignore_case else value.strip()


def _is_number(value: str) -> bool:
    return _NUMBER.fullmatch(value.strip()) is not None


def _is_code(value: str) -> bool:
    """At least four capital letters and digits: a reference, not a word of the language."""
    return len(value) >= 4 and value.isascii() and value.isalnum() and value == value.upper() and value != ABSENT


def _plain_number(text: str) -> str:
    """`1,098.0` and `1098` are one number."""
    number = float(re.sub(r"[,  '_]", "", text).replace("−", "-"))
    return str(int(number)) if number.is_integer() else str(number)


def _says_none(text: str) -> bool:
    return ABSENT in text.upper().split()
