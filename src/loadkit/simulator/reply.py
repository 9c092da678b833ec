"""`Reply`: one request's answer on its way out, streamed or whole; one `Choice` per sequence.

A choice renders the chunks of a step when the step begins and writes them when it is due (see `engine`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from loadkit.simulator.connection import Outlet, Part
from loadkit.simulator.frames import (
    DONE,
    EMPTY_DELTA,
    ChatFrames,
    Counts,
    TextFrames,
    call_more,
    call_start,
    error_event,
    fake_logprobs,
    final_usage,
    running_usage,
    text_delta,
    tool_delta,
)
from loadkit.simulator.script import Call, Script
from loadkit.simulator.sequence import Output, Sequence
from loadkit.simulator.whole import whole_answer

PARTS: dict[tuple[bool, bool], Part] = {
    (True, False): "token",
    (True, True): "last",
    (False, True): "finish",
    (False, False): "hidden",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the request wants to see of its answer."""

    stream: bool = False
    usage: bool = False
    running_usage: bool = False
    reasoning_details: bool = False
    prompt_details: bool = True
    token_ids: bool = False
    prompt_text: str | None = None
    include_reasoning: bool = True
    named_tool: bool = False
    forced_tool: bool = False
    interval: int = 1
    metrics: bool = False
    logprobs: bool = False


@dataclass(slots=True, kw_only=True)
class Frame:
    """A chunk ready to be written; `tokens` is what the running usage rises by with it."""

    payload: bytes
    due_ns: int
    tokens: int
    kind: str
    final: bool = False


class Reply:
    """The answer of one request: `choices` in the order of their index."""

    def __init__(self, frames: ChatFrames | TextFrames, asked: Asked, outlet: Outlet, prompt: list[int]):
        self.frames = frames
        self.asked = asked
        self.outlet = outlet
        self.prompt = prompt
        self.choices: list[Choice] = []
        self.begun = False
        self.over = False

    def running_usage(self, completion: int, reasoning: int) -> bytes | None:
        """The running usage of a chunk, where it was asked for."""
        asked = self.asked
        if not asked.running_usage:
            return None
        return running_usage(len(self.prompt), completion, reasoning if asked.reasoning_details else None)

    def totals(self) -> Counts:
        """Usage over all choices, with the cache figures of the first."""
        first = self.choices[0].sequence
        details = self.asked.prompt_details
        return Counts(
            prompt=len(self.prompt),
            completion=sum(choice.shown for choice in self.choices),
            reasoning=sum(choice.reasoning for choice in self.choices) if self.asked.reasoning_details else None,
            cached=first.cached if details else None,
            created=first.created if details else None,
        )

    def begin(self) -> None:
        """The role chunks, with the first output of any choice (vLLM sends them no earlier)."""
        self.begun = True
        if not isinstance(self.frames, ChatFrames):
            return
        usage = self.running_usage(0, 0)
        ids = self.prompt if self.asked.token_ids else None
        for index in range(len(self.choices)):
            at = self.outlet.event(self.frames.role(index, usage, ids, self.asked.prompt_text), "role")
            if self.outlet.witness.role_ns is None:
                self.outlet.witness.role_ns = at

    def finished(self) -> None:
        """A choice is complete; after the last one come usage and `[DONE]`, or the whole answer."""
        if self.over or not all(choice.finish for choice in self.choices):
            return
        self.over = True
        totals = self.totals()
        witness = self.outlet.witness
        witness.finish = self.choices[0].finish
        witness.usage = {
            "prompt_tokens": totals.prompt,
            "completion_tokens": totals.completion,
            "reasoning_tokens": totals.reasoning,
            "cached_tokens": self.choices[0].sequence.cached,
        }
        if not self.asked.stream:
            self.outlet.answer(200, whole_answer(self, totals))
            return
        if self.asked.usage:
            self.outlet.event(self.frames.usage(final_usage(totals, chat=self.frames.chat), self.metrics()), "usage")
        witness.done_ns = self.outlet.event(DONE, "done")
        self.outlet.end_stream()

    def metrics(self) -> dict[str, Any] | None:
        """vLLM's per-request metrics (--enable-per-request-metrics); only where there is one choice."""
        if not self.asked.metrics or len(self.choices) != 1:
            return None
        return request_metrics(self.choices[0].sequence)

    def fail(self, message: str) -> None:
        """The engine died: an error object in the stream after HTTP 200, or a 500."""
        if self.over:
            return
        self.over = True
        payload = error_event(message, "InternalServerError", 500)
        if not self.asked.stream:
            self.outlet.answer(500, payload.removeprefix(b"data: ").strip())
            return
        self.outlet.event(payload, "error")
        self.outlet.witness.done_ns = self.outlet.event(DONE, "done")
        self.outlet.end_stream()


