"""The bundled tokenizer: a byte-level BPE whose ranks come with the package, so that nothing is downloaded.

It estimates (a server's /tokenize is the truth) and it is the simulator's own tokenizer. The ranks are made by
scripts/make_ranks.py; characters a token are near those of real tokenizers in English, code and Chinese.
"""

from __future__ import annotations

from binascii import a2b_base64
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""How text is cut before merging: Qwen's pattern (digits stand alone)."""

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
"""Tokens of their own, as in Qwen's chat format; they follow the ranks in this order."""


@cache
def bundled() -> tiktoken.Encoding:
    """The bundled encoding; made once per process (about 50 ms)."""
    import tiktoken

    ranks = ranks_of(resources.files("loadkit").joinpath("data/ranks.tiktoken").read_bytes())
    special = {name: len(ranks) + index for index, name in enumerate(SPECIAL)}
    return tiktoken.Encoding("loadkit", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)


def ranks_of(lines: bytes) -> dict[bytes, int]:
    """Reads tiktoken's file format: base64 of a token and its rank, one a line."""
    return {a2b_base64(token): int(rank) for token, rank in (line.split() for line in lines.splitlines())}
