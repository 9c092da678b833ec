"""`Request`: one case of a scenario with its wire body, ready to be sent; nothing is serialised after this point."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadkit.record import CaseFacts, Slot

PREFILL_FLOOR_TOKENS_PER_S = 300
"""Slowest prefill that the first-token timeout still waits for (method.md: max(600 s, prompt tokens / 300 per s))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds that each phase of a request may take; there is no total. SSE comments count as life, not as tokens."""

    connect_s: float = 5.0
    send_s: float = 60.0
    headers_s: float = 30.0
    first_token_s: float = 600.0
    between_tokens_s: float = 120.0

    @classmethod
    def for_prompt(cls, prompt_tokens: int | None) -> Timeouts:
        """The defaults, with a first-token limit that grows with the prompt (tokens; `None` where unknown)."""
        tokens = 0 if prompt_tokens is None else prompt_tokens
        return cls(first_token_s=max(600.0, tokens / PREFILL_FLOOR_TOKENS_PER_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server that a run measures.

    `base_url` ends in the API's root (``http://spark:8000/v1``), without a trailing slash. The key comes from
    `OPENAI_API_KEY`, and is never written anywhere.
    """

    base_url: str
    model: str
    api_key: str | None = None
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request whose body bytes are final.

    `body` is inline, or `body_file` names a file that holds it (long documents: the engine reads it before it is due).
    `checks` are plain JSON objects that `loadkit.checks` understands; the engine applies them after the answer ended.
    `due_ns` is `None` until the request is released: an open loop sets it to the planned time, a closed loop to the moment
    the user asked.
    """

    id: str
    slot: Slot
    case: CaseFacts
    body: bytes = b""
    body_file: Path | None = None
    path: str = "/chat/completions"
    stream: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    checks: tuple[dict[str, Any], ...] = ()
    due_ns: int | None = None
