"""The bytes of a stream: vLLM 0.32's chunks for chat and text completions, made without a JSON object in between.

A chunk is a prefix that is the same for the whole request, the delta, and a tail; only the delta is encoded each time.
Field order and nulls are those of vLLM's pydantic models (checked byte by byte against a real one).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import orjson

from loadkit.simulator.script import Call, Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Usage so far. `cached` and `created` are known from the first output on; `None` leaves the details out."""

    prompt: int
    completion: int
    reasoning: int | None = None
    cached: int | None = None
    created: int | None = None


def running_usage(prompt: int, completion: int, reasoning: int | None) -> bytes:
    """The usage of one chunk, where continuous_usage_stats was asked for (without details of the prompt)."""
    text = b'"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d' % (prompt, prompt + completion, completion)
    if reasoning is None:
        return text + b"}"
    return text + b',"completion_tokens_details":{"reasoning_tokens":%d}}' % reasoning


def final_usage(counts: Counts, *, chat: bool) -> dict[str, Any]:
    """The usage of the last chunk; text completions leave created_cache_tokens and the completion's details out."""
    usage: dict[str, Any] = {
        "prompt_tokens": counts.prompt,
        "total_tokens": counts.prompt + counts.completion,
        "completion_tokens": counts.completion,
    }
    if counts.cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": counts.cached}
        if chat:
            usage["prompt_tokens_details"]["created_cache_tokens"] = counts.created
    if chat and counts.reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning}
    return usage


def full_usage(counts: Counts, *, chat: bool) -> dict[str, Any]:
    """The usage of an answer that is not streamed: absent details are null."""
    usage = final_usage(counts, chat=chat)
    details = usage.get("prompt_tokens_details")
    if details is not None:
        details |= {"created_cache_tokens": details.get("created_cache_tokens"), "multimodal_tokens": None}
    usage.setdefault("prompt_tokens_details", None)
    usage.setdefault("completion_tokens_details", None)
    return usage


class ChatFrames:
    """Chunks of POST /v1/chat/completions."""

    chat = True
    object_name = "chat.completion"

    def __init__(self, response_id: str, created: int, model: str, fingerprint: str):
        self.id = response_id
        self.created = created
        self.model = model
        self.fingerprint = fingerprint
        self._prefix = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":[' % (
            orjson.dumps(response_id),
            created,
            orjson.dumps(model),
        )

    def role(self, index: int, usage: bytes | None, prompt_ids: list[int] | None, prompt_text: str | None) -> bytes:
        return b'%b{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]%b,%b}\n\n' % (
            self._prefix,
            index,
            b"" if usage is None else b"," + usage,
            b'"prompt_token_ids":%b,"prompt_text":%b' % (orjson.dumps(prompt_ids), orjson.dumps(prompt_text)),
        )

    def event(self, index: int, delta: bytes, usage: bytes | None, ids: list[int] | None = None, logprobs: Any = None) -> bytes:
        """A chunk with a delta (`delta` from the functions below)."""
        return b'%b{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":null,"token_ids":%b}]%b}\n\n' % (
            self._prefix,
            index,
            delta,
            b"null" if logprobs is None else orjson.dumps(logprobs),
            b"null" if ids is None else orjson.dumps(ids),
            b"" if usage is None else b"," + usage,
        )

    def finish(
        self, index: int, delta: bytes, usage: bytes | None, reason: tuple[str, Any], ids: list[int] | None, *, last: bool,
        logprobs: Any = None,
    ) -> bytes:  # fmt: skip
        """The chunk with finish_reason; `last`: no usage chunk follows, so it carries the fingerprint."""
        return b'%b{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b,"stop_reason":%b,"token_ids":%b}]%b%b}\n\n' % (
            self._prefix,
            index,
            delta,
            b"null" if logprobs is None else orjson.dumps(logprobs),
            orjson.dumps(reason[0]),
            orjson.dumps(reason[1]),
            b"null" if ids is None else orjson.dumps(ids),
            b"" if usage is None else b"," + usage,
            b',"system_fingerprint":"%b"' % self.fingerprint.encode() if last else b"",
        )

    def usage(self, usage: dict[str, Any], metrics: dict[str, Any] | None) -> bytes:
        tail = b"" if metrics is None else b',"metrics":%b' % orjson.dumps(metrics)
        return b'%b],"usage":%b,"system_fingerprint":"%b"%b}\n\n' % (
            self._prefix,
            orjson.dumps(usage),
            self.fingerprint.encode(),
            tail,
        )


