"""An answer that is not streamed: one JSON object, with vLLM's nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from loadkit.simulator.frames import Counts, call_id, fake_logprobs, full_usage

if TYPE_CHECKING:
    from loadkit.simulator.reply import Choice, Reply


def whole_answer(reply: Reply, totals: Counts) -> bytes:
    """The body of a completed request."""
    frames, asked = reply.frames, reply.asked
    chat = frames.chat
    choices = [(_chat_choice if chat else _text_choice)(reply, choice) for choice in reply.choices]
    body: dict[str, Any] = {
        "id": frames.id,
        "object": frames.object_name,
        "created": frames.created,
        "model": frames.model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": frames.fingerprint,
        "usage": full_usage(totals, chat=chat),
    }
    if chat:
        body["prompt_logprobs"] = None
        body["prompt_token_ids"] = reply.prompt if asked.token_ids else None
        body["prompt_text"] = asked.prompt_text
    body |= {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": reply.metrics()}
    return orjson.dumps(body)


def _chat_choice(reply: Reply, choice: Choice) -> dict[str, Any]:
    asked, script, end = reply.asked, choice.script, choice.shown
    kinds, pieces = script.kinds[:end], script.pieces[:end]
    reasoning = "".join(piece for kind, piece in zip(kinds, pieces, strict=True) if kind == "r")
    content: str | None = "".join(piece for kind, piece in zip(kinds, pieces, strict=True) if kind == "a")
    complete = choice.finish != "length"
    calls = script.calls if complete else []
    if script.calls and not complete:
        content = _raw_call(choice)  # vLLM shows the unparsed text where the budget ends inside a call
    if not content:
        content = "" if asked.forced_tool else None
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if calls:
        message["tool_calls"] = [
            {"id": call_id(), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    message["reasoning"] = reasoning if reasoning and asked.include_reasoning else None
    return {
        "index": choice.index,
        "message": message,
        "logprobs": fake_logprobs(script, 0, end) if asked.logprobs else None,
        "finish_reason": choice.finish,
        "stop_reason": choice.stop_reason,
        "token_ids": script.tokens[:end] if asked.token_ids else None,
        "routed_experts": None,
    }


def _text_choice(reply: Reply, choice: Choice) -> dict[str, Any]:
    ids = reply.asked.token_ids
    return {
        "index": choice.index,
        "text": "".join(choice.script.pieces[: choice.shown]),
        "logprobs": None,
        "finish_reason": choice.finish,
        "stop_reason": choice.stop_reason,
        "token_ids": choice.script.tokens[: choice.shown] if ids else None,
        "prompt_logprobs": None,
        "prompt_token_ids": reply.prompt if ids else None,
        "routed_experts": None,
    }


def _raw_call(choice: Choice) -> str | None:
    script, end = choice.script, choice.shown
    text = "".join(piece for kind, piece in zip(script.kinds[:end], script.pieces[:end], strict=True) if kind == "a")
    for place, call in script.starts.items():
        if place < end:
            following = [other for other in script.starts if other > place]
            last = min([end, *following])
            arguments = "".join(
                piece for kind, piece in zip(script.kinds[place:last], script.pieces[place:last], strict=True) if kind == "t"
            )
            text += f'<tool_call>\n{{"name": "{call.name}", "arguments": {arguments}'
    return text or None
