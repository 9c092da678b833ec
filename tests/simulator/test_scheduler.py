"""The scheduler and its blocks, without a clock."""

import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.simulator.blocks import BlockPool, block_hashes
from loadkit.simulator.scheduler import Scheduler
from loadkit.simulator.script import Script
from loadkit.simulator.sequence import Output, Sequence
from loadkit.simulator.speed import PRESETS, seconds_per_token, step_ns

SIZE = 4


class Nowhere:
    """A sink that swallows everything."""

    def prepare(self, output: Output) -> None: ...

    def deliver(self) -> None: ...

    def fail(self, message: str) -> None: ...


def sequence(tokens: list[int], *, output: int = 5, salt: str | None = None) -> Sequence:
    prompt = array("I", tokens)
    script = Script(tokens=list(range(1000, 1000 + output + 8)), kinds=["a"] * (output + 8), pieces=["x"] * (output + 8))
    return Sequence(
        id="s", prompt=prompt, hashes=block_hashes(prompt, SIZE, salt), salt=salt, script=script, sink=Nowhere(),
        max_tokens=output, asked_max_tokens=output, random=random.Random(0),
    )  # fmt: skip


def advance(scheduler: Scheduler) -> list[tuple[Sequence, int]]:
    """One step, committed as the engine does it; (sequence, new tokens) of each share."""
    step = scheduler.next_step()
    for share in step.shares:
        share.sequence.computed = share.before + share.new
    for share in step.shares:
        if share.samples:
            share.sequence.made += 1
            share.sequence.computed = share.sequence.length - 1
            if share.sequence.made == share.sequence.max_tokens:
                scheduler.remove(share.sequence)
    return [(share.sequence, share.new) for share in step.shares]


def test_long_prompts_are_prefilled_in_chunks_beside_decodes():
    """A step's budget goes to running sequences first; what is left is a chunk of the long prompt."""
    scheduler = Scheduler(BlockPool(100, SIZE), max_seqs=4, max_batched=10)
    short, long = sequence([1, 2, 3]), sequence(list(range(100, 125)))
    scheduler.add(short)
    advance(scheduler)
    scheduler.add(long)
    assert advance(scheduler) == [(short, 1), (long, 9)]
    assert advance(scheduler) == [(short, 1), (long, 9)]
    assert advance(scheduler) == [(short, 1), (long, 7)]
    assert long.made == 1


def test_no_more_sequences_run_than_allowed():
    """The rest waits, and is admitted when one ends."""
    scheduler = Scheduler(BlockPool(100, SIZE), max_seqs=2, max_batched=100)
    for start in (0, 100, 200):
        scheduler.add(sequence([start + place for place in range(5)], output=2))
    advance(scheduler)
    assert (len(scheduler.running), len(scheduler.waiting)) == (2, 1)
    advance(scheduler)
    advance(scheduler)
    assert len(scheduler.waiting) == 0


def test_out_of_blocks_the_last_one_is_preempted_and_computed_again():
    """The sequence admitted last loses its blocks, goes to the head of the queue, and still ends with all its tokens."""
    scheduler = Scheduler(BlockPool(5, SIZE), max_seqs=4, max_batched=100)
    first, last = sequence(list(range(7)), output=9), sequence(list(range(50, 57)), output=9)
    scheduler.add(first)
    scheduler.add(last)
    for _ in range(60):
        advance(scheduler)
    assert (first.preemptions, last.preemptions > 0) == (0, True)
    assert (first.made, last.made) == (9, 9)
    assert scheduler.pool.free == 5


def test_a_hit_is_all_but_the_last_token_in_whole_blocks():
    """A prompt of exactly three blocks hits two of them; queries count the whole prompt."""
    scheduler = Scheduler(BlockPool(100, SIZE), max_seqs=4, max_batched=100)
    tokens = list(range(12))
    scheduler.add(sequence(tokens, output=1))
    advance(scheduler)
    scheduler.add(sequence(tokens, output=1))
    step = scheduler.next_step()
    assert (step.queried_tokens, step.hit_tokens, step.shares[0].new) == (12, 8, 4)


def test_a_draft_model_costs_a_block_of_each_hit():
    """Under MTP or EAGLE the last cached block is computed again."""
    scheduler = Scheduler(BlockPool(100, SIZE), max_seqs=4, max_batched=100, drafts=1, drop_block=True)
    tokens = list(range(13))
    scheduler.add(sequence(tokens, output=1))
    advance(scheduler)
    scheduler.add(sequence(tokens, output=1))
    assert scheduler.next_step().hit_tokens == 8