@dataclass(slots=True, eq=False)
class Choice:
    """One choice of a reply, and the sink of its sequence. `shown` counts tokens that have gone into chunks."""

    reply: Reply
    index: int
    script: Script
    sequence: Sequence = field(init=False)
    shown: int = 0
    reasoning: int = 0
    unseen: int = 0
    finish: str | None = None
    stop_reason: Any = None
    frame: Frame | None = None
    call: int = -1

    def prepare(self, output: Output) -> None:
        """Render what this step will show; nothing where the parser would hold it back."""
        self.frame = None
        if not self.reply.asked.stream:
            if output.finish is not None:  # nothing is shown before the end
                self._count(output.end)
                self._finish(output)
            return
        count = output.end - self.shown
        if output.finish is None and self.shown and count < self.reply.asked.interval:
            return
        if isinstance(self.reply.frames, TextFrames):
            self.frame = self._text(self.reply.frames, output)
        else:
            self.frame = self._chat(self.reply.frames, output)

    def deliver(self) -> None:
        reply, frame = self.reply, self.frame
        if frame is not None:
            if not reply.begun:
                reply.begin()
            seen = frame.kind != "."
            at = reply.outlet.event(frame.payload, PARTS[seen, frame.final])
            witness = reply.outlet.witness
            if seen and at:
                witness.event(at, frame.due_ns, frame.tokens, frame.kind)
            if frame.final and at:
                witness.finish_ns = at
            self.frame = None
        elif reply.asked.stream and not reply.begun and reply.frames.chat:
            reply.begin()  # the first token shows nothing, but the role chunk goes out with it
        if self.finish is not None:
            reply.finished()

    def fail(self, message: str) -> None:
        self.reply.fail(message)

    def _chat(self, frames: ChatFrames, output: Output) -> Frame | None:
        start, asked = self.shown, self.reply.asked
        delta, kind = self._delta(start, output.end)
        self._count(output.end)
        ids = self.script.tokens[start : output.end] if asked.token_ids and asked.include_reasoning else None
        self.unseen += output.end - start
        if output.finish is None and delta is EMPTY_DELTA and ids is None:
            return None
        usage = self.reply.running_usage(self.shown, self.reasoning)
        tokens, self.unseen = self.unseen, 0
        logprobs = fake_logprobs(self.script, start, output.end) if asked.logprobs else None
        if output.finish is None:
            return Frame(
                payload=frames.event(self.index, delta, usage, ids, logprobs), due_ns=output.due_ns, tokens=tokens, kind=kind
            )
        self._finish(output)
        reason = (self.finish or "stop", self.stop_reason)
        payload = frames.finish(self.index, delta, usage, reason, ids, last=not asked.usage, logprobs=logprobs)
        return Frame(payload=payload, due_ns=output.due_ns, tokens=tokens, kind=kind, final=True)

    def _text(self, frames: TextFrames, output: Output) -> Frame | None:
        start, asked = self.shown, self.reply.asked
        text = "".join(self.script.pieces[start : output.end])
        self._count(output.end)
        if output.finish is not None:
            self._finish(output)
        usage = self.reply.running_usage(self.shown, 0)
        ids = self.script.tokens[start : output.end] if asked.token_ids else None
        prompt_ids = self.reply.prompt if asked.token_ids and start == 0 else None
        payload = frames.event(self.index, text, usage, (self.finish, self.stop_reason), ids, prompt_ids)
        kind = "a" if text else "."
        return Frame(payload=payload, due_ns=output.due_ns, tokens=output.end - start, kind=kind, final=self.finish is not None)

    def _delta(self, start: int, end: int) -> tuple[bytes, str]:
        """The delta of tokens [start, end), and the kind of the first thing in it that can be seen."""
        script = self.script
        if end - start == 1 and start not in script.starts:
            kind, piece = script.kinds[start], script.pieces[start]
            if kind == "a" and piece:
                return text_delta(piece, ""), "a"
            if kind == "r" and piece and self.reply.asked.include_reasoning:
                return text_delta("", piece), "r"
        content = reasoning = ""
        calls: list[dict[str, Any]] = []
        for place in range(start, end):
            kind, piece = script.kinds[place], script.pieces[place]
            if kind == "a":
                content += piece
            elif kind == "r" and self.reply.asked.include_reasoning:
                reasoning += piece
            elif kind == "t":
                self._call_parts(calls, script.starts.get(place), piece)
        if calls:
            return tool_delta(calls), "t"
        delta = text_delta(content, reasoning)
        return delta, "r" if reasoning else "a" if content else "."

    def _call_parts(self, parts: list[dict[str, Any]], start: Call | None, piece: str) -> None:
        if start is not None:
            self.call += 1
            parts.append(call_start(start, self.call))
        elif piece and parts and parts[-1]["index"] == self.call and "arguments" in parts[-1]["function"]:
            parts[-1]["function"]["arguments"] += piece
        elif piece:
            parts.append(call_more(piece, self.call))

    def _count(self, end: int) -> None:
        if end - self.shown == 1:
            self.reasoning += self.script.kinds[self.shown] == "r"
        else:
            self.reasoning += self.script.kinds[self.shown : end].count("r")
        self.shown = end

    def _finish(self, output: Output) -> None:
        asked, reason = self.reply.asked, output.finish
        if reason == "stop":
            self.stop_reason = self.script.stop_reason
            if self.script.calls and not asked.named_tool:
                reason = "tool_calls"
        self.finish = reason


def request_metrics(sequence: Sequence) -> dict[str, Any]:
    """vLLM's build_per_request_timing_metrics, in milliseconds."""
    now = time.monotonic_ns()
    first = sequence.first_ns if sequence.first_ns is not None else now
    scheduled = sequence.scheduled_ns if sequence.scheduled_ns is not None else now
    decode_ms = (now - first) / 1e6
    made = max(sequence.made, 1)
    metrics: dict[str, Any] = {
        "time_to_first_token_ms": (first - sequence.arrived_ns) / 1e6,
        "generation_time_ms": decode_ms,
        "queue_time_ms": (scheduled - sequence.queued_ns) / 1e6,
        "mean_itl_ms": decode_ms / (made - 1) if made > 1 else None,
        "tokens_per_second": (made - 1) / decode_ms * 1e3 if made > 1 and decode_ms else None,
    }
    if sequence.drafted:
        metrics["speculative_decoding"] = {
            "mean_acceptance_length": 1 + sequence.accepted / sequence.drafts,
            "draft_acceptance_rate": sequence.accepted / sequence.drafted,
            "num_spec_steps": sequence.drafts,
            "num_accepted_draft_tokens": sequence.accepted,
            "num_draft_tokens": sequence.drafted,
        }
    return metrics
