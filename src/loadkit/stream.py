"""Bytes of an answer in, typed events out; no I/O and no clock. What comes out does not depend on how the bytes were cut.

Wire facts (vLLM 0.32, SGLang, llama.cpp, plain OpenAI):
    - the role chunk (``content: ""``), comments, empty deltas and the usage chunk carry no token and are no events;
    - thinking stands in ``reasoning`` or, elsewhere, in ``reasoning_content``; some versions send it in both, so the two are
      never added up;
    - with ``continuous_usage_stats`` each chunk has a running ``completion_tokens``; its rise since the last event is the
      number of tokens of an event, hidden ones (``</think>``, ``<tool_call>``) included;
    - after HTTP 200 a stream may still bring an error, as an object or a string, and even a ``[DONE]`` after it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson

from loadkit.assembly import Call, Text
from loadkit.lenient import can_be_written, lenient
from loadkit.record import ToolCall, Usage
from loadkit.sse import MAX_EVENT_BYTES, Frames
from loadkit.template import AFTER, Template, learned, without_escapes

loads = orjson.loads


class Token(NamedTuple):
    """A chunk that carried at least one token that can be seen.

    `kind` is `r` (reasoning), `a` (answer) or `t` (tool call); `tokens` how many, `None` where the server does not say.
    """

    kind: str
    tokens: int | None


class Finished(NamedTuple):
    """A chunk with a finish_reason."""

    reason: str


class Done(NamedTuple):
    """The line ``[DONE]``."""


class Problem(NamedTuple):
    """The answer can't count as complete. `kind`: error_object, malformed, oversized_event, finish_error."""

    kind: str
    message: str


Event = Token | Finished | Done | Problem
DONE = Done()
TEXTS = {"content": "a", "refusal": "a", "reasoning": "r", "reasoning_content": "r"}
ONE = {kind: Token(kind, 1) for kind in "rat"}
UNCOUNTED = {kind: Token(kind, None) for kind in "rat"}

MOST_TOKENS = (1 << 53) - 1
"""A larger count is none: JSON's readers elsewhere could not hold it either."""

MOST_CALLS = 1 << 31

LONGEST_USUAL = 64 * 1024  # bytes of text in an event that is taken without parsing
LESSONS = 8
"""The form of a stream is learned from its first parsed chunks, and after so many only from every so manieth: where it changes
with each chunk that is in vain, and costs as much as parsing it a few times."""


