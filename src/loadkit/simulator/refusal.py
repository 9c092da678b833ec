"""`Refusal`: an error with vLLM's body, and the ones that have a name here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from pydantic import ValidationError

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
MOST_REPORTED = 10
INTERNAL_MARKERS = frozenset(("str", "int", "float", "bool", "list", "dict", "none", "union", "nullable", "default"))


class Refusal(Exception):  # it is an answer of the server, not an error of ours
    """What the client gets instead of an answer: `{"error": {message, type, param, code}}`."""

    def __init__(self, message: str, *, kind: str = "BadRequestError", param: str | None = None, status: int = 400):
        super().__init__(message)
        self.message, self.kind, self.param, self.status = message, kind, param, status

    @classmethod
    def of(cls, message: str, param: str, value: object = None) -> Refusal:
        """A BadRequestError about one parameter; vLLM appends its name and value to the sentence."""
        shown = f"parameter={param}" if value is None else f"parameter={param}, value={value}"
        return cls(f"{message} ({shown})", param=param)

    def body(self) -> bytes:
        return orjson.dumps({"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}})


def busy() -> Refusal:
    """--max-num-queued-reqs is reached."""
    return Refusal(
        "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
        kind="Service Unavailable",
        status=503,
    )


def backlog_full() -> Refusal:
    """--max-num-queued-tokens is reached."""
    return Refusal(
        "The engine has reached its prefill token backlog limit. Please try again later or on a different instance.",
        kind="Service Unavailable",
        status=503,
    )


def engine_dead() -> Refusal:
    """The engine core is gone."""
    return Refusal(ENGINE_DEAD, kind="InternalServerError", status=500)


def unknown_model(name: str, served: str) -> Refusal:
    """Another model was asked for than is served."""
    message = f"The model `{name}` does not exist. Valid aliases: {served}."
    return Refusal(message, kind="NotFoundError", param="model", status=404)


def too_long(limit: int, prompt_tokens: int) -> Refusal:
    """vLLM stops counting one token after the limit, so that is the number it reports."""
    counted = min(prompt_tokens, limit + 1)
    return Refusal.of(
        f"This model's maximum context length is {limit} tokens. However, your prompt contains at least {counted} input "
        "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
        "input_tokens",
        counted,
    )


def over_budget(limit: int, prompt_tokens: int, max_tokens: int) -> Refusal:
    """What vLLM up to 0.29 answered where 0.32 clamps max_tokens in silence."""
    return Refusal.of(
        f"This model's maximum context length is {limit} tokens. However, you requested {max_tokens} output tokens and your "
        f"prompt contains at least {prompt_tokens} input tokens, for a total of at least {prompt_tokens + max_tokens} tokens. "
        "Please reduce the length of the input prompt or the number of requested output tokens.",
        "input_tokens",
        prompt_tokens,
    )


def invalid(errors: Iterable[dict[str, Any] | str]) -> Refusal:
    """FastAPI's validation errors in the form that vLLM's handler gives them (type "Bad Request", with a space)."""
    listed = list(errors)
    label = "validation error" if len(listed) == 1 else "validation errors"
    lines = "".join(f"  {_shown(error)}\n" for error in listed[:MOST_REPORTED])
    rest = len(listed) - MOST_REPORTED
    more = f"  ...and {rest} more {label}\n" if rest > 0 else ""
    first = listed[0]
    param = _place(first["loc"]) if isinstance(first, dict) else None
    return Refusal(f"{len(listed)} {label}:\n{lines}{more}".rstrip(), kind="Bad Request", param=param)


def from_pydantic(problem: ValidationError) -> Refusal:
    """Fields of the wrong type."""
    errors = []
    for error in problem.errors(include_url=False):
        facts: dict[str, Any] = {
            "type": error["type"],
            "loc": ("body", *error["loc"]),
            "msg": error["msg"],
            "input": error["input"],
        }
        if "ctx" in error:
            facts["ctx"] = error["ctx"]
        errors.append(facts)
    return invalid(errors)


def bad_json(raw: bytes) -> Refusal:
    """Python's own decoder says where: vLLM's front end uses it too."""
    import json

    if not raw:
        return invalid([{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}])
    try:
        json.loads(raw)
    except json.JSONDecodeError as problem:
        at = ("body", problem.pos)
        return invalid(
            [{"type": "json_invalid", "loc": at, "msg": "JSON decode error", "input": {}, "ctx": {"error": problem.msg}}]
        )
    except UnicodeDecodeError as problem:
        return Refusal(f"There was an error parsing the body: {problem.reason}")
    return invalid(
        [{"type": "model_attributes_type", "loc": ("body",), "msg": "Input should be a valid dictionary", "input": ""}]
    )


def _shown(error: dict[str, Any] | str) -> str:
    if isinstance(error, str):
        return error
    value = error["input"]
    shown = f"<{type(value).__name__} of {len(value)} items>" if isinstance(value, dict | list) else str(value)
    cut = shown if len(shown) <= 200 else shown[:200] + "...[truncated]"
    return str({**error, "loc": _place(error["loc"]), "input": cut})


def _place(loc: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in loc if str(part).lower() not in INTERNAL_MARKERS and "[" not in str(part))
