"""`Sequence`: one output under way in the engine, with its tokens, blocks and stamps."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from loadkit.simulator.script import Script


class Output(NamedTuple):
    """What a step brought one sequence: output tokens [start, end), and the finish reason if they are the last."""

    start: int
    end: int
    due_ns: int
    finish: str | None = None


class Sink(Protocol):
    """Where a sequence's outputs go. `prepare` renders ahead of time; `deliver` writes at the due time."""

    def prepare(self, output: Output) -> None: ...

    def deliver(self) -> None: ...

    def fail(self, message: str) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """State of one sequence. `computed` counts tokens whose KV is in blocks, `made` output tokens, `remembered` blocks that
    others can find.

    `tool_mode` says how a tool parser sees the output ("streaming", "non_streaming"); `None` where none does.
    Stamps are nanoseconds of CLOCK_MONOTONIC; `None` until it happened.
    """

    id: str
    prompt: array[int]
    hashes: list[int]
    salt: str | None = None
    script: Script
    sink: Sink
    max_tokens: int
    random: random.Random
    asked_max_tokens: int | None
    siblings: list[Sequence] = field(default_factory=list)
    tool_mode: str | None = None
    arrived_ns: int = 0
    queued_ns: int = 0
    scheduled_ns: int | None = None
    first_ns: int | None = None
    last_ns: int | None = None
    computed: int = 0
    made: int = 0
    cached: int = 0
    created: int = 0
    queried: bool = False
    blocks: list[int] = field(default_factory=list)
    remembered: int = 0
    preemptions: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    histogram: list[int] = field(default_factory=list)
    gone: bool = False

    @property
    def length(self) -> int:
        """Prompt and output tokens so far."""
        return len(self.prompt) + self.made

    def tokens_between(self, start: int, end: int) -> array[int]:
        """Tokens of prompt and output by their place in the sequence."""
        size = len(self.prompt)
        part = self.prompt[start:end]
        if end > size:
            part.extend(self.script.tokens[max(0, start - size) : end - size])
        return part
