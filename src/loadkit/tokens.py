"""Counts of tokens: the server's /tokenize is the truth, the bundled encoding an estimate that is labelled so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from loadkit import dialect
from loadkit.case import DOCUMENT_MARK
from loadkit.errors import UsageError
from loadkit.server import Reply, Server, whole

MESSAGE_OVERHEAD = 4
"""Tokens that a ChatML template puts around a message, for the estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a chat template turns into tokens. `tools` and `template` must be those of the request, or counts differ."""

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    template: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_body(cls, body: dict[str, Any], messages: Sequence[dict[str, Any]]) -> Prompt:
        """The prompt of a request body with these messages."""
        tools = () if body.get("tool_choice") == "none" else body.get("tools", ())
        return cls(messages=messages, tools=tools, template=body.get("chat_template_kwargs", {}))

    def with_document(self, text: str) -> Prompt:
        """The document put where its mark stands."""
        filled = [
            {**message, "content": message["content"].replace(DOCUMENT_MARK, text)}
            if isinstance(message.get("content"), str)
            else message
            for message in self.messages
        ]
        return Prompt(messages=filled, tools=self.tools, template=self.template)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of tokens; `ids` are the tokens themselves where they are known."""

    tokens: int
    ids: Sequence[int] | None = None


class Tokenizer(Protocol):
    """Counts the tokens of a whole prompt; `exact` says whether it is the server's own count."""

    exact: bool

    async def count(self, prompt: Prompt) -> Count: ...


class ServerTokenizer:
    """The server's /tokenize, with the exact messages, tools and template arguments of the request.

    vLLM (and SGLang) take `messages`, `tools` and `chat_template_kwargs`; a top-level `reasoning_effort` would be ignored in
    silence there, which is why requests carry it inside the template arguments (vLLM 0.32 `serve/tokenize/protocol.py`).
    llama.cpp renders with /apply-template and counts with /tokenize (`tools/server/README.md`).
    """

    exact = True

    def __init__(self, server: Server):
        self._server = server
        self._form = dialect.named(server.target.dialect).tokenize
        self.calls = 0

    async def count(self, prompt: Prompt) -> Count:
        """Ask the server.

        Raises:
            UsageError: the server has no /tokenize or refuses the prompt.
        """
        self.calls += 1
        reply = await (self._llama_cpp(prompt) if self._form == "llama.cpp" else self._messages(prompt))
        tokens = reply.data.get("tokens") if isinstance(reply.data, dict) else None
        if not reply.ok or not isinstance(tokens, list):
            raise UsageError(
                f"/tokenize answered {reply.status}: {reply.said}",
                where=self._server.root,
                remedy="check that the server's /tokenize is reachable, or leave planned prompt lengths out",
            )
        counted = whole(reply.data.get("count"))
        return Count(tokens=len(tokens) if counted is None else counted, ids=tokens)

    async def _messages(self, prompt: Prompt) -> Reply:
        body: dict[str, Any] = {
            "model": self._server.target.model,
            "messages": list(prompt.messages),
            "add_generation_prompt": True,
            **({"tools": list(prompt.tools)} if prompt.tools else {}),
            **({"chat_template_kwargs": prompt.template} if prompt.template else {}),
        }
        return await self._server.post(f"{self._server.root}/tokenize", body)

    async def _llama_cpp(self, prompt: Prompt) -> Reply:
        rendered = await self._server.post(
            f"{self._server.root}/apply-template",
            {"messages": list(prompt.messages), "tools": list(prompt.tools), "chat_template_kwargs": prompt.template},
        )
        if not rendered.ok or not isinstance(rendered.data, dict):
            return rendered
        body = {"content": rendered.data.get("prompt", ""), "add_special": True, "parse_special": True}
        return await self._server.post(f"{self._server.root}/tokenize", body)


class Estimate:
    """A count by a local encoding and a plain ChatML template: close, never exact for another model."""

    exact = False

    def __init__(self, encode: Callable[[str], Sequence[int]]):
        self._encode = encode

    async def count(self, prompt: Prompt) -> Count:
        """The tokens of the texts, and a few for each message; templates' own words are not known."""
        total = 0
        for message in prompt.messages:
            total += MESSAGE_OVERHEAD + len(self._encode(str(message.get("content") or "")))
        total += sum(len(self._encode(str(tool))) for tool in prompt.tools)
        return Count(tokens=total + MESSAGE_OVERHEAD)


def bundled_estimate() -> Estimate:
    """The estimate by the encoding that comes with the package; loading it takes about half a second."""
    from loadkit.encoding import bundled  # ranks are loaded only where an estimate is asked for

    encoding = bundled()
    return Estimate(lambda text: encoding.encode(text, disallowed_special=()))
