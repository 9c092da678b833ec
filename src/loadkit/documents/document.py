"""One document, fitted to a prompt length with at most three counts, and the questions about it with one count each."""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import dataclass
from typing import Any, Literal

from loadkit.case import DOCUMENT_MARK
from loadkit.documents.archive import Archive, Key, make, question
from loadkit.documents.costs import Costs, costs
from loadkit.documents.fit import Line, Needle, Stock, arrange
from loadkit.tokens import Count, Prompt, Tokenizer

FEWEST_TOKENS_A_RECORD = {"en": 22, "zh": 18}
"""No tokenizer is known that makes less of a record: enough records are made for one that does."""

SPARE_RECORDS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What the documents of one scenario have in common."""

    language: Literal["en", "zh"]
    depths: dict[str, float]
    questions: tuple[str, ...]
    distractors: int
    system: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    template: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about a document.

    `name` is the depth's name or `absent`; `shared_tokens` how many leading tokens the prompt has in common with an earlier
    question's (0 for the first; `None` where ids are unknown); `planned_tokens` is the prompt's length by the tokenizer.
    """

    name: str
    text: str
    value: str
    depth: float | None
    distractors: tuple[dict[str, Any], ...]
    planned_tokens: int
    shared_tokens: int | None
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A fitted document. `asked_tokens` is the length that was asked for; the first question's prompt has it exactly.

    `exact` is False where the counts are estimates, or where three counts did not suffice (then the plan says what they gave).
    """

    text: str
    sha256: str
    asked_tokens: int
    questions: tuple[Question, ...]
    exact: bool


def prompt_of(form: Form, question_text: str) -> Prompt:
    """The messages of a question, with the document's mark in its place: the document first, so that questions share it."""
    system = [{"role": "system", "content": form.system}] if form.system else []
    user = {"role": "user", "content": DOCUMENT_MARK + question_text}
    return Prompt(messages=[*system, user], tools=form.tools, template=form.template)


async def fit(form: Form, tokenizer: Tokenizer, *, tokens: int, seed: str) -> Document:
    """A document whose first question makes a prompt of exactly `tokens` tokens.

    CPU work is done in a thread, so that an event loop that measures is not held up.

    Raises:
        UsageError: the length is too short for the needles, or the tokenizer can't be asked.
    """
    records = tokens // FEWEST_TOKENS_A_RECORD[form.language] + SPARE_RECORDS
    archive = await asyncio.to_thread(
        make, seed, language=form.language, depths=tuple(form.depths), distractors=form.distractors, records=records
    )
    lines, pool = _pool(archive)
    first = prompt_of(form, _question_text(archive, form.questions[0]))
    counted = await tokenizer.count(first.with_document(pool))
    read = await asyncio.to_thread(_costs, first, archive, lines, counted)
    short = 0
    for _ in range(2):
        text = await asyncio.to_thread(_arranged, form, archive, lines, read, tokens - short, seed)
        counted = await tokenizer.count(first.with_document(text))
        if counted.tokens == tokens:
            break
        short += counted.tokens - tokens
    questions = await _questions(form, archive, text, tokenizer, counted)
    return Document(
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        asked_tokens=tokens,
        questions=questions,
        exact=tokenizer.exact and counted.tokens == tokens,
    )


def _pool(archive: Archive) -> tuple[list[str], str]:
    """All lines that may be used, and the text whose tokens tell what each costs."""
    entries = [*archive.needles.values(), *(entry for near in archive.near.values() for entry in near), *archive.filler]
    lines = [entry.line for entry in entries]
    return lines, archive.header + "".join(lines)


def _costs(prompt: Prompt, archive: Archive, lines: list[str], counted: Count) -> Costs:
    around = "".join(str(message["content"]) for message in prompt.messages)
    return costs(lines, counted.tokens, counted.ids, around_chars=(len(archive.header.encode()), len(around.encode()) + 8 * 4))


def _arranged(form: Form, archive: Archive, lines: list[str], read: Costs, tokens: int, seed: str) -> str:
    """The document's text for a prompt of `tokens` tokens by the costs that were read."""
    cost = dict(zip(lines, read.lines, strict=True))
    header = _header_tokens(archive, lines, read)
    size = header + tokens - read.around
    needles = sorted(
        (
            Needle(line=Line(entry.line, cost[entry.line]), at=round(form.depths[name] * size))
            for name, entry in archive.needles.items()
        ),
        key=lambda needle: needle.at,
    )
    near = [Line(entry.line, cost[entry.line]) for entries in archive.near.values() for entry in entries]
    stock = Stock([Line(entry.line, cost[entry.line]) for entry in archive.filler])
    arranged = arrange(stock, needles, near, start=header, end=size, rng=random.Random(f"{seed}/order"))
    return archive.header + "".join(line.text for line in arranged)


def _header_tokens(archive: Archive, lines: list[str], read: Costs) -> int:
    """Tokens of the header alone: by the rate of the records, as the template before it can't be told from it."""
    rate = sum(read.lines) / sum(len(line.encode()) for line in lines)
    return min(read.before, round(len(archive.header.encode()) * rate))


async def _questions(form: Form, archive: Archive, text: str, tokenizer: Tokenizer, first: Count) -> tuple[Question, ...]:
    """The questions in their order; only a text that was not counted before costs a count."""
    counts: dict[str, Count] = {_question_text(archive, form.questions[0]): first}
    asked: list[Question] = []
    for name in form.questions:
        said = _question_text(archive, name)
        repeated = any(said == earlier.text for earlier in asked)
        if said not in counts:
            counts[said] = await tokenizer.count(prompt_of(form, said).with_document(text))
        counted = counts[said]
        shared = await asyncio.to_thread(_longest_shared, counted, [counts[earlier.text] for earlier in asked])
        asked.append(_question(form, archive, text, name, said, counted, shared, repeated))
    return tuple(asked)


def _question(
    form: Form, archive: Archive, text: str, name: str, said: str, counted: Count, shared: int | None, repeated: bool
) -> Question:
    needle = archive.needles.get(name)
    return Question(
        name=name,
        text=said,
        value="NONE" if needle is None else needle.code,
        depth=form.depths.get(name),
        distractors=tuple(
            {"value": entry.code, "depth": round(text.index(entry.line) / len(text), 4)} for entry in archive.near[name]
        ),
        planned_tokens=counted.tokens,
        shared_tokens=shared,
        repeated=repeated,
    )


def _question_text(archive: Archive, name: str) -> str:
    needle = archive.needles.get(name)
    key: Key = archive.absent if needle is None else needle.key
    return question(archive.language, key)


def _longest_shared(counted: Count, earlier: list[Count]) -> int | None:
    """The longest beginning in common with an earlier prompt, in tokens."""
    if not earlier:
        return 0
    known = [_shared(counted.ids, each.ids) for each in earlier if each.ids is not None and counted.ids is not None]
    return max(known) if known else None


def _shared(one: Any, other: Any) -> int:
    if one is other:
        return len(one)
    shorter = min(len(one), len(other))
    low, high = 0, shorter  # bisection over slices compares in C
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
