"""A check that a locustfile brings itself: Python, run in the Locust process, its verdict beside the others."""

from __future__ import annotations

import inspect
import logging
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loadkit.case import Case
from loadkit.front.bridge import Bridge, Reply
from loadkit.record import Answer, AnswerVerdict, Outcome, Record

if TYPE_CHECKING:
    from loadkit.front.users import LLMUser

Opinion = bool | Answer | tuple[Answer, str] | None
"""What a user's `check` may return; `None` is no opinion."""

_log = logging.getLogger(__name__)


def judged(user: LLMUser, case: Case, reply: Reply, bridge: Bridge) -> Reply:
    """The reply with the verdict of the user's own check added, which is also put into the record file.

    A check that raises, or returns what is no opinion, leaves that answer `unverified`, with the reason; the run goes on.
    """
    if reply.record.outcome is not Outcome.COMPLETED:
        return reply
    try:
        verdict = _verdict(user, reply.record, user.check(case, reply.record))
    except Exception as fault:  # code of the user's own: whatever it raises must not leave the request without an end
        verdict = _unverified(user, reply.record, fault)
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
    if answer not in list(Answer):
        raise ValueError(f"{opinion!r} is no opinion; return True, False, None, an Answer or (Answer, why)")
    return AnswerVerdict(id=record.id, check=_name(user), answer=Answer(answer), detail=str(detail))


def _unverified(user: LLMUser, record: Record, fault: Exception) -> AnswerVerdict:
    file = inspect.getfile(type(user))
    place = [frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == file]
    detail = f"{type(fault).__name__}: {fault}" + (f" ({Path(file).name}:{place[-1]})" if place else "")
    _log.error("%s: the check of %s failed: %s", record.id, type(user).__name__, detail)
    return AnswerVerdict(id=record.id, check=_name(user), answer=Answer.UNVERIFIED, detail=detail)


def _name(user: LLMUser) -> str:
    return f"{type(user).__name__}.check"
