"""Facts of one request, as they are written to `records*.jsonl`: nothing in here is derived.

A record file holds lines of several kinds, each a JSON object with a key `kind`:

    anchor      relates the process's monotonic clock to wall time (`clock.Anchor`)
    start       a request is about to be sent; without a later `record` line it is lost (the client or host died)
    record      the request ended, in exactly one `Outcome`
    check       a verdict on an answer (`AnswerVerdict`), also from a user's own Python check
    heartbeat   the engine is alive: how late its loop was, its CPU, how much is in flight

All stamps are integer nanoseconds of CLOCK_MONOTONIC of the host that wrote the file. `None` means "does not apply" or
"unknown"; 0 means zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Literal

import orjson


class Outcome(StrEnum):
    """How the transport of one request ended (the first of the four axes; says nothing about the answer)."""

    COMPLETED = "completed"
    HTTP_ERROR = "http_error"
    STREAM_ERROR = "stream_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    CANCELLED = "cancelled"
    IN_FLIGHT_LOST = "in_flight_lost"
    NOT_SENT = "not_sent"


class Answer(StrEnum):
    """Whether the answer is right (the third axis); `unverified` where no check is declared."""

    CORRECT = "correct"
    WRONG = "wrong"
    HEDGED = "hedged"
    WRONG_DISTRACTOR = "wrong_distractor"
    REFUSED = "refused"
    NO_ANSWER = "no_answer"
    MALFORMED = "malformed"
    UNVERIFIED = "unverified"


class Phase(StrEnum):
    """Only `measured` requests enter figures and Locust's statistics."""

    PREFLIGHT = "preflight"
    WARMUP = "warmup"
    MEASURED = "measured"


class ErrorPhase(StrEnum):
    """Which part of a request failed or timed out."""

    CONNECT = "connect"
    SEND = "send"
    HEADERS = "headers"
    FIRST_TOKEN = "first_token"
    STREAM = "stream"


