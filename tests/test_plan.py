"""Plans: what is asked, and in which order."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.case import Case, Turn
from loadkit.plan import Plan, cases_of_comparison, comparison, digest, joined, ladder, sequence, size, stage, users_of
from loadkit.record import CaseFacts, Phase


def cases(count: int) -> list[Case]:
    facts = (CaseFacts(scenario="short", case=f"short-{number}", workload="speed") for number in range(count))
    return [Case(facts=one, turns=(Turn(messages=({"role": "user", "content": one.case},)),)) for one in facts]


def test_the_comparison_of_the_brief_measures_21_requests_after_three_warm_ups():
    """3 × (1 + 2 + 4), and one warm-up for each stage before round 1."""
    plan = comparison(cases(24))
    measured = [item for part in plan.stages if part.phase is Phase.MEASURED for item in part.items]
    assert (size(plan) - len(measured), len(measured)) == (3, 21)
    assert [part.phase for part in plan.stages[:3]] == [Phase.WARMUP] * 3


def test_rounds_are_the_outer_loop():
    """In each round all stages, in the order given."""
    plan = comparison(cases(24))
    assert [(number, ways) for number in (1, 2, 3) for ways in (1, 2, 4)] == [(s.round, s.ways) for s in plan.stages[3:]]


@given(
    ways=st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
    rounds=st.integers(1, 4),
    k=st.integers(1, 3),
    warm_up=st.booleans(),
)
def test_each_request_of_a_comparison_is_a_case_of_its_own(ways: list[int], rounds: int, k: int, warm_up: bool):
    """As many cases as announced, none twice, each id once, and each way has `k` of them."""
    shape = {"ways": ways, "rounds": rounds, "requests_per_user": k, "warm_up": warm_up}
    needed = cases_of_comparison(**shape)
    items = [item for part in comparison(cases(needed), **shape).stages for item in part.items]
    assert needed == len(items) == len({item.id for item in items}) == len({item.case.facts.case for item in items})
    per_way = {(i.slot.stage, i.slot.round, i.slot.way): 0 for i in items if i.slot.phase is Phase.MEASURED}
    for item in items:
        if item.slot.phase is Phase.MEASURED:
            per_way[item.slot.stage, item.slot.round, item.slot.way] += 1
    assert {k} == set(per_way.values())


def test_measured_cases_do_not_depend_on_the_warm_ups():
    """Warm-ups take the last cases, so that a run without them asks the same."""
    shape = {"ways": (1, 2), "rounds": 2}
    with_them, without = comparison(cases(8), **shape), comparison(cases(8), **shape, warm_up=False)
    measured = [part for part in with_them.stages if part.phase is Phase.MEASURED]
    assert list(without.stages) == measured


def test_too_few_cases_are_refused():
    """A comparison never asks a case twice to fill up."""
    with pytest.raises(ValueError, match="24 cases are needed, 23 given"):
        comparison(cases(23))


def test_the_digest_changes_with_what_is_asked_and_not_with_where_documents_lie(tmp_path):
    """Two runs of one plan have one hash."""
    plan = sequence(cases(3), name="smoke")
    moved = [replace(case, document=tmp_path / "x") for case in cases(3)]
    assert digest(plan) == digest(sequence(moved, name="smoke"))
    assert digest(plan) != digest(sequence(cases(4), name="smoke"))


def test_a_ladder_is_one_serial_stage_a_rung():
    """All rungs share the ladder's name, which is what lets a failure end it."""
    plan = ladder([("8K", cases(2)), ("32K", cases(2))], name="retrieval")
    assert [(s.name, s.ways, s.ladder) for s in plan.stages] == [("8K", 1, "retrieval r1"), ("32K", 1, "retrieval r1")]


def test_joined_plans_keep_their_order_and_what_they_ask():
    """The verdict asked for by one part is asked for by the whole."""
    first = sequence(cases(1), name="a", asked={"answers": True})
    whole = joined(first, Plan(stages=(stage("b", cases(2), ways=2),)), name="both")
    assert ([s.name for s in whole.stages], whole.asked, users_of(whole)) == (["a", "b"], {"answers": True}, 2)
