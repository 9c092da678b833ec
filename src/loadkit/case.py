"""`Case`: one thing to ask, drawn from a scenario with a seed; plain data that travels to any worker.

A case has one turn (a question) or several (a conversation, or a tool's result fed back). The requests of a case are made
by `loadkit.request` once target and slot are known; the answers of earlier turns enter the later ones there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadkit.record import CaseFacts

DOCUMENT_MARK = "\ue000document\ue000"
"""Stands in a message where the text of the case's document goes; private-use characters, so no text holds it by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is added to the conversation before the model is asked again.

    Attributes:
        messages: chat messages appended before this request (role and content, as the OpenAI API has them).
        tool_results: results by tool name, appended as `tool` messages for the calls that the previous answer made.
        checks: what a right answer to this turn is, in the form of `loadkit.checks`.
        max_tokens: budget of this turn, where it differs from the case's.
    """

    messages: tuple[dict[str, Any], ...] = ()
    tool_results: dict[str, str] = field(default_factory=dict)
    checks: tuple[dict[str, Any], ...] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of a scenario.

    Attributes:
        facts: identity, plan and hashes; copied into each record.
        turns: at least one.
        body: every other field of the request body (sampling, tools, tool_choice, chat_template_kwargs, max_tokens,
            ignore_eos …), without model, messages, stream and cache_salt.
        salt_group: requests of one run with the same group share a cache salt; `None` gives each request its own.
            `{round}`, `{way}`, `{attempt}`, `{stage}` and `{phase}` in it stand for those of the request's slot.
        stream: whether the answer is streamed.
        document: a text file whose content takes the place of `DOCUMENT_MARK` in a message, so that long documents travel by
            name and are spliced into the body only where it is sent.
        variables: what was drawn for the scenario's variables, by name, for a locustfile's own check; not in the plan's hash,
            since the texts hold what was asked.
    """

    facts: CaseFacts
    turns: tuple[Turn, ...]
    body: dict[str, Any] = field(default_factory=dict)
    salt_group: str | None = None
    stream: bool = True
    document: Path | None = None
    variables: dict[str, Any] = field(default_factory=dict)
