"""`Finding`: what a reader found, before manners decide whether it is said rightly."""

from __future__ import annotations

import re
from dataclasses import dataclass

CHINESE = re.compile(r"[一-鿿]")
ANSWER_LINE = re.compile(r"ANSWER\s*[:：]\s*[<＜〈\[]", re.IGNORECASE)
ALONE = re.compile(
    r"\b(alone|only|nothing else|just the (?:number|value|code|result))\b|只(?:输出|回答|给出|写)|仅", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An answer in parts.

    Attributes:
        value: what was asked for, as it is written on an ANSWER line; `None` for prose, code and other free text.
        sentence: how it is said; `{value}` stands for the value.
        others: near misses that a model might take for it (a neighbouring record, a slip in the sum).
        absent: the question's own words for "there is none", where that is the right answer.
    """

    value: str | None
    sentence: str
    others: tuple[str, ...] = ()
    absent: bool = False

    def said(self, value: str) -> str:
        return self.sentence.replace("{value}", value)


def is_chinese(text: str) -> bool:
    """Whether a question is to be answered in Chinese: a good part of its signs are Chinese."""
    return len(CHINESE.findall(text)) * 4 > len(text)


def wants_answer_line(question: str) -> bool:
    """Whether an `ANSWER: <…>` line is asked for."""
    return ANSWER_LINE.search(question) is not None


def wants_value_alone(question: str) -> bool:
    """Whether nothing but the value is asked for."""
    return ALONE.search(question) is not None and not wants_answer_line(question)