def test_a_follow_up_hits_the_answer_too():
    """Blocks that filled up while decoding are found by a prompt that goes on where the answer ended."""
    scheduler = Scheduler(BlockPool(100, SIZE), max_seqs=4, max_batched=100)
    first = sequence(list(range(6)), output=7)
    scheduler.add(first)
    while scheduler.running or scheduler.waiting:
        advance(scheduler)
    scheduler.add(sequence([*range(6), *range(1000, 1006), 7, 7], output=1))
    assert scheduler.next_step().hit_tokens == 12


def test_salts_keep_prefixes_apart():
    """The same tokens under another salt share nothing."""
    tokens = array("I", range(20))
    assert set(block_hashes(tokens, SIZE, "a")) & set(block_hashes(tokens, SIZE, "b")) == set()


def test_the_least_recently_used_prefix_is_evicted_from_its_end():
    """Where room is needed, the end of the oldest prefix goes before its start."""
    pool = BlockPool(4, SIZE)
    for start in (0, 100):
        blocks = pool.take(2)
        for block, value in zip(blocks, (start, start + 1), strict=True):
            pool.remember(block, value)
        pool.release(blocks)
    pool.take(1)
    assert [len(pool.find([start, start + 1])) for start in (0, 100)] == [1, 2]


def test_a_cache_in_use_is_not_reset():
    """reset() does nothing while blocks are held, and forgets everything otherwise."""
    pool = BlockPool(4, SIZE)
    blocks = pool.take(1)
    pool.remember(blocks[0], 7)
    assert not pool.reset()
    pool.release(blocks)
    assert pool.reset()
    assert pool.find([7]) == []
    assert pool.free == 4


@settings(max_examples=60, deadline=None)
@given(
    prompts=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(0, 2)), min_size=1, max_size=12),
    capacity=st.integers(12, 40),
    seqs=st.integers(1, 5),
    budget=st.integers(1, 40),
)
def test_every_sequence_ends_and_every_block_comes_back(
    prompts: list[tuple[int, int, int]], capacity: int, seqs: int, budget: int
):
    """Whatever is asked for: no deadlock, all output made, no block lost, no step over its budget."""
    scheduler = Scheduler(BlockPool(capacity, SIZE), max_seqs=seqs, max_batched=budget)
    asked = [sequence([family * 100 + place for place in range(length)], output=output) for length, output, family in prompts]
    for each in asked:
        scheduler.add(each)
    for _ in range(5000):
        if not scheduler.running and not scheduler.waiting:
            break
        assert sum(new for _, new in advance(scheduler)) <= budget
    assert [each.made for each in asked] == [each.max_tokens for each in asked]
    assert scheduler.pool.free == capacity


MEASURED = [("spark", 1, 30.0), ("spark", 2, 43.2), ("spark", 4, 67.5),
            ("spark-graph", 1, 31.4), ("spark-graph", 2, 47.4), ("spark-graph", 4, 71.8)]  # fmt: skip


@pytest.mark.parametrize(("preset", "ways", "expected"), MEASURED)
def test_presets_have_the_throughput_of_the_earlier_experiments(preset: str, ways: int, expected: float):
    """512 tokens at 1, 2 and 4 ways end at the measured total rate, within 4 %, time to first token included."""
    speed = PRESETS[preset].speed
    first_s = step_ns(speed, decoding=0, prefill_tokens=60, context_tokens=0, tokens_per_step=1.0) / 1e9
    total_s = first_s + 511 * seconds_per_token(speed.streams, ways)
    assert 512 * ways / total_s == pytest.approx(expected, rel=0.04)


@pytest.mark.parametrize(
    ("tokens", "cached", "seconds"), [(65_509, 0, 31.0), (131_040, 0, 64.0), (65_509, 62_400, 1.64), (131_040, 128_000, 1.77)]
)
def test_long_prompts_take_as_long_as_they_did(tokens: int, cached: int, seconds: float):
    """First and repeated reads of 64K and 128K take what was measured, within 10 %."""
    speed, done, total = PRESETS["spark"].speed, cached, 0.0
    while done < tokens:
        new = min(8192, tokens - done)
        total += step_ns(speed, decoding=0, prefill_tokens=new, context_tokens=done, tokens_per_step=1.0) / 1e9
        done += new
    assert total == pytest.approx(seconds, rel=0.10)
