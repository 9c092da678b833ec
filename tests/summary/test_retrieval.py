"""Retrieval: the grid, effective context, and whether prefix reuse changes answers."""

import pytest

from loadkit.record import Answer, Outcome, Usage
from loadkit.summary import summarise
from recorded import case, record, run, verdict_on, watched

DEPTHS = (0.05, 0.5, 0.95)


def asked(tier, number, *, right=True, planned=10, cache="cold", pair=None, **changes):
    tags = {"depth": DEPTHS[number % 3]} | ({"pair": pair} if pair else {})
    facts = case(scenario="retrieval", workload="quality", tier=tier, planned_prompt_tokens=planned, cache=cache, tags=tags)
    changes.setdefault("finish_reason", "stop")
    made = record(f"{tier}-{number}-{cache}", facts=facts, **changes)
    return made, verdict_on(made.id, Answer.CORRECT if right else Answer.WRONG)


def summary_of(pairs, *, samples=()):
    records, checks = zip(*pairs, strict=True)
    return summarise(run(records, checks=checks, samples=samples), selftest=None)


def ladder(**wrong):
    """Twelve questions at each of four lengths; `wrong` says how many are answered wrongly."""
    return [asked(tier, n, right=n >= wrong.get(f"at_{tier}", 0)) for tier in ("8K", "32K", "64K", "128K") for n in range(12)]


def test_the_grid_counts_right_answers_by_length_and_depth():
    """Lengths in their order, not in that of the alphabet."""
    cells = summary_of(ladder(at_32K=1)).cells
    assert [cell.tier for cell in cells[::3]] == ["8K", "32K", "64K", "128K"]
    assert [(cell.correct, cell.checked) for cell in cells[3:6]] == [(3, 4), (4, 4), (4, 4)]


@pytest.mark.parametrize(
    ("wrong", "quality"),
    [({}, "128K"), ({"at_64K": 1}, "128K"), ({"at_64K": 2}, "32K"), ({"at_32K": 6}, "8K"), ({"at_8K": 3, "at_32K": 4}, "128K")],
)
def test_quality_effective_is_the_last_unbroken_length(wrong, quality):
    """At least 85 % of the base score, at it and at every shorter length; the shortest is the base where nothing is short."""
    assert summary_of(ladder(**wrong)).contexts[0].quality == quality


def test_short_questions_are_the_base_where_there_are_any():
    """Half of them right: half is enough further up."""
    answers = (("s0", Answer.CORRECT), ("s1", Answer.WRONG))
    quick = case(workload="quality")
    short = [(record(id_, facts=quick, finish_reason="stop"), verdict_on(id_, answer)) for id_, answer in answers]
    context = summary_of([*short, *ladder(at_64K=6)]).contexts[0]
    assert (context.base, context.base_of, context.quality) == (0.5, "short", "128K")


def test_capacity_is_printed_apart_from_quality():
    """A request that did not complete, or of another length than planned, ends the capacity and not the quality of others."""
    cut = [pair for pair in ladder() if pair[0].id != "64K-3-cold"]
    failed = asked("64K", 3, outcome=Outcome.TIMEOUT, events=())[0]
    context = summary_of([*cut, (failed, verdict_on(failed.id, Answer.NO_ANSWER))], samples=watched(-1000, 1000)).contexts[0]
    assert (context.quality, context.capacity, context.capacity_unverified) == ("128K", "32K", False)


@pytest.mark.parametrize(("stopped", "claimed"), [("128K", "64K"), ("8K", None)])
def test_a_length_that_this_side_stopped_proves_nothing(stopped, claimed):
    """Ctrl-C within it: neither a failure nor a claim, and a shorter length without answers is no base."""
    rest = [pair for pair in ladder() if pair[0].case.tier != stopped]
    cut = [asked(stopped, n, outcome=Outcome.CANCELLED, events=()) for n in range(12)]
    context = summary_of([*rest, *cut], samples=watched(-1000, 1000)).contexts[0]
    (rung,) = [rung for rung in context.rungs if rung.tier == stopped]
    assert (rung.checked, rung.quality, rung.capacity) == (0, None, None)
    assert (context.quality, context.capacity) == (claimed, claimed)


def test_right_answers_on_an_unstable_host_have_no_capacity():
    """The eager run of the earlier experiment: everything right, and the host out of memory."""
    samples = [*watched(-1000, 100, step=100), *watched(200, 1000, step=100, oom_kill=9)]
    context = summary_of(ladder(), samples=samples).contexts[0]
    assert (context.quality, context.capacity) == ("128K", None)


def test_without_a_host_capacity_is_unverified():
    """Missing evidence is never a pass."""
    assert summary_of(ladder()).contexts[0].capacity_unverified


@pytest.mark.parametrize(("warm", "same"), [("ANSWER: A", 1), ("ANSWER: B", 0)])
def test_answers_asked_cold_and_warm_are_compared(warm, same):
    """Prefix reuse must not change an answer at temperature 0."""
    usage = Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=8)
    pairs = [asked("8K", 0, pair="p", answer="ANSWER: A"), asked("8K", 0, pair="p", cache="warm", answer=warm, usage=usage)]
    assert summary_of(pairs).pairs == (same, 1)
