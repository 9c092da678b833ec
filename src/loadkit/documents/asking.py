"""The cases that ask about fitted documents: who shares a cache, what is expected of it, and what a right answer is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadkit.case import DOCUMENT_MARK, Case, Turn
from loadkit.documents.document import Question
from loadkit.documents.inputs import Inputs, SavedDocument
from loadkit.prefix_cache import expected_hit
from loadkit.record import CaseFacts
from loadkit.scenario import Drawing, Scenario
from loadkit.scenario.cases import body


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What is known of the server's prefix cache: block size in tokens, and whether a draft model costs a block of each hit.

    Where the latter is unknown (a server that speculates and doesn't say how), a block less is expected: a floor, not a guess.
    """

    block_size: int | None = None
    drops_last_block: bool | None = None

    def expected(self, shared_tokens: int | None, prompt_tokens: int) -> int | None:
        """The hit by the formula; `None` where the block size or the shared length is unknown."""
        if self.block_size is None or shared_tokens is None:
            return None
        return expected_hit(
            shared_tokens, prompt_tokens, block_size=self.block_size, drops_last_block=self.drops_last_block is not False
        )


def cases(inputs: Inputs, folder: Path, scenario: Scenario, drawing: Drawing, cache: Cache = Cache()) -> tuple[Case, ...]:
    """One case for each question, in the order in which they are to be asked: by length, document, question.

    The questions about a document share a cache salt: the first is cold, the others find the document cached. For a scenario
    of kind `prefix`, each of the later questions is asked once more cold, under a salt of its own, so that the two answers can
    be compared word for word (tag `pair`).
    """
    kind = scenario.archive.kind if scenario.archive else "retrieval"
    asked: list[Case] = []
    for document in inputs.documents:
        asking = _Asking(inputs, document, folder / document.file, scenario, drawing, cache)
        asked += asking.in_turn()
        if kind == "prefix":
            asked += asking.cold_again()
    return tuple(asked)


@dataclass(frozen=True, slots=True)
class _Asking:
    """The questions about one document."""

    inputs: Inputs
    document: SavedDocument
    file: Path
    scenario: Scenario
    drawing: Drawing
    cache: Cache

    def in_turn(self) -> Iterator[Case]:
        """All questions under the document's salt."""
        group = f"{self.inputs.scenario}/{self.document.tier}/{self.document.number}/{{round}}/{{attempt}}"
        for order, question in enumerate(self.document.questions, 1):
            yield self._case(question, order, salt_group=group, cache="cold" if order == 1 else "warm")

    def cold_again(self) -> Iterator[Case]:
        """Each question once (but the first, which was cold), alone with its salt."""
        cold = {self.document.questions[0].name}
        for order, question in enumerate(self.document.questions, 1):
            if question.name not in cold:
                cold.add(question.name)
                yield self._case(question, order, salt_group=None, cache="cold")

    def _case(self, question: Question, order: int, *, salt_group: str | None, cache: str) -> Case:
        document, name = self.document, f"{self.inputs.scenario}-{self.document.tier}-d{self.document.number}"
        again = "" if salt_group else "-cold"
        facts = CaseFacts(
            scenario=self.inputs.scenario,
            case=f"{name}-q{order}-{question.name}{again}",
            workload="speed" if self.drawing.speed else "quality",
            tier=document.tier,
            max_tokens=self.drawing.budget(self.scenario),
            planned_prompt_tokens=question.planned_tokens if self.inputs.exact else None,
            cache=cache,
            expected_cached_tokens=self.cache.expected(
                question.shared_tokens if cache == "warm" else 0, question.planned_tokens
            ),
            document_sha256=document.sha256,
            question_sha256=hashlib.sha256(f"{document.sha256}\n{question.text}".encode()).hexdigest(),
            tags=self._tags(question, order, cache),
        )
        turn = Turn(messages=(*self._system(), _user(question)), checks=() if self.drawing.speed else (_check(question),))
        return Case(
            facts=facts,
            turns=(turn,),
            body=body(self.scenario, self.drawing),
            salt_group=salt_group,
            stream=self.scenario.stream,
            document=self.file,
        )

    def _tags(self, question: Question, order: int, cache: str) -> dict[str, Any]:
        return {
            "document": self.document.number,
            "question": f"{question.name} again" if question.repeated else question.name,
            "order": order,
            "repeat": question.repeated,
            "pair": f"{self.inputs.scenario}-{self.document.tier}-d{self.document.number}-{question.name}",
            "asked_tokens": self.document.asked_tokens,
            "estimated_prompt_tokens": None if self.inputs.exact else question.planned_tokens,
            "shared_prefix_tokens": question.shared_tokens if cache == "warm" else 0,
            **({} if question.depth is None else {"depth": question.depth}),
        }

    def _system(self) -> tuple[dict[str, str], ...]:
        return ({"role": "system", "content": self.scenario.system},) if self.scenario.system else ()


def _user(question: Question) -> dict[str, str]:
    return {"role": "user", "content": DOCUMENT_MARK + question.text}


def _check(question: Question) -> dict[str, Any]:
    absent = {"absent": True} if question.depth is None else {}
    return {"check": "answer_line", "value": question.value, "distractors": list(question.distractors), **absent}
