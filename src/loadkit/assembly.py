"""What an answer grows into piece by piece: texts and tool calls."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from loadkit.record import ToolCall

PIECES_KEPT = 512  # text pieces are joined in blocks, or each would cost 60 bytes until the end of a long answer


class Text:
    """Text that grows by pieces; with `keep=False` only its hash grows."""

    __slots__ = ("_blocks", "_hash", "_pieces")

    def __init__(self, *, keep: bool):
        self._pieces: list[str] = []
        self._blocks: list[str] = []
        self._hash = None if keep else hashlib.sha256()

    def add(self, piece: str) -> None:
        pieces = self._pieces
        pieces.append(piece)
        if len(pieces) >= PIECES_KEPT:
            self._settle()

    def text(self) -> str | None:
        """`None` where there was none, or where it was not kept. Lone surrogates become "?": JSON can't carry them."""
        self._settle()
        return "".join(self._blocks).encode("utf-8", "replace").decode() if self._blocks else None

    def sha256(self) -> str:
        self._settle()
        if self._hash is not None:
            return self._hash.hexdigest()
        return hashlib.sha256((self.text() or "").encode()).hexdigest()

    def _settle(self) -> None:
        if not self._pieces:
            return
        block = "".join(self._pieces)
        self._pieces.clear()
        if self._hash is None:
            self._blocks.append(block)
        else:
            self._hash.update(block.encode("utf-8", "replace"))


class Call:
    """A tool call that grows by deltas: the first name and id count, arguments are added up."""

    def __init__(self, *, keep: bool):
        self.identity: str | None = None
        self._name: str | None = None
        self._arguments = Text(keep=keep)

    def add(self, identity: str | None, name: str | None, arguments: Any) -> None:
        self.identity = self.identity or identity
        self._name = self._name or name
        if arguments:
            self._arguments.add(arguments if type(arguments) is str else json.dumps(arguments))

    def fact(self, index: int) -> ToolCall:
        return ToolCall(index=index, id=self.identity, name=self._name, arguments=self._arguments.text() or "")