class Decoder:
    """One answer, streamed (`feed`, then `close`) or in one piece (`whole`).

    After the end the attributes hold what was assembled: `finish_reason`, `usage`, `response_id`, `system_fingerprint`,
    `server_metrics`, and `answer()`, `reasoning()`, `tool_calls()`, `answer_sha256()`. Of several choices (n > 1) the text
    of the first is kept; all count as events, with unknown tokens.
    """

    __slots__ = (
        "_answer", "_calls", "_counted", "_frames", "_keep_text", "_parsed", "_reasoning", "_several", "_template", "_usage",
        "_usual_text", "finish_reason", "response_id", "server_metrics", "system_fingerprint",
    )  # fmt: skip

    def __init__(self, *, keep_text: bool = True, max_event_bytes: int = MAX_EVENT_BYTES):
        self.finish_reason: str | None = None
        self.response_id: str | None = None
        self.system_fingerprint: str | None = None
        self.server_metrics: dict[str, Any] | None = None
        self._usage: dict[str, Any] | None = None
        self._answer = Text(keep=keep_text)
        self._reasoning = Text(keep=keep_text)
        self._calls: dict[int, Call] = {}
        self._keep_text = keep_text
        self._counted = 0  # completion_tokens up to the last event
        self._several = False  # a choice other than the first was seen
        self._frames = Frames(max_event_bytes)
        self._template: Template | None = None
        self._usual_text = self._answer  # what the template's text belongs to
        self._parsed = 0  # plain chunks that had to be parsed

    def usual(self, data: bytes) -> tuple[str, int | None] | None:
        """The kind and tokens of a read that is one event in the form of those before; `None`: it is for `feed` to say.

        It gives what `feed` would give, without parsing the whole.
        """
        template = self._template
        if template is None or not self._frames.between:
            return None
        head, start, middle, stop, tail, kind = template
        if data[:start] != head or len(data) > LONGEST_USUAL:
            return None
        if tail is None:
            end = stop
            fits = data[end:] == middle
        else:
            end = data.find(b'"', start)
            begin = end + len(middle)
            fits = data[end:begin] == middle and data[stop:] == tail
        if not fits:
            return None
        try:
            piece = data[start:end].decode()
            if not piece or '"' in piece or "\\" in piece or not piece.isprintable():
                return None
            rise = None
            if tail is not None:
                numbers = data[begin:stop]
                usage = loads(numbers)
                if type(usage) is not dict or b"\n" in numbers or b"\r" in numbers:
                    return None
                rise = self._rise(usage, visible=True)
        except ValueError:  # no UTF-8, no JSON
            return None
        self._usual_text.add(piece)
        return kind, rise

    def feed(self, data: bytes) -> list[Event]:
        """Decode what a read brought; an event is yielded with the read that completes it."""
        events: list[Event] = []
        frames = self._frames
        if frames.oversized:
            return events
        if self._template is not None and frames.between:
            data = self._usual_ones(data, events)
        for payload in frames.feed(data):
            if payload == b"[DONE]":
                events.append(DONE)
                continue
            try:
                chunk = loads(payload)
            except orjson.JSONDecodeError:
                self._odd(payload, events)
            else:
                if not self._plain_text(chunk, payload, events):
                    self._chunk(chunk, payload, events)
        if frames.oversized:
            events.append(Problem("oversized_event", f"an event of more than {frames.max_event_bytes} bytes"))
        return events

    def _usual_ones(self, data: bytes, events: list[Event]) -> bytes:
        """Takes the usual events that a read of several begins with; gives back what is left."""
        pieces = data.split(AFTER)
        left = pieces.pop()
        for place, piece in enumerate(pieces):
            token = self.usual(piece + AFTER)
            if token is None:
                return AFTER.join((*pieces[place:], left)) if place else data
            kind, rise = token
            events.append(ONE[kind] if rise == 1 else UNCOUNTED[kind] if rise is None else Token(kind, rise))
        return left

    def close(self) -> list[Event]:
        """The body ended properly: a last event whose blank line is missing still counts."""
        events: list[Event] = []
        for payload in self._frames.close():
            self._odd(payload, events)
        return events

    def whole(self, body: bytes) -> list[Event]:
        """Decode an answer that came in one piece; it has no `Token` events, because its tokens have no times."""
        events: list[Event] = []
        self._odd(body, events)
        return [event for event in events if type(event) is not Token]

    @property
    def usage(self) -> Usage:
        return usage_of(self._usage)

    @property
    def running_tokens(self) -> int | None:
        """Output tokens so far, as the last running usage said; `None` before there was one."""
        return _count(self._usage, "completion_tokens")

    def answer(self) -> str | None:
        return self._answer.text()

    def reasoning(self) -> str | None:
        return self._reasoning.text()

    def answer_sha256(self) -> str:
        """Of the answer's UTF-8 bytes; thinking and tool calls are not in it."""
        return self._answer.sha256()

    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(self._calls[index].fact(index) for index in sorted(self._calls))

    def _odd(self, payload: bytes, events: list[Event]) -> None:
        """``[DONE]``, and what may yet be JSON."""
        text = payload.strip()
        if text == b"[DONE]":
            events.append(DONE)
        elif text:
            self._chunk(lenient(text), text, events)

    def _plain_text(self, chunk: Any, payload: bytes, events: list[Event]) -> bool:
        """The chunk that nearly all are, one choice with one piece of text, as `_chunk` would take it; false for others."""
        try:
            (choice,) = chunk["choices"]
            delta = choice["delta"]
            if len(delta) != 1 or choice.get("index") or choice.get("finish_reason") is not None:
                return False
            ((name, piece),) = delta.items()
            kind = TEXTS.get(name)
            usage = chunk.get("usage")
            if kind is None or type(piece) is not str or not piece or self.response_id is None:
                return False
            if "error" in chunk or chunk.get("object") == "error":
                return False
            rise = None if usage is None else self._rise(usage, visible=True)
        except (KeyError, ValueError, TypeError, AttributeError):
            return False
        text = self._answer if kind == "a" else self._reasoning
        text.add(piece)
        events.append(ONE[kind] if rise == 1 else UNCOUNTED[kind] if rise is None else Token(kind, rise))
        self._parsed += 1
        if (self._parsed <= LESSONS or self._parsed % LESSONS == 0) and without_escapes(piece):
            template = learned(payload, chunk, name, piece, kind)
            if template is not None:
                self._template, self._usual_text = template, text
        return True

    def _chunk(self, chunk: Any, payload: bytes, events: list[Event]) -> None:
        if type(chunk) is not dict:
            events.append(Problem("malformed", f"not a JSON object: {_shortened(payload)}"))
            return
        if chunk.get("error") not in (None, False) or chunk.get("object") == "error":
            events.append(Problem("error_object", error_message(chunk)))
            return
        if self.response_id is None:
            self.response_id = _text_or_none(chunk.get("id"))
        usage = chunk.get("usage")
        try:
            kind, reason = self._choices(chunk.get("choices"))
            rise = None if usage is None else self._rise(usage, visible=bool(kind))
        except (TypeError, AttributeError, ValueError, OverflowError):
            events.append(Problem("malformed", f"not the shape of a chunk: {_shortened(payload)}"))
            return
        if kind:
            events.append(ONE[kind] if rise == 1 else UNCOUNTED[kind] if rise is None else Token(kind, rise))
        if reason is not None:
            events.append(Problem("finish_error", "finish_reason is error") if reason == "error" else Finished(reason))
        if reason is not None or not kind:
            self._extras(chunk)

    def _extras(self, chunk: dict[str, Any]) -> None:
        fingerprint, metrics = chunk.get("system_fingerprint"), chunk.get("metrics")
        if type(fingerprint) is str:
            self.system_fingerprint = fingerprint
        if type(metrics) is dict and can_be_written(metrics):
            self.server_metrics = metrics

    def _choices(self, choices: Any) -> tuple[str, str | None]:
        """The strongest kind of token in a chunk (answer, tool, reasoning) and its finish_reason."""
        kind, reason = "", None
        for choice in choices or ():
            index = choice.get("index")
            if index:
                self._several = True
            delta = choice.get("delta")
            if delta is None:
                delta = _undelivered(choice)
            found = self._delta(delta, first=not index)
            kind = max(kind, found, key="rta".find) if kind and found else kind or found
            finish = choice.get("finish_reason")
            if finish is not None:
                reason = str(finish)
                if self.finish_reason is None or not index:
                    self.finish_reason = reason
        return kind, reason

    def _delta(self, delta: dict[str, Any], *, first: bool) -> str:
        kind = ""
        thought = _plain(delta.get("reasoning") or delta.get("reasoning_content") or "")
        if thought:
            kind = "r"
            if first:
                self._reasoning.add(thought)
        calls = delta.get("tool_calls")
        if calls and self._tool_calls(calls, first=first):
            kind = "t"
        content = _plain(delta.get("content") or delta.get("refusal") or "")
        if content:
            kind = "a"
            if first:
                self._answer.add(content)
        return kind

    def _tool_calls(self, calls: list[dict[str, Any]], *, first: bool) -> bool:
        seen = False
        for position, delta in enumerate(calls):
            function = delta.get("function") or {}
            identity, name, arguments = delta.get("id"), function.get("name"), function.get("arguments")
            if not (identity or name or arguments):
                continue
            seen = True
            if first:
                index = self._call_index(delta.get("index"), identity, position if len(calls) > 1 else None)
                call = self._calls.setdefault(index, Call(keep=self._keep_text))
                call.add(_text_or_none(identity), _text_or_none(name), arguments)
        return seen

    def _call_index(self, index: int | None, identity: str | None, position: int | None) -> int:
        """Servers that leave the index out mean the last call, or a new one where the id is new; a list counts itself."""
        if index is not None:
            number = int(index)
            if not 0 <= number <= MOST_CALLS:
                raise ValueError(f"no index of a tool call: {number}")
            return number
        if position is not None:
            return position
        last = max(self._calls, default=-1)
        if last < 0 or (identity and self._calls[last].identity not in (None, identity)):
            return last + 1
        return last

    def _rise(self, usage: dict[str, Any], *, visible: bool) -> int | None:
        """Tokens since the last event. With several choices servers disagree on whose count it is: unknown."""
        running = usage.get("completion_tokens")
        self._usage = usage
        if not visible or type(running) is not int or self._several:
            return None
        rise = running - self._counted
        self._counted = running
        return rise if 0 <= rise <= MOST_TOKENS else None


