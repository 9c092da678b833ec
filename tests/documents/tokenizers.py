"""Three tokenizers that a server might have: the bundled one, Qwen's, and one token a byte."""

import base64
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
import tiktoken

from loadkit.tokens import Count, Prompt

QWEN_RANKS = (
    Path(os.environ.get("LOADKIT_VLLM_DIR", Path.home() / ".cache" / "loadkit-vllm"))
    / "tokenizer/dashscope/resources/qwen.tiktoken"
)
QWEN_SPLIT = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
Encode = Callable[[str], Sequence[int]]


@cache
def qwen() -> Encode:
    """Qwen's ranks and split, as its tokenizer.json has them."""
    if not QWEN_RANKS.exists():
        pytest.skip("no Qwen tokenizer: run scripts/vllm/install.sh")
    pairs = (line.split() for line in QWEN_RANKS.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    encoding = tiktoken.Encoding("qwen", pat_str=QWEN_SPLIT, mergeable_ranks=ranks, special_tokens={})
    return encoding.encode_ordinary


@cache
def bundled() -> Encode:
    """The encoding that comes with the package."""
    from loadkit.encoding import bundled as load

    return load().encode_ordinary


def bytewise() -> Encode:
    """One token a byte."""
    return lambda text: list(text.encode())


NAMED: dict[str, Callable[[], Encode]] = {"bundled": bundled, "qwen": qwen, "bytes": bytewise}


class Chat:
    """A tokenizer behind a ChatML template; counts its calls, and can hide the ids as some servers do."""

    exact = True

    def __init__(self, encode: Encode, *, with_ids: bool = True):
        self.encode = encode
        self.with_ids = with_ids
        self.calls = 0

    async def count(self, prompt: Prompt) -> Count:
        self.calls += 1
        said = "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in prompt.messages)
        ids = self.encode(f"{said}<|im_start|>assistant\n<think>\n")
        return Count(tokens=len(ids), ids=ids if self.with_ids else None)
