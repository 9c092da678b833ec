"""Ready requests in a line, for those who use loadkit as a library: one question, or the first turns of drawn cases."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loadkit.case import Case, Turn
from loadkit.record import CaseFacts, Slot
from loadkit.request import Request, Target, first_request

Message = Mapping[str, Any]


def chat(
    prompt: str | Sequence[Message],
    *,
    target: Target,
    max_tokens: int = 512,
    name: str = "question",
    stream: bool = True,
    **body: Any,
) -> Request:
    """A request that asks `prompt`: the text of one user message, or the messages of a conversation as the OpenAI API has them.

    Args:
        max_tokens: budget of the output, thinking included.
        name: what tables call it; requests of one name are one row.
        stream: whether the answer is streamed. Without a stream there is no TTFT.
        body: more fields of the request's body (`temperature=0`, `seed=42`, `tools=[…]`, `ignore_eos=True` for a fixed length).

    It has an id and a cache salt of its own, so that it is cold on servers that know `cache_salt`.
    """
    messages = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else tuple(dict(one) for one in prompt)
    unique = uuid.uuid4().hex
    case = Case(
        facts=CaseFacts(
            scenario=name,
            case=name,
            workload="speed" if body.get("ignore_eos") else "quality",
            max_tokens=max_tokens,
            cache="cold",
        ),
        turns=(Turn(messages=messages),),
        body={"max_tokens": max_tokens, **body},
        stream=stream,
    )
    return first_request(case, id=f"{name}-{unique[:12]}", target=target, slot=Slot(), run_id=unique)


def requests_of(cases: Iterable[Case], *, target: Target, run_id: str | None = None, stage: str = "") -> tuple[Request, ...]:
    """The first request of each case, in order. Their ids hold `stage` and a number, which keeps two calls apart.

    `run_id` seeds the cache salts; without one it is drawn, so that what an earlier call asked is not cached for this one.
    `first_request` and `next_request` of `loadkit.request` make later turns, too.
    """
    seed = uuid.uuid4().hex if run_id is None else run_id
    prefix = f"{stage}-" if stage else ""
    return tuple(
        first_request(case, id=f"{prefix}{case.facts.case}-{number}", target=target, slot=Slot(stage=stage), run_id=seed)
        for number, case in enumerate(cases, 1)
    )
