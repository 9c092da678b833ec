"""Order by coin, and the time it will take."""

from hypothesis import given
from hypothesis import strategies as st

from loadkit.experiment.schedule import estimate_s, schedule


@given(st.integers(1, 40), st.integers())
def test_each_pair_has_both_arms_once(pairs, seed):
    """AB or BA, numbered through."""
    slots = schedule(("a", "b"), pairs, seed=seed)
    assert [slot.number for slot in slots] == list(range(1, 2 * pairs + 1))
    assert all({slot.arm for slot in slots if slot.pair == pair} == {"a", "b"} for pair in range(1, pairs + 1))


@given(st.integers(1, 20), st.integers(1, 20), st.integers())
def test_more_pairs_change_no_earlier_one(few, more, seed):
    """A look can add pairs without redrawing the coins of those before."""
    assert schedule(("a", "b"), few + more, seed=seed)[: 2 * few] == schedule(("a", "b"), few, seed=seed)


def test_the_coin_is_fair():
    """Over many pairs A goes first about half of the time."""
    first = [slot.arm for slot in schedule(("a", "b"), 2000, seed=0) if slot.place == 1]
    assert 900 < first.count("a") < 1100


def test_launches_seen_correct_the_estimate():
    """Two launches of 30 s: ten more are 300 s."""
    slots = schedule(("a", "b"), 5, seed=0)
    assert estimate_s(slots, [20.0, 40.0]) == 300
