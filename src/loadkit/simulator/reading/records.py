"""Finds a record by the key that a question names, and the field that it asks for.

Nothing is assumed about the records but that a key stands in them literally and that a field's name stands before its value:
lines of prose with commas, `field: value`, `field=value`, JSON lines, tables with bars, English or Chinese.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from loadkit.simulator.reading.finding import Finding, is_chinese

KEY = r"(?P<key>[^?\n]{2,120}?)"
IN_TEXT = r"(?:\s+(?:in|from|according to|within)\s+the\s+[^?\n]*)?"
ENGLISH_ASKED = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"\b(?:what|which)\s+(?:is|was|are)\s+the\s+(?P<field>[\w /-]{{2,40}}?)\s+(?:of|for)\s+{KEY}{IN_TEXT}\?",
        rf"\b(?:what|which)\s+(?P<field>[\w-]{{2,30}}(?:\s[\w-]+)?)\s+(?:does|did|has)\s+{KEY}(?:\s+(?:have|carry))?\?",
        rf"\b(?:find|give|state|report|look up)\s+(?:me\s+)?the\s+(?P<field>[\w /-]{{2,40}}?)\s+(?:of|for)\s+{KEY}[.?\n]",
        rf"\bwho\s+(?:is|was)\s+the\s+(?P<field>[\w -]{{2,40}}?)\s+(?:of|for)\s+{KEY}{IN_TEXT}\?",
    )
)
CHINESE_ASKED = re.compile(
    r"(?P<key>[^，。：:；\s？?]{2,40})的(?P<field>[^，。：；\s？?的]{1,12}?)(?:是|为|等于)?(?:什么|多少|谁|哪[个里位]?|几)"
)
ABSENT_FORM = re.compile(
    r"(?:\bif\b|如果|若)[^.。\n]{0,120}?(?:write|answer with|answer|say|reply|respond with|写出?|回答|输出)\s*[:：]?\s*[\"“']?"
    r"(?P<form>ANSWER\s*[:：]\s*[^\s.。\"”']+|[A-Z]{3,}[A-Z ]*\b|[^\s.。\"”']+)",
    re.IGNORECASE,
)
VALUE_END = re.compile(r"[,;，；。|\n\t}]|\.(?:\s|$)")
FAR = 400_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a record: the key that it names, the field that it wants."""

    key: str
    field: str


def find_record(text: str, question: str) -> Finding | None:
    """The asked field of the record that the question names, in `text`.

    `None` where the question does not ask for a record's field, or the text has no records of that kind.
    """
    asked = asked_in(question)
    if asked is None or asked.field.lower() not in text.lower():
        return None
    chinese = is_chinese(question)
    record = record_with(text, asked.key)
    value = field_of(record, asked.field) if record else None
    near = tuple(other for other in near_values(text, asked) if other != value)
    if value is None:
        form = ABSENT_FORM.search(question)
        words = form["form"].split(":")[-1].split("：")[-1].strip() if form else "NONE"
        sentence = f"文中没有{asked.key}的记录。" if chinese else f"There is no record of {asked.key} in the text."
        return Finding(value=words, sentence=sentence, others=near, absent=True)
    sentence = f"{asked.key}的{asked.field}是{{value}}。" if chinese else f"The {asked.field} of {asked.key} is {{value}}."
    return Finding(value=value, sentence=sentence, others=near)


def asked_in(question: str) -> Asked | None:
    """Key and field of the last question of that form."""
    found: list[tuple[int, Asked]] = []
    for form in ENGLISH_ASKED:
        found += [(match.start(), Asked(_bare(match["key"]), match["field"].strip())) for match in form.finditer(question)]
    found += [(match.start(), Asked(match["key"], match["field"])) for match in CHINESE_ASKED.finditer(question)]
    return max(found, key=lambda hit: hit[0])[1] if found else None


def record_with(text: str, key: str) -> str | None:
    """The line that holds the key as whole words; the paragraph, where the line holds nothing else."""
    start = 0
    while (at := text.find(key, start)) >= 0:
        end = at + len(key)
        start = end
        if _part_of_word(text, at, end):
            continue
        line = text[text.rfind("\n", 0, at) + 1 : _until(text, "\n", end)]
        if len(line.strip()) > len(key) + 3:
            return _sentence(line, key)
        return text[text.rfind("\n\n", 0, at) + 1 : _until(text, "\n\n", end)]
    return None


def field_of(record: str, field: str) -> str | None:
    """The value after a field's name: `field value`, `field: value`, `field=value`, `"field": "value"`, `字段值`."""
    match = re.search(rf"{re.escape(field)}[\"'”]?\s*(?:[:：=|]|\bis\b|是|为)?\s*[\"'“]?", record, re.IGNORECASE)
    if match is None:
        return None
    rest = record[match.end() :]
    end = VALUE_END.search(rest)
    value = (rest[: end.start()] if end else rest).strip().strip("\"'”“. ")
    return value or None


def near_values(text: str, asked: Asked) -> list[str]:
    """Values of records whose key is almost the asked one: what a careless reader would take."""
    words = re.findall(r"[A-Za-z]+|\d+|[一-鿿]{2}", asked.key)
    values: list[str] = []
    for size in range(len(words) - 1, 0, -1):
        for left_out in range(len(words)):
            kept = [word for index, word in enumerate(words) if index != left_out][:size]
            if len(kept) < size or len(values) >= 3:
                break
            pattern = r"[^\n。]{0,12}?".join(re.escape(word) for word in kept)
            for match in re.finditer(pattern, text[:FAR]):
                line = text[text.rfind("\n", 0, match.start()) + 1 : _until(text, "\n", match.end())]
                value = field_of(_sentence(line, match[0]), asked.field)
                if value and asked.key not in line and value not in values:
                    values.append(value)
                    break
        if values:
            break
    return values


def _sentence(line: str, key: str) -> str:
    """Of a long line, the sentence that holds the key: archives without line breaks have many records in one."""
    if len(line) < 400:
        return line
    at = line.find(key)
    start = max(line.rfind(mark, 0, at) + len(mark) for mark in (". ", "。", "; ", "；")) if at > 0 else 0
    ends = [place for mark in (". ", "。") if (place := line.find(mark, at + len(key))) >= 0]
    return line[start : min(ends) + 1 if ends else len(line)]


def _part_of_word(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    first, last = text[start], text[end - 1]
    joined_before = before.isalnum() and first.isascii() and before.isascii()
    joined_after = after.isalnum() and last.isascii() and after.isascii() and (last.isdigit() == after.isdigit())
    return joined_before or joined_after


def _until(text: str, mark: str, start: int) -> int:
    end = text.find(mark, start)
    return len(text) if end < 0 else end


def _bare(key: str) -> str:
    return re.sub(r"^(?:the|record|entry)\s+", "", key.strip().strip("\"'“”"), flags=re.IGNORECASE)