class TextFrames:
    """Chunks of POST /v1/completions: no role chunk, ids of the prompt in the first chunk of a choice."""

    chat = False
    object_name = "text_completion"

    def __init__(self, response_id: str, created: int, model: str, fingerprint: str):
        self.id = response_id
        self.created = created
        self.model = model
        self.fingerprint = fingerprint
        self._prefix = b'data: {"id":%b,"object":"text_completion","created":%d,"model":%b,"choices":[' % (
            orjson.dumps(response_id),
            created,
            orjson.dumps(model),
        )

    def event(
        self, index: int, text: str, usage: bytes | None, reason: tuple[str | None, Any], ids: list[int] | None,
        prompt_ids: list[int] | None,
    ) -> bytes:  # fmt: skip
        return (
            b'%b{"index":%d,"text":%b,"logprobs":null,"finish_reason":%b,"stop_reason":%b,"prompt_token_ids":%b,"token_ids":%b}]%b}\n\n'
            % (
                self._prefix,
                index,
                orjson.dumps(text),
                orjson.dumps(reason[0]),
                orjson.dumps(reason[1]),
                orjson.dumps(prompt_ids),
                orjson.dumps(ids),
                b"" if usage is None else b"," + usage,
            )
        )

    def usage(self, usage: dict[str, Any], metrics: dict[str, Any] | None) -> bytes:
        tail = b"" if metrics is None else b',"metrics":%b' % orjson.dumps(metrics)
        return b'%b],"usage":%b,"system_fingerprint":"%b"%b}\n\n' % (
            self._prefix,
            orjson.dumps(usage),
            self.fingerprint.encode(),
            tail,
        )


DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
EMPTY_DELTA = b"{}"


def text_delta(content: str, reasoning: str) -> bytes:
    """A delta with answer text, thinking, or (where one step crossed the border) both."""
    if not reasoning:
        return b'{"content":%b}' % orjson.dumps(content) if content else EMPTY_DELTA
    if not content:
        return b'{"reasoning":%b}' % orjson.dumps(reasoning)
    return b'{"content":%b,"reasoning":%b}' % (orjson.dumps(content), orjson.dumps(reasoning))


def tool_delta(parts: list[dict[str, Any]]) -> bytes:
    """A delta with parts of tool calls."""
    return b'{"content":null,"tool_calls":%b}' % orjson.dumps(parts)


def call_start(call: Call, index: int) -> dict[str, Any]:
    """The first part of a call: id and name, which come once."""
    return {"id": call_id(), "type": "function", "index": index, "function": {"name": call.name}}


def call_more(arguments: str, index: int) -> dict[str, Any]:
    """A later part: a piece of the arguments."""
    return {"index": index, "function": {"arguments": arguments}}


def call_id() -> str:
    """A fresh id, in vLLM's form."""
    return f"chatcmpl-tool-{secrets.token_hex(8)}"


def error_event(message: str, kind: str, code: int) -> bytes:
    """An error after HTTP 200: an object in the stream, as vLLM sends it before `[DONE]`."""
    return b"data: %b\n\n" % orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


def fake_logprobs(script: Script, start: int, end: int) -> dict[str, Any]:
    """Log probabilities in vLLM's form; a scripted token is certain, so they are 0."""
    listed = []
    for place in range(start, end):
        facts = {"token": script.pieces[place], "logprob": 0.0, "bytes": list(script.pieces[place].encode())}
        listed.append({**facts, "top_logprobs": [facts]})
    return {"content": listed}
