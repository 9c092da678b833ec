"""The truth log: what this server really did for each request, on the clock that its clients read too.

One JSON line per request, written when it is over; times are nanoseconds of CLOCK_MONOTONIC:

    id             of the response (chatcmpl-…);  request_id: the X-Request-Id header, if one came
    path, status   what was asked, and how it was answered
    received_ns    the last byte of the request had been read and parsed
    headers_ns     just before the response's headers were written;  role_ns: the same for the role chunk
    at_ns          just before each event that carries tokens was written (the call that hands it to the kernel)
    due_ns         when each was due: at_ns − due_ns is the simulator's own schedule error
    tokens         tokens of each event, as the running usage shows them;  kinds: one letter each (r, a, t)
    buffered       events that the kernel could not take at once (the client reads too slowly): at_ns is too early for them
    finish_ns      the chunk with finish_reason;  done_ns: `[DONE]`;  ended_ns: the response was over or the connection gone
    usage          prompt, completion, reasoning, cached tokens
    finish         the finish_reason sent;  fault: the fault played;  aborted: the client went away first
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson


@dataclass(slots=True)
class Witness:
    """What happened to one request."""

    path: str
    received_ns: int
    request_id: str | None = None
    id: str | None = None
    status: int | None = None
    headers_ns: int | None = None
    role_ns: int | None = None
    finish_ns: int | None = None
    done_ns: int | None = None
    at_ns: array[int] = field(default_factory=lambda: array("q"))
    due_ns: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("i"))
    kinds: bytearray = field(default_factory=bytearray)
    buffered: int = 0
    usage: dict[str, int | None] | None = None
    finish: str | None = None
    fault: str | None = None
    aborted: bool = False
    kept: bool = False

    def event(self, at_ns: int, due_ns: int, tokens: int, kind: str) -> None:
        """An event with tokens went out; remembered only where a truth log is kept."""
        if not self.kept:
            return
        self.at_ns.append(at_ns)
        self.due_ns.append(due_ns)
        self.tokens.append(tokens)
        self.kinds += kind.encode()

    def facts(self, ended_ns: int) -> dict[str, Any]:
        return {
            "id": self.id,
            "request_id": self.request_id,
            "path": self.path,
            "status": self.status,
            "received_ns": self.received_ns,
            "headers_ns": self.headers_ns,
            "role_ns": self.role_ns,
            "at_ns": self.at_ns.tolist(),
            "due_ns": self.due_ns.tolist(),
            "tokens": self.tokens.tolist(),
            "kinds": self.kinds.decode(),
            "buffered": self.buffered,
            "finish_ns": self.finish_ns,
            "done_ns": self.done_ns,
            "ended_ns": ended_ns,
            "usage": self.usage,
            "finish": self.finish,
            "fault": self.fault,
            "aborted": self.aborted,
        }


class TruthLog:
    """Appends a line per request; without a path it keeps nothing."""

    def __init__(self, path: Path | None):
        self._file: BinaryIO | None = path.open("ab", buffering=0) if path else None

    @property
    def kept(self) -> bool:
        return self._file is not None

    def write(self, witness: Witness) -> None:
        if self._file is not None and witness.kept:
            self._file.write(orjson.dumps(witness.facts(time.monotonic_ns()), option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
