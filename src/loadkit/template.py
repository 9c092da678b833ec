"""The unvarying bytes around the text of a stream's chunks: what lets a chunk be read without parsing all of it.

The chunks of one answer differ in a piece of text and, where running usage was asked for, in its numbers; all else (id, model,
time of creation, nulls) is the same bytes again and again. Once a chunk has been parsed, those after it are recognised by
comparing these bytes.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

Template = tuple[bytes, int, bytes, int, bytes | None, str]
"""`head, start, middle, stop, tail, kind`: an event is `head`, a text without escapes, `middle` and, with running usage, an
object and `tail`; without it `tail` is `None`.

`head` begins with ``data: `` and ends with the quotation mark before the text, `middle` begins with the one after it, and the
last of them ends with the blank line. The text begins at `start`; the last constant part begins at `stop`, counted from the end
and so negative. `kind` is what the text is (`stream.Token`). A plain tuple, because a named one is slow to take apart.
"""

BEFORE, AFTER = b"data: ", b"\n\n"
PROBE_TEXT = "loadkit"
PROBE_USAGE = {"loadkit": 1}
_object_at_start = json.JSONDecoder().raw_decode


def without_escapes(text: str) -> bool:
    """Whether JSON writes this text as it is, whoever wrote it: nothing in it has to be escaped, and nobody would."""
    return text.isprintable() and '"' not in text and "\\" not in text


def learned(payload: bytes, chunk: dict[str, Any], name: str, piece: str, kind: str) -> Template | None:
    """The template of a chunk whose one delta has `piece` in the field `name` and nothing else; `None` where it can't be told.

    That the bytes found are the delta's text and nothing else is proved: with other bytes in their place the chunk must be the
    same but for text and usage.
    """
    key, quoted = b'"%s":' % name.encode(), b'"%s"' % piece.encode("utf-8", "replace")
    begin = payload.find(quoted, payload.find(key) + len(key))
    if begin < 0 or b"\r" in payload or b"\n" in payload:
        return None
    head, middle, tail = payload[: begin + 1], payload[begin + len(quoted) - 1 :], None
    if isinstance(chunk.get("usage"), dict):
        found = _around_usage(middle)
        if found is None:
            return None
        middle, tail = found
    if not _proved(head, middle, tail, chunk, name, piece):
        return None
    head = BEFORE + head
    if tail is None:
        middle += AFTER
        return head, len(head), middle, -len(middle), None, kind
    tail += AFTER
    return head, len(head), middle, -len(tail), tail, kind


def _around_usage(rest: bytes) -> tuple[bytes, bytes] | None:
    before, key, after = rest.partition(b'"usage":')
    try:
        text = after.decode()
        _, end = _object_at_start(text, len(text) - len(text.lstrip(" ")))
    except ValueError:
        return None
    return before + key, text[end:].encode()


def _proved(head: bytes, middle: bytes, tail: bytes | None, chunk: dict[str, Any], name: str, piece: str) -> bool:
    usage = b"" if tail is None else orjson.dumps(PROBE_USAGE) + tail
    try:
        other = orjson.loads(b"".join((head, PROBE_TEXT.encode(), middle, usage)))
        delta = other["choices"][0]["delta"]
        if delta[name] != PROBE_TEXT or (tail is not None and other["usage"] != PROBE_USAGE):
            return False
    except (ValueError, LookupError, TypeError):
        return False
    delta[name] = piece
    if tail is not None:
        other["usage"] = chunk["usage"]
    return bool(other == chunk)
