"""`Mind`: what the simulated model thinks and says about a question. It reads the prompt's text and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from loadkit.simulator.script import Thought
from loadkit.simulator.settings import Manners

SENTENCES = (
    "The harbour was quiet in the early morning, and only two boats had left before the fog came in. ",
    "A long table stood in the middle of the room with maps, notes and a lamp that had not been lit. ",
    "She counted the crates again and wrote the number into the book beside the date. ",
    "By noon the wind had turned, and the people on the pier began to talk about the next day. ",
    "Nobody knew who had repaired the clock, but it kept better time than before. ",
    "The path went up through the pines and ended at a wall that was older than the village. ",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: the conversation, and what the request allows the model to do."""

    messages: tuple[dict[str, Any], ...]
    seed: int = 0
    thinks: bool = True
    effort: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str = "none"
    named: bool = False
    parallel: bool = True


class Mind:
    """Answers questions; the same question and seed give the same answer."""

    def __init__(self, manners: Manners):
        self._manners = manners

    def think(self, question: Question, index: int) -> Thought:
        draw = random.Random(question.seed + index)
        thinking = "".join(draw.choice(SENTENCES) for _ in range(3)) if question.thinks else None
        return Thought(thinking=thinking, answer="".join(draw.choice(SENTENCES) for _ in range(4)))

    def filler(self, question: Question, index: int) -> Callable[[], Iterator[str]]:
        """Natural text without an end, for outputs that must not stop."""

        def lines() -> Iterator[str]:
            draw = random.Random(question.seed * 31 + index)
            while True:
                yield "".join(draw.choice(SENTENCES) for _ in range(12)) + "\n\n"

        return lines