JSON = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where in the plan a request stands.

    `stage` is the stage's name (the same in all rounds, "2 ways"), `ways` how many requests it keeps in flight, `way` which
    of them this is (from 0), `round` counts from 1 (0 for warm-ups). `turn` counts the turns of a conversation from 0.
    `attempt` is 1 for the first try: only that one counts, later ones are listed apart.
    """

    phase: Phase = Phase.MEASURED
    stage: str = ""
    ways: int | None = None
    round: int | None = None
    way: int | None = None
    turn: int = 0
    attempt: int = 1
    load: Literal["closed", "open"] = "closed"
    user: str = ""
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFacts:
    """What was asked: the case of a scenario, its plan and its hashes.

    `tier` groups by length ("32K"); `cache` is the declared state of the prefix cache for this request ("cold", "warm",
    "shared", "none"); `expected_cached_tokens` is what the formula of method.md gives for it. `tags` are further facts of
    the case that tables group by (needle depth, order of the question, …): plain JSON values.
    """

    scenario: str
    case: str
    workload: Literal["speed", "quality"]
    tier: str | None = None
    max_tokens: int | None = None
    planned_prompt_tokens: int | None = None
    cache: str | None = None
    cache_salt: str | None = None
    expected_cached_tokens: int | None = None
    document_sha256: str | None = None
    question_sha256: str | None = None
    tags: JSON = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call of the answer, its argument text assembled by index and left as the server sent it."""

    index: int
    id: str | None
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts as the server reported them; `None` where a field was absent (absent is unknown, never 0)."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The chunks of a stream that carried at least one token, in order of arrival; columns of equal length.

    Attributes:
        at_ns: when each arrived (kernel receive stamp, or the time right after the read; `Record.stamp_source` says which).
        late_ns: read time − kernel stamp of the read that brought it: how late the client was. Empty with read stamps.
        kinds: one letter each: `r` reasoning, `a` answer, `t` tool.
        tokens: tokens of each event, from the running usage; `None` where the server gave none.
        coalesced: pairs (index, not-before ns): events that the kernel handed over merged with a later one, so that their
            stamp is the later one's. The event arrived between the not-before time and its stamp.
    """

    at_ns: tuple[int, ...] = ()
    late_ns: tuple[int, ...] = ()
    kinds: str = ""
    tokens: tuple[int, ...] | None = None
    coalesced: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a request did not complete. `kind` is a stable class for tables ("503", "reset", "no_done", "error_object")."""

    kind: str
    message: str
    phase: ErrorPhase | None = None
    reused_connection: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Written before a request is sent, so that one that never ends is known as lost."""

    id: str
    due_ns: int
    slot: Slot
    case: CaseFacts
    body_sha256: str | None = None
    kind: Literal["start"] = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request that ended. Stamps as in the metrics reference; see the module's docstring for units.

    Stamps in order: `due_ns`, `connected_ns` (only where a connection was opened; before `due_ns` for requests that were held
    for a common start), `sent_ns` (just before the first byte of the body is written), `written_ns` (the last byte was handed
    to the kernel), `headers_ns`, `events.at_ns`, `end_ns` (the chunk with finish_reason; without one the last event),
    `closed_ns` (`[DONE]`, end of stream or the error).

    Attributes:
        id: of the request; sent as `X-Request-Id`.
        due_ns: when it should be sent: the planned time (open loop), or the moment the user asked (later in a user's row: the
            end of its last answer).
        stamp_source: `kernel` receive stamps, or the time right after each `read`.
        transport: `ordinary` for TLS, proxies and HTTP/2, which hide when bytes arrived.
        streamed: whether the answer was.
        usage: as the server reported it.
        events: the chunks that carried tokens.
        answer, reasoning, tool_calls: assembled from all chunks; texts are `None` under `--no-text`.
        answer_sha256: of the answer, also where its text is not kept.
        body_sha256: of the bytes that were sent.
        response_id: the server's id for it, as its log has it.
        server_metrics: timings of the request as the server told them, where it does (vLLM's per-request metrics).
    """

    id: str
    slot: Slot
    case: CaseFacts
    outcome: Outcome
    due_ns: int
    sent_ns: int | None = None
    connected_ns: int | None = None
    written_ns: int | None = None
    headers_ns: int | None = None
    end_ns: int | None = None
    closed_ns: int | None = None
    events: Events = Events()
    stamp_source: Literal["kernel", "read"] = "read"
    transport: Literal["measuring", "ordinary"] = "measuring"
    streamed: bool = True
    http_status: int | None = None
    failure: Failure | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    answer: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    answer_sha256: str | None = None
    body_sha256: str | None = None
    response_id: str | None = None
    system_fingerprint: str | None = None
    server_metrics: JSON | None = None
    kind: Literal["record"] = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerVerdict:
    """What a check found in the answer of request `id`. `detail` says why in a few words; `tags` are facts for tables."""

    id: str
    check: str
    answer: Answer
    detail: str = ""
    tags: JSON = field(default_factory=dict)
    kind: Literal["check"] = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Once a second from the engine: its own lateness is part of what makes figures believable.

    `loop_late_max_ns` is the worst of the 50 ms probes since the last heartbeat; `cpu_ns` counts from process start.
    `tokens_total` is the output tokens of the run so far, those of unfinished answers included; `None` where the server does
    not tell running counts.
    """

    at_ns: int
    in_flight: int
    cpu_ns: int
    loop_late_max_ns: int
    rss_bytes: int
    tokens_total: int | None = None
    worker: str = ""
    kind: Literal["heartbeat"] = "heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorLine:
    """`clock.Anchor` of one process, with the offset of its clock to the run's clock where it is another host.

    `offset_ns` is (run clock − this clock), found by round trips to ± `offset_error_ns`; 0 ± 0 on the same host.
    """

    worker: str
    pid: int
    boot_id: str
    monotonic_ns: int
    wall_ns: int
    error_ns: int
    offset_ns: int = 0
    offset_error_ns: int = 0
    kind: Literal["anchor"] = "anchor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look of the sidecar at one source; written to `samples.jsonl`.

    `source` is one of host, kernel, container, cgroup, gpu, server, services, guard, recorder. `data` holds the figures under
    names with units (`sidecar.samples` documents them); a key that is absent is unknown. `missing` says why a source could not
    be read at all.
    """

    source: str
    monotonic_ns: int
    wall_ns: int
    boot_id: str
    data: JSON = field(default_factory=dict)
    missing: str | None = None
    kind: Literal["sample"] = "sample"


Line = Start | Record | AnswerVerdict | Heartbeat | AnchorLine | Sample

KINDS: dict[str, type[Any]] = {
    "start": Start,
    "record": Record,
    "check": AnswerVerdict,
    "heartbeat": Heartbeat,
    "anchor": AnchorLine,
    "sample": Sample,
}


def to_line(line: Line) -> bytes:
    """One JSON line, newline included."""
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def from_line(raw: bytes) -> Line | None:
    """A line read back; `None` for a kind that this version does not know.

    Raises:
        ValueError: the line is no JSON object of a known shape (a crash cut it short, for example).
    """
    data = orjson.loads(raw)
    if not isinstance(data, dict):
        raise ValueError("a line of a run folder is a JSON object")
    kind = KINDS.get(str(data.get("kind")))
    if kind is None:
        return None
    line: Line = _adapters()[kind].validate_python(data)
    if isinstance(line, Sample) and (odd := _no_figures(line.data)):
        raise ValueError(f"no numbers: {', '.join(odd)}")
    return line


_FIGURE = re.compile(
    r".+_(bytes|kb|tokens|percent|ns|us|s|w|c|mhz)|oom|oom_kill|running|waiting|kv_usage|preemptions|load1|restart_count"
)
"""Keys of samples that hold a number (or none, where it is unknown): those with a unit in their name, and these."""


def _no_figures(data: JSON) -> list[str]:
    return [key for key, value in data.items() if _FIGURE.fullmatch(key) and not isinstance(value, int | float | None)]


@cache
def _adapters() -> dict[type[Any], Any]:
    """Pydantic reads a dataclass back with its nested types; keys that a newer version added are ignored."""
    from pydantic import TypeAdapter  # imported on first reading: writers (the engine) never pay for it

    return {kind: TypeAdapter(kind) for kind in KINDS.values()}
