"""Bodies that a server or a proxy compresses although nobody asked for it."""

from __future__ import annotations

import zlib


class Unpacking:
    """Unpacks gzip and deflate as it comes; `problem` says what can't be unpacked, and then nothing comes out."""

    __slots__ = ("_inflate", "problem")

    def __init__(self, encoding: str):
        self.problem: str | None = None
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: gzip or zlib, by its header
        if encoding not in ("gzip", "x-gzip", "deflate"):
            self.problem = f"the server encodes with {encoding}, which was not asked for"

    def unpack(self, data: bytes) -> bytes:
        if self.problem is not None:
            return b""
        try:
            return self._inflate.decompress(data)
        except zlib.error as broken:
            self.problem = f"the compressed body is broken: {broken}"
            return b""
