"""A seeded archive: one project record a line, some of them asked for, with near-duplicates and a key that is not there.

The needle is a record of the document's own form among thousands of that form. There are no instructions, passwords or secrets
in the document: a needle of that kind was once refused as an injection, which measured nothing about retrieval.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loadkit.documents.words import CHINESE, ENGLISH, Words
from loadkit.scenario.variables import CODE_LETTERS

CODE_LENGTH = 8
"""Characters of a reference: 8 of 32 letters are 40 bits, so that none is guessed or stands twice."""


@dataclass(frozen=True, slots=True)
class Key:
    """What a record is found by: first and second part of the project's name, and its number."""

    first: str
    second: str
    number: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record: its key, the reference that a question asks for, and the line as it stands in the document."""

    key: Key
    code: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The material of one document.

    Attributes:
        header: the first line; begins with the document's own random number, so that nothing can have warmed it.
        needles: the records asked for, by the name of their depth.
        near: near-duplicates by the name of the question (a depth, or `absent`).
        absent: a key that no record has.
        filler: all other records, in random order; as many as were asked for.
    """

    language: Literal["en", "zh"]
    header: str
    needles: dict[str, Entry]
    near: dict[str, tuple[Entry, ...]]
    absent: Key
    filler: tuple[Entry, ...]


class _Maker:
    """Draws records whose keys and codes never repeat within a document."""

    def __init__(self, words: Words, rng: random.Random):
        self.words = words
        self.rng = rng
        self._keys: set[Key] = set()
        self._codes: set[str] = set()

    def key(self) -> Key:
        while True:
            key = Key(
                self.rng.choice(self.words.firsts), self.rng.choice(self.words.seconds), f"{self.rng.randrange(10_000):04d}"
            )
            if key not in self._keys:
                self._keys.add(key)
                return key

    def near(self, key: Key, number: int) -> Key:
        """A key that differs from `key` in one part: in turn the number, the second and the first."""
        while True:
            other = self.key()
            near = (
                Key(key.first, key.second, other.number),
                Key(key.first, other.second, key.number),
                Key(other.first, key.second, key.number),
            )[number % 3]
            if near not in self._keys:
                self._keys.add(near)
                return near

    def entry(self, key: Key) -> Entry:
        code = self._code()
        line = self.words.record.format(
            first=key.first,
            second=key.second,
            number=key.number,
            owner=self.rng.choice(self.words.owners),
            site=self.rng.choice(self.words.sites),
            budget=self.rng.randrange(1_000, 1_000_000, 50),
            code=code,
        )
        return Entry(key=key, code=code, line=line + "\n")

    def _code(self) -> str:
        """With a letter and a digit, so that it is neither a word nor a number."""
        while True:
            code = "".join(self.rng.choices(CODE_LETTERS, k=CODE_LENGTH))
            if code not in self._codes and not code.isalpha() and not code.isdigit():
                self._codes.add(code)
                return code


def make(seed: str, *, language: Literal["en", "zh"], depths: Sequence[str], distractors: int, records: int) -> Archive:
    """The archive of one document: the same for the same arguments. `records` is the number of filler records."""
    rng = random.Random(seed)
    words = {"en": ENGLISH, "zh": CHINESE}[language]
    maker = _Maker(words, rng)
    header = words.header.format(number="".join(rng.choices("0123456789abcdef", k=12)), volume=rng.randrange(2, 90)) + "\n"
    keys = {depth: maker.key() for depth in depths}
    absent = maker.key()
    near = {
        name: tuple(maker.entry(maker.near(key, number)) for number in range(distractors))
        for name, key in {**keys, "absent": absent}.items()
    }
    return Archive(
        language=language,
        header=header,
        needles={depth: maker.entry(key) for depth, key in keys.items()},
        near=near,
        absent=absent,
        filler=tuple(maker.entry(maker.key()) for _ in range(records)),
    )


def question(language: Literal["en", "zh"], key: Key) -> str:
    """What is asked about a key, with the form of the answer."""
    words = {"en": ENGLISH, "zh": CHINESE}[language]
    return words.question.format(name=words.name.format(first=key.first, second=key.second, number=key.number))
