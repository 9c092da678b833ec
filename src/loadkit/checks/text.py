"""Checks on the text of an answer: exact, contains, number, regex, language."""

from __future__ import annotations

import re

from loadkit.checks.finding import CORRECT, Finding, no_answer, quoted, wrong
from loadkit.checks.refusal import refuses
from loadkit.checks.spec import Contains, Exact, LanguageCheck, Number, Regex
from loadkit.record import Answer, Record

_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d{1,3}(?:[,  '_]\d{3})+|\d+)(?:\.\d+)?")
_HAN = re.compile(r"[㐀-䶿一-鿿豈-﫿\U00020000-\U0003134f]")


def exact(record: Record, check: Exact) -> Finding:
    """The whole answer, without space around it."""
    said = (record.answer or "").strip()
    if not said:
        return no_answer(record)
    same = said.casefold() == check.value.strip().casefold() if check.ignore_case else said == check.value.strip()
    return CORRECT if same else _wrong_or_refused(said, f"{quoted(said)}, not {quoted(check.value)}")


def contains(record: Record, check: Contains) -> Finding:
    """All of, any of, none of; a forbidden text beside the right one is a hedge."""
    said = (record.answer or "").strip()
    if not said:
        return no_answer(record)

    def held(wanted: str) -> bool:
        return wanted.casefold() in said.casefold() if check.ignore_case else wanted in said

    missing = [wanted for wanted in check.all if not held(wanted)]
    if missing:
        return _wrong_or_refused(said, f"{quoted(missing[0])} is not in {quoted(said)}")
    if check.any and not any(held(wanted) for wanted in check.any):
        return _wrong_or_refused(said, f"none of {', '.join(map(repr, check.any))} is in {quoted(said)}")
    forbidden = [word for word in check.none if held(word)]
    if forbidden:
        hedged = bool(check.all or check.any)
        return Finding(Answer.HEDGED if hedged else Answer.WRONG, f"{quoted(forbidden[0])} is in {quoted(said)}")
    return CORRECT


def number(record: Record, check: Number) -> Finding:
    """The last number of the answer, with its thousands separators removed."""
    said = (record.answer or "").strip()
    if not said:
        return no_answer(record)
    found = [float(re.sub(r"[,  '_]", "", match[0]).replace("−", "-")) for match in _NUMBER.finditer(said)]
    if not found:
        return _wrong_or_refused(said, f"no number in {quoted(said)}", without=Answer.NO_ANSWER)
    right = abs(found[-1] - float(check.value)) <= check.tolerance
    return CORRECT if right else wrong(f"{found[-1]:g}, not {float(check.value):g}")


def regex(record: Record, check: Regex) -> Finding:
    """The pattern is found."""
    said = record.answer or ""
    if not said.strip():
        return no_answer(record)
    if re.search(check.pattern, said, re.MULTILINE):
        return CORRECT
    return _wrong_or_refused(said, f"{check.pattern!r} is not found in {quoted(said)}")


def language(record: Record, check: LanguageCheck) -> Finding:
    """The share of letters that belong to the language's script (code blocks and digits don't count)."""
    said = re.sub(r"```.*?```", "", record.answer or "", flags=re.DOTALL)
    letters = [letter for letter in said if letter.isalpha()]
    if not letters:
        return no_answer(record)
    han = sum(1 for letter in letters if _HAN.match(letter))
    share = han / len(letters) if check.language == "zh" else sum(1 for letter in letters if letter.isascii()) / len(letters)
    return CORRECT if share >= check.share else wrong(f"{share:.0%} of the letters are {check.language}: {quoted(said)}")


def _wrong_or_refused(said: str, detail: str, *, without: Answer = Answer.WRONG) -> Finding:
    return Finding(Answer.REFUSED if refuses(said) else without, detail)
