"""A check that a locustfile brings itself: Python, run in the Locust process, its verdict beside the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from loadkit.case import Case
from loadkit.front.bridge import Bridge, Reply
from loadkit.record import Answer, AnswerVerdict, Outcome, Record

if TYPE_CHECKING:
    from loadkit.front.users import LLMUser

Opinion = bool | Answer | tuple[Answer, str] | None
"""What a user's `check` may return; `None` is no opinion."""


def judged(user: LLMUser, case: Case, reply: Reply, bridge: Bridge) -> Reply:
    """The reply with the verdict of the user's own check added, which is also put into the record file."""
    if reply.record.outcome is not Outcome.COMPLETED:
        return reply
    verdict = _verdict(user, reply.record, user.check(case, reply.record))
    if verdict is None:
        return reply
    bridge.check(verdict)
    return replace(reply, verdicts=(*reply.verdicts, verdict))


def _verdict(user: LLMUser, record: Record, opinion: Opinion) -> AnswerVerdict | None:
    if opinion is None:
        return None
    answer, detail = opinion if isinstance(opinion, tuple) else (opinion, "")
    if isinstance(answer, bool):
        answer = Answer.CORRECT if answer else Answer.WRONG
    return AnswerVerdict(id=record.id, check=f"{type(user).__name__}.check", answer=Answer(answer), detail=detail)
