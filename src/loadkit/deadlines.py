"""How long each phase of a request may be silent; pure functions of times.

Phases follow each other: connect, send, headers, first token, stream. A comment or any other byte is a sign of life between
tokens, but no token: the first one has to come within its limit of the headers, and after a token the next one within the same
limit (a preempted request is prefilled again) even where comments keep coming. So nothing goes on for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from loadkit.record import ErrorPhase
from loadkit.request import Timeouts


class TimedOut(Exception):
    """A phase took longer than its limit."""

    def __init__(self, phase: ErrorPhase, limit_s: float):
        super().__init__(f"{phase.value.replace('_', ' ')}: nothing within {limit_s:g} s")
        self.phase = phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Where an exchange stands: its phase and since when, its last byte and its last token (monotonic ns).

    `whole` says that the answer comes in one piece, with no tokens to wait for.
    """

    phase: ErrorPhase
    phase_ns: int
    life_ns: int
    token_ns: int
    whole: bool


def deadline(silence: Silence, limits: Timeouts) -> tuple[int, float]:
    """When the silence is too long (monotonic ns), and the limit that it then broke (s)."""
    if silence.phase is ErrorPhase.SEND:
        return _later(silence.phase_ns, limits.send_s), limits.send_s
    if silence.phase is ErrorPhase.HEADERS:
        headers_s = _headers_s(limits, whole=silence.whole)
        return _later(silence.phase_ns, headers_s), headers_s
    if silence.phase is ErrorPhase.FIRST_TOKEN and not silence.whole:
        return _later(silence.phase_ns, limits.first_token_s), limits.first_token_s
    byte = (_later(silence.life_ns, limits.between_tokens_s), limits.between_tokens_s)
    again_s = max(limits.first_token_s, limits.between_tokens_s)
    token = (_later(silence.token_ns, again_s), again_s)
    return byte if silence.whole else min(byte, token)


def without_written(limits: Timeouts, *, whole: bool) -> Timeouts:
    """For a transport that does not say when the request is written: to it, sending lasts until the headers."""
    return replace(limits, send_s=limits.send_s + _headers_s(limits, whole=whole))


def shortest_s(limits: Timeouts) -> float:
    """No deadline can come sooner than this after the one before it was looked at."""
    return min(limits.send_s, limits.headers_s, limits.first_token_s, limits.between_tokens_s)


def _headers_s(limits: Timeouts, *, whole: bool) -> float:
    """An answer in one piece comes together with its headers, which may take as long as the answer."""
    return max(limits.headers_s, limits.first_token_s) if whole else limits.headers_s


def _later(at_ns: int, seconds: float) -> int:
    return at_ns + int(seconds * 1e9)
