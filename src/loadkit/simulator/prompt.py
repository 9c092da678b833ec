"""From messages to the prompt's text and tokens: a ChatML template, as Qwen's.

`chat_template_kwargs.reasoning_effort` adds a line of its own; `enable_thinking` decides how the assistant's turn begins.
A top-level `reasoning_effort` of a chat request brings both; /tokenize ignores it, as vLLM's does (the 12-token trap).
"""

from __future__ import annotations

from typing import Any

import orjson

from loadkit.simulator.body import ChatBody, TokenizeChatBody
from loadkit.simulator.refusal import Refusal


def template_kwargs(body: ChatBody) -> dict[str, Any]:
    """vLLM's build_chat_params: the top-level effort wins, and switches thinking on or off unless that is given."""
    given = dict(body.chat_template_kwargs or {})
    if body.reasoning_effort is not None:
        given.setdefault("enable_thinking", body.reasoning_effort != "none")
        given["reasoning_effort"] = body.reasoning_effort
    return given


def render(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, kwargs: dict[str, Any], *, open_turn: bool = True
) -> str:
    """The prompt's text.

    Raises:
        Refusal: an empty conversation.
    """
    if not messages:
        raise Refusal("Cannot apply chat template to an empty conversation. Provide at least one message.")
    turns = [*_preface(tools, kwargs.get("reasoning_effort")), *(_turn(message) for message in messages)]
    if open_turn:
        turns.append("<|im_start|>assistant\n" + _opening(kwargs.get("enable_thinking")))
    return "".join(turns)


def render_chat(body: ChatBody | TokenizeChatBody, kwargs: dict[str, Any]) -> str:
    """The prompt of a request body."""
    return render(body.messages, body.tools, kwargs, open_turn=body.add_generation_prompt and not body.continue_final_message)


def text_of(content: object) -> str:
    """A message's content as text: a string, or the text parts of a list, one a line."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _opening(thinking: bool | None) -> str:
    if thinking is None:
        return ""
    return "<think>\n" if thinking else "<think>\n\n</think>\n\n"


def _preface(tools: list[dict[str, Any]] | None, effort: str | None) -> list[str]:
    parts = []
    if tools:
        listed = "".join(orjson.dumps(tool).decode() + "\n" for tool in tools)
        parts.append(f'# Tools\n{listed}Return calls as <tool_call>{{"name":..., "arguments":...}}</tool_call>')
    if effort is not None:
        parts.append(f"Reasoning effort: {effort}")
    return [f"<|im_start|>system\n{part}<|im_end|>\n" for part in parts]


def _turn(message: dict[str, Any]) -> str:
    calls = "".join(_call(call) for call in message.get("tool_calls") or [])
    return f"<|im_start|>{message.get('role', 'user')}\n{text_of(message.get('content'))}{calls}<|im_end|>\n"


def _call(call: dict[str, Any]) -> str:
    function = call.get("function") or {}
    return f'<tool_call>\n{{"name": "{function.get("name")}", "arguments": {function.get("arguments")}}}\n</tool_call>'
