"""How a request ended: what the transport reported and the decoder saw, as one `Outcome` and a failure with a stable class."""

from __future__ import annotations

import errno
import socket
import ssl

import httpx2

from loadkit.deadlines import TimedOut
from loadkit.reception import Reception
from loadkit.record import ErrorPhase, Failure, Outcome

CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "refused"),
    (ConnectionResetError, "reset"),
    (BrokenPipeError, "reset"),
    (ConnectionAbortedError, "reset"),
    (socket.gaierror, "dns"),
    (ssl.SSLError, "tls"),
)
"""What the system said → class of the failure. The first that fits counts."""

ERRNOS = {
    errno.EMFILE: "too_many_files",
    errno.ENFILE: "too_many_files",
    errno.EADDRNOTAVAIL: "no_free_port",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.ETIMEDOUT: "unreachable",
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
}

ERRORS: tuple[tuple[type[Exception], str, ErrorPhase | None], ...] = (
    (httpx2.ConnectTimeout, "connect_timeout", ErrorPhase.CONNECT),
    (httpx2.ProxyError, "proxy", ErrorPhase.CONNECT),
    (httpx2.ConnectError, "connect", ErrorPhase.CONNECT),
    (httpx2.WriteError, "reset", ErrorPhase.SEND),
    (httpx2.RemoteProtocolError, "bad_http", None),
    (httpx2.ReadError, "closed", None),
    (httpx2.TransportError, "transport", None),
)
"""Error of the transport → class where the system said nothing more, and phase (`None`: the one it happened in)."""


def outcome_of(reception: Reception) -> tuple[Outcome, Failure | None]:
    """The outcome of an exchange that is over. `completed` needs a finish_reason, `[DONE]` where streamed, and no error.

    Raises:
        Exception: what broke the exchange is no failure of the transport, but a bug of ours.
    """
    error = reception.error
    if isinstance(error, TimedOut):
        return Outcome.TIMEOUT, _failure(reception, f"{error.phase.value}_timeout", str(error), error.phase)
    if error is not None and (reception.status in (None, 200) or not isinstance(error, httpx2.TransportError)):
        return _broken(reception, error)
    if reception.status != 200:
        return Outcome.HTTP_ERROR, _failure(reception, str(reception.status), reception.said(), None)
    kind, message = _missing(reception)
    if kind:
        return Outcome.STREAM_ERROR, _failure(reception, kind, message, ErrorPhase.STREAM)
    return Outcome.COMPLETED, None


def _broken(reception: Reception, error: Exception) -> tuple[Outcome, Failure]:
    row = next(((name, phase) for kind, name, phase in ERRORS if isinstance(error, kind)), None)
    if row is None:
        raise error
    name, phase = row
    if reception.problem is not None:  # the server said why before it closed
        return Outcome.STREAM_ERROR, _failure(reception, *reception.problem, ErrorPhase.STREAM)
    failure = _failure(reception, _cause(error) or name, str(error), phase or reception.phase)
    if isinstance(error, httpx2.ConnectTimeout):
        return Outcome.TIMEOUT, failure
    if reception.status == 200:
        return Outcome.STREAM_ERROR, failure
    return Outcome.CONNECTION, failure


def _cause(error: BaseException) -> str | None:
    cause = error.__cause__
    for kind, name in CAUSES:
        if isinstance(cause, kind):
            return name
    return ERRNOS.get(cause.errno or 0) if isinstance(cause, OSError) else None


def _missing(reception: Reception) -> tuple[str, str]:
    if reception.problem is not None:
        return reception.problem
    if not reception.finished:
        return "no_finish_reason", "the answer ended without a finish_reason"
    if reception.streamed and not reception.done:
        return "no_done", "the stream ended without [DONE]"
    return "", ""


def _failure(reception: Reception, kind: str, message: str, phase: ErrorPhase | None) -> Failure:
    """A failure before the first byte of the response on a kept connection is told apart: the server may have closed it."""
    stale = reception.reused_connection and reception.headers_ns is None
    return Failure(kind=kind, message=message, phase=phase, reused_connection=stale)