def usage_of(usage: dict[str, Any] | None) -> Usage:
    """`Usage` of a server's usage object: a field that is absent or null is unknown, never 0."""
    if not usage:
        return Usage()
    return Usage(
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        cached_tokens=_count(usage.get("prompt_tokens_details"), "cached_tokens"),
    )


def error_message(body: Any) -> str:
    """What an error body says: ``error.message``, ``error`` as a string, ``detail`` or ``message``; else the body, cut."""
    if isinstance(body, dict):
        for said in (body.get("error"), body.get("detail"), body.get("message")):
            if isinstance(said, dict) and said.get("message"):
                return _shortened(str(said["message"]))
            if said:
                return _shortened(said if isinstance(said, str) else json.dumps(said))
    return _shortened(body if isinstance(body, str) else json.dumps(body))


def _count(fields: Any, name: str) -> int | None:
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _undelivered(choice: dict[str, Any]) -> dict[str, Any]:
    """What stands for a delta: the message of an answer in one piece, or the bare text of /v1/completions."""
    message = choice.get("message")
    return {"content": choice.get("text")} if message is None else message


def _plain(content: Any) -> str:
    """Text of a delta: a string, or a list of parts with a `text` each."""
    if type(content) is str:
        return content
    return "".join(part if isinstance(part, str) else str(part.get("text") or "") for part in content)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def _shortened(text: str | bytes, limit: int = 500) -> str:
    plain = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return plain if len(plain) <= limit else plain[:limit] + "…"
