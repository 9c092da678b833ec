"""KV blocks with a capacity, and the prefix cache that lives in them.

As in vLLM v1: a full block is known by the chained hash of all tokens before and in it (salted at the start); a block whose
last user is gone stays findable until it is needed again, least recently freed first. Blocks of one sequence are freed from
its end, so that a prefix outlives what follows it.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict


class BlockPool:
    """`capacity` blocks of `block_size` tokens; hashes are Python's own (salted per process), which is all they need to be."""

    def __init__(self, capacity: int, block_size: int, *, caching: bool = True):
        self.capacity = capacity
        self.block_size = block_size
        self.caching = caching
        self._users: dict[int, int] = {}
        self._hash_of: dict[int, int] = {}
        self._block_of: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # cached and unused, least recently freed first
        self._blank = list(range(capacity - 1, -1, -1))

    @property
    def free(self) -> int:
        """Blocks that can be handed out; cached but unused ones count as free, as vLLM's gauge does."""
        return len(self._blank) + len(self._idle)

    @property
    def usage(self) -> float:
        """Share of the capacity in use, 0..1 (vllm:kv_cache_usage_perc)."""
        return 1.0 - self.free / self.capacity

    def find(self, hashes: list[int]) -> list[int]:
        """The longest run of cached blocks from the start of `hashes`; nothing is taken yet."""
        found: list[int] = []
        for value in hashes:
            block = self._block_of.get(value)
            if block is None:
                break
            found.append(block)
        return found

    def idle_among(self, blocks: list[int]) -> int:
        """How many of these cached blocks are unused, so that taking them lowers `free`."""
        return sum(block in self._idle for block in blocks)

    def reuse(self, blocks: list[int]) -> None:
        """Take cached blocks that `find` returned."""
        for block in blocks:
            self._idle.pop(block, None)
            self._users[block] = self._users.get(block, 0) + 1

    def take(self, count: int) -> list[int]:
        """`count` fresh blocks; the caller has checked `free`. Evicts the least recently freed cached ones."""
        taken = []
        for _ in range(count):
            block = self._blank.pop() if self._blank else self._evict()
            self._users[block] = 1
            taken.append(block)
        return taken

    def remember(self, block: int, value: int) -> None:
        """A block is full: others may find it by its hash."""
        if self.caching and value not in self._block_of:
            self._block_of[value] = block
            self._hash_of[block] = value

    def release(self, blocks: list[int]) -> None:
        """A sequence ended or was preempted; its blocks are freed from the end."""
        for block in reversed(blocks):
            left = self._users[block] - 1
            if left:
                self._users[block] = left
                continue
            del self._users[block]
            if block in self._hash_of:
                self._idle[block] = None
            else:
                self._blank.append(block)

    def reset(self) -> bool:
        """Forget every cached prefix; False (and nothing done) while blocks are in use, as vLLM answers."""
        if self._users:
            return False
        for block in self._idle:
            self._blank.append(block)
        self._idle.clear()
        self._hash_of.clear()
        self._block_of.clear()
        return True

    def _evict(self) -> int:
        block, _ = self._idle.popitem(last=False)
        del self._block_of[self._hash_of.pop(block)]
        return block


def block_hashes(tokens: array[int], block_size: int, salt: str | None) -> list[int]:
    """The chained hash of each full block of a token sequence."""
    raw = memoryview(tokens).cast("B")
    width = block_size * tokens.itemsize
    previous = hash(("salt", salt))
    hashes = []
    for end in range(width, len(raw) + 1, width):
        previous = next_hash(previous, raw[end - width : end])
        hashes.append(previous)
    return hashes


def next_hash(previous: int, block: memoryview) -> int:
    """The hash of a block that follows one whose hash is `previous`."""
    return hash((previous, block.tobytes()))
