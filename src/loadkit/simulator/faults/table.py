"""The faults by name, with their parameters; the reference page is generated from this table.

A fault is written `name` or `name:key=value,key=value`, for example `cut:after=5,rate=0.1`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from loadkit.errors import UsageError

Value = float | str


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault that exists. `parameters` holds the defaults; a number stays a number, anything else is text."""

    sentence: str
    parameters: dict[str, Value] = field(default_factory=dict)
    scope: str = "request"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was asked for, with all its parameters."""

    name: str
    parameters: dict[str, Value]

    def number(self, key: str) -> float:
        return float(self.parameters[key])

    def count(self, key: str) -> int:
        return int(float(self.parameters[key]))

    def text(self, key: str) -> str:
        return str(self.parameters[key])

    def __str__(self) -> str:
        shown = ",".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in self.parameters.items()
        )
        return f"{self.name}:{shown}" if shown else self.name


COMMON: dict[str, tuple[Value, str]] = {
    "rate": (1.0, "share of requests that get it, 0 to 1"),
    "skip": (0.0, "requests that are spared before the first one"),
    "first": (0.0, "how many requests get it; 0 is no limit"),
    "path": ("generate", "a path such as /metrics, or `generate` for the routes that generate"),
}
"""Parameters that every fault on the command line or in a file has (a request header applies to its own request)."""

KINDS: dict[str, Kind] = {
    "role-first": Kind("the role chunk goes out with the headers, before the prefill, as some servers do"),
    "reasoning-only": Kind("the whole output is thinking; no answer follows"),
    "reasoning-field": Kind("thinking under another name: `old` is reasoning_content, `both` sends it twice", {"name": "both"}),
    "tool-only": Kind("the answer is a tool call and nothing else, without thinking"),
    "empty": Kind("the model ends at once: no visible token, one token in usage"),
    "no-usage": Kind("no usage at all, although it was asked for"),
    "no-running-usage": Kind("continuous_usage_stats is ignored; usage comes at the end only"),
    "no-finish": Kind("no chunk ever carries a finish_reason"),
    "no-done": Kind("`[DONE]` is missing; the stream ends properly otherwise"),
    "miscount": Kind("usage is off by so many tokens", {"completion": 3.0, "prompt": 0.0}),
    "error-object": Kind("after so many token events an error object, then `[DONE]`; status 200", {"after": 5.0}),
    "cut": Kind("after so many token events the connection ends without the rest", {"after": 5.0}),
    "reset": Kind("after so many token events the connection is reset (RST)", {"after": 5.0}),
    "stall": Kind("after so many token events nothing for a while, then all that was held back", {"after": 5.0, "s": 3.0}),
    "slow-first-byte": Kind("the response's first byte comes late", {"s": 2.0}),
    "slow-accept": Kind("a new connection is not read for a while", {"s": 1.0}, scope="connection"),
    "stale-keep-alive": Kind("the next request on the connection finds it closed before a byte of response"),
    "early-close": Kind("the connection is closed right after the response, although keep-alive was announced"),
    "split-utf8": Kind("events are cut inside a character of several bytes; the rest comes later", {"ms": 2.0}),
    "u2028": Kind("U+2028, U+2029 and U+0085 stand unescaped in the JSON of each token event"),
    "crlf": Kind("lines end in CR LF (`ending=crlf`) or in CR alone (`ending=cr`)", {"ending": "crlf"}),
    "comments": Kind("a comment, an `event:` and an `id:` line before each event"),
    "multi-line-data": Kind("the JSON of an event is spread over several `data:` lines"),
    "one-in-many": Kind("each event comes in packets of so many bytes", {"size": 40.0, "ms": 0.5}),
    "many-in-one": Kind("so many events come in one packet", {"events": 5.0}),
    "huge-line": Kind("one token event has a line of so many bytes", {"bytes": 1_000_000.0}),
    "garbage": Kind("one event is no JSON", {"after": 5.0}),
    "status": Kind("rejected with an HTTP status and an error body (bursts: use `first` and `skip`)", {"code": 503.0}),
    "html": Kind("an HTML error page, as proxies send it", {"code": 502.0}),
    "content-type": Kind("the stream is labelled as something else", {"type": "text/plain"}),
    "gzip": Kind("the body is gzip-encoded, although nobody asked for it"),
    "engine-death": Kind(
        "after so many token events the engine dies: an error object in every stream, /health 503, new requests 500; after a "
        "while connections are refused",
        {"after": 5.0, "s": 1.0},
        scope="server",
    ),
}  # fmt: skip


def parse(text: str, *, where: str = "--fault", common: bool = True) -> Fault:
    """A fault as it is written.

    Raises:
        UsageError: an unknown fault or parameter, or a value that is no number where one is needed.
    """
    name, _, rest = text.strip().partition(":")
    kind = KINDS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, KINDS, 1)
        remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(KINDS)}"
        raise UsageError(f"there is no fault {name!r}", where=where, remedy=remedy)
    parameters: dict[str, Value] = dict(kind.parameters)
    if common:
        parameters |= {key: default for key, (default, _) in COMMON.items()}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in parameters:
            raise UsageError(
                f"{name} has no parameter {key!r}", where=where, remedy=f"it has {', '.join(parameters) or 'none'}"
            )
        parameters[key] = _read(parameters[key], value, f"{name}:{key}", where)
    return Fault(name, parameters)


def _read(default: Value, value: str, key: str, where: str) -> Value:
    if isinstance(default, str):
        return value
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{value!r} is no number", where=where, key=key, remedy="give a number such as 3 or 0.5") from None
