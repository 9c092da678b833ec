"""JSON that servers send and orjson refuses, as values that a record can hold."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson

MOST_FLOAT = 1 << 1000


def lenient(payload: bytes) -> Any:
    """What orjson refuses and others send: NaN, lone surrogates, broken UTF-8. `None` where it is no JSON at all."""
    try:
        return _writable(json.loads(payload.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _writable(value: Any) -> Any:
    """The same in what a record can hold: no lone surrogates in texts, no integers of more than 64 bits, no NaN."""
    if type(value) is str:
        return value.encode("utf-8", "replace").decode()
    if type(value) is int:
        return value if -(1 << 63) <= value < 1 << 63 else float(value) if abs(value) < MOST_FLOAT else None
    if type(value) is list:
        return [_writable(one) for one in value]
    if type(value) is dict:
        return {_writable(name): _writable(one) for name, one in value.items()}
    if type(value) is float:
        return value if math.isfinite(value) else None
    return value


def can_be_written(value: Any) -> bool:
    """orjson reads what is nested four times as deep as what it writes."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True
