"""What the next step of the engine computes: continuous batching as in vLLM v1's scheduler.

Running sequences come first, then waiting ones while there is room; a step's budget is max_num_batched_tokens, so a long
prompt is prefilled in chunks beside the decodes that it delays. When blocks run out the last admitted sequence is preempted:
its blocks are freed, it goes back to the head of the queue and is computed again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from loadkit.simulator.blocks import BlockPool, next_hash
from loadkit.simulator.sequence import Sequence


class Share(NamedTuple):
    """A sequence's share of a step: `new` tokens computed after `before`; `samples` if it then has an output token."""

    sequence: Sequence
    before: int
    new: int
    prefill: bool
    samples: bool


@dataclass(slots=True)
class Step:
    """One step; `preempted`, `queried` and `hit` are what its scheduling did (counted when it is scheduled)."""

    shares: list[Share] = field(default_factory=list)
    preempted: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0

    @property
    def prefill_tokens(self) -> int:
        return sum(share.new for share in self.shares if share.prefill)

    @property
    def context_tokens(self) -> int:
        return sum(share.before for share in self.shares if share.prefill)


class Scheduler:
    """Queues, blocks and the rule that makes steps of them. No clock, no I/O."""

    def __init__(self, pool: BlockPool, *, max_seqs: int, max_batched: int, drafts: int = 0, drop_block: bool = False):
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._max_seqs = max_seqs
        self._max_batched = max_batched
        self._drafts = drafts
        self._drop_block = drop_block

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """A sequence finished or was aborted: out of its queue, blocks freed."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self.pool.release(sequence.blocks)
        sequence.blocks = []

    def next_step(self) -> Step:
        """The next step; without shares there is nothing to compute."""
        step = Step()
        left = self._continue(step, self._max_batched)
        if not step.preempted:
            self._admit(step, left)
        return step

    def _continue(self, step: Step, left: int) -> int:
        index, size, drafts = 0, self.pool.block_size, self._drafts
        while index < len(self.running) and left > 0:
            sequence = self.running[index]
            before, length = sequence.computed, sequence.length
            decoding = sequence.made > 0 and before >= length - 1
            new = min(length - before + drafts if decoding else length - before, left)
            if before + new > len(sequence.blocks) * size and not self._room(sequence, before + new, step):
                break
            after = before + new
            step.shares.append(Share(sequence, before, new, not decoding, after >= length))
            if after // size > sequence.remembered:
                self._remember(sequence, min(after, length))
            left -= new
            index += 1
        return left

    def _room(self, sequence: Sequence, tokens: int, step: Step) -> bool:
        """Blocks for `tokens` tokens, preempting from the end; False when the sequence itself had to go."""
        missing = -(-tokens // self.pool.block_size) - len(sequence.blocks)
        while missing > self.pool.free:
            last = self.running.pop()
            self.pool.release(last.blocks)
            last.blocks, last.computed = [], 0
            last.preemptions += 1
            step.preempted += 1
            step.shares = [share for share in step.shares if share.sequence is not last]
            self.waiting.appendleft(last)
            if last is sequence:
                return False
        if missing > 0:
            sequence.blocks += self.pool.take(missing)
        return True

    def _admit(self, step: Step, left: int) -> None:
        while self.waiting and left > 0 and len(self.running) < self._max_seqs:
            sequence = self.waiting[0]
            found = self._cached(sequence)
            hit = len(found) * self.pool.block_size
            new = min(sequence.length - hit, left)
            missing = -(-(hit + new) // self.pool.block_size) - len(found)
            if missing > self.pool.free - self.pool.idle_among(found):
                return
            self.waiting.popleft()
            self.running.append(sequence)
            self.pool.reuse(found)
            sequence.blocks = found + self.pool.take(missing)
            sequence.computed = hit
            if not sequence.queried:  # vLLM counts a preempted request's second look apart, not in these counters
                sequence.queried, sequence.cached = True, hit
                if self.pool.caching:
                    sequence.created = max(0, len(sequence.prompt) // self.pool.block_size * self.pool.block_size - hit)
                step.queried_tokens += len(sequence.prompt)
                step.hit_tokens += hit
            step.shares.append(Share(sequence, hit, new, True, hit + new >= sequence.length))
            sequence.remembered = len(found)
            self._remember(sequence, hit + new)
            left -= new

    def _cached(self, sequence: Sequence) -> list[int]:
        """Cached blocks of a sequence's start: at most all but its last token, and one block less under MTP or EAGLE."""
        if not self.pool.caching:
            return []
        found = self.pool.find(sequence.hashes[: (sequence.length - 1) // self.pool.block_size])
        return found[:-1] if self._drop_block and found else found

    def _remember(self, sequence: Sequence, upto: int) -> None:
        """Full blocks of the first `upto` tokens can be found by others, as in vLLM from the moment the step is scheduled."""
        size = self.pool.block_size
        for index in range(sequence.remembered, upto // size):
            if index >= len(sequence.hashes):
                previous = sequence.hashes[-1] if sequence.hashes else hash(("salt", sequence.salt))
                tokens = sequence.tokens_between(index * size, (index + 1) * size)
                sequence.hashes.append(next_hash(previous, memoryview(tokens).cast("B")))
            self.pool.remember(sequence.blocks[index], sequence.hashes[index])
        sequence.remembered = max(sequence.remembered, upto // size)
