"""`Script`: the tokens that the simulated model will produce for one request, decided before the first of them is due.

Each token has a kind: `r` thinking, `a` answer, `t` tool call, `.` nothing to see (`</think>`, `<tool_call>`, end of
sequence), and the piece of text that it adds to its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from loadkit.simulator.vocabulary import Vocabulary

Kind = Literal["r", "a", "t", "."]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model decided on; `arguments` is JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """What the model wants to say: thinking (`unending`: it never closes it), then an answer or calls."""

    thinking: str | None = None
    answer: str = ""
    calls: tuple[Call, ...] = ()
    unending: bool = False


@dataclass(slots=True)
class Script:
    """The output as columns of equal length; `starts` maps a token's place to the call that begins with it.

    `more` yields further text where the output must go on past its natural end (ignore_eos).
    """

    tokens: list[int] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    starts: dict[int, Call] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    stop_at: int | None = None
    stop_reason: str | int | None = None
    more: Iterator[str] | None = None

    def reach(self, length: int, vocabulary: Vocabulary) -> None:
        """Make sure that at least `length` tokens are there, where the output goes on for ever."""
        while self.more is not None and len(self.tokens) < length:
            self.add("a", next(self.more), vocabulary)

    def add(self, kind: Kind, text: str, vocabulary: Vocabulary) -> None:
        tokens = vocabulary.encode(text)
        self.tokens += tokens
        self.kinds += [kind] * len(tokens)
        self.pieces += vocabulary.pieces(tokens)

    def control(self, token: int) -> None:
        self.tokens.append(token)
        self.kinds.append(".")
        self.pieces.append("")

    def add_call(self, call: Call, vocabulary: Vocabulary) -> None:
        """A call in Hermes' form: the frame around the arguments is never visible, the name is with the first argument."""
        self.control(vocabulary.call_begin)
        for token in vocabulary.encode(f'\n{{"name": "{call.name}", "arguments": '):
            self.control(token)
        self.starts[len(self.tokens) - 1] = call
        self.kinds[-1] = "t"
        self.add("t", call.arguments, vocabulary)
        for token in vocabulary.encode("}\n"):
            self.control(token)
        self.control(vocabulary.call_end)
        self.calls.append(call)

    def cut_at_text(self, stops: list[str], first: int) -> None:
        """End where a stop string is complete (not before token `first`); its text, and what follows, is never shown."""
        text, ends = "", []
        for piece in self.pieces:
            text += piece
            ends.append(len(text))
        found = [(text.find(stop, ends[first - 1] if first else 0), stop) for stop in stops]
        hits = [(at, stop) for at, stop in found if at >= 0]
        if not hits:
            return
        at, stop = min(hits, key=lambda hit: hit[0] + len(hit[1]))
        last = next(index for index, end in enumerate(ends) if end >= at + len(stop))
        self.pieces = [piece[: max(0, at - end + len(piece))] for piece, end in zip(self.pieces, ends, strict=True)]
        self.finish(last, stop)

    def finish(self, last: int, reason: str | int | None) -> None:
        """Token `last` is the final one, and ends the output with finish_reason `stop`."""
        del self.tokens[last + 1 :], self.kinds[last + 1 :], self.pieces[last + 1 :]
        self.stop_at, self.stop_reason, self.more = last, reason, None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the request says about the end of its output."""

    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    stops: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    thinking_budget: int | None = None


def write(thought: Thought, limits: Limits, vocabulary: Vocabulary, filler: Callable[[], Iterator[str]]) -> Script:
    """The script of a thought, as long as the limits ask for (and as far as it is known ahead)."""
    script = Script()
    if thought.thinking is not None:
        script.add("r", thought.thinking, vocabulary)
        if limits.thinking_budget is not None:
            script = _first(script, limits.thinking_budget)
        if not thought.unending:
            script.control(vocabulary.think_end)
    if thought.answer:
        script.add("a", thought.answer, vocabulary)
    for call in thought.calls:
        script.add_call(call, vocabulary)
    if limits.ignore_eos:
        script.more = filler()
        script.reach(min(limits.max_tokens, 4096), vocabulary)
    else:
        script.more = filler()
        script.reach(min(limits.min_tokens, limits.max_tokens), vocabulary)
        script.more = None
        script.control(vocabulary.eos)
        script.stop_at = len(script.tokens) - 1
    if limits.stops:
        script.cut_at_text(list(limits.stops), limits.min_tokens)
    _cut_at_tokens(script, limits)
    return script


def _first(script: Script, count: int) -> Script:
    return Script(tokens=script.tokens[:count], kinds=script.kinds[:count], pieces=script.pieces[:count])


def _cut_at_tokens(script: Script, limits: Limits) -> None:
    wanted = set(limits.stop_token_ids)
    for index, token in enumerate(script.tokens):
        if token in wanted and index >= limits.min_tokens:
            script.pieces[index], script.kinds[index] = "", "."
            script.finish(index, token)
            return
