"""Words for intervals, the pairs an undecided one needs, Holm, and looks."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.compare.judgement import Judgement, Word, holm, judge, look_alpha, pairs_needed, smallest_effect
from loadkit.compare.ratio import Estimate, paired


def estimate(low, high, sd_log=0.01):
    return Estimate(
        ratio=1.0 if low is None else sqrt(low * high), low=low, high=high, p=None, sd_log=sd_log,
        launches_a=6, launches_b=6, pairing="paired", alpha=0.05,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.03, 1.06, Word.BETTER),
        (1.005, 1.06, Word.BETTER_MAYBE_NEGLIGIBLE),
        (1.005, 1.015, Word.EQUIVALENT),
        (0.99, 1.01, Word.EQUIVALENT),
        (0.99, 1.05, Word.INCONCLUSIVE),
        (0.94, 0.97, Word.WORSE),
        (0.94, 0.995, Word.WORSE_MAYBE_NEGLIGIBLE),
        (None, None, Word.INDICATIVE),
    ],
)
def test_the_word_says_where_the_interval_lies(low, high, word):
    """Against no effect and ±2 %, as method.md lists the cases."""
    assert judge(estimate(low, high), better="higher").word == word


@given(st.floats(0.8, 1.2), st.floats(0.8, 1.2))
def test_swapping_sides_or_direction_swaps_the_word(one, other):
    """B slower than A is A faster than B; shorter times are better where lower is."""
    low, high = sorted((one, other))
    mirrored = {
        Word.BETTER: Word.WORSE,
        Word.WORSE: Word.BETTER,
        Word.BETTER_MAYBE_NEGLIGIBLE: Word.WORSE_MAYBE_NEGLIGIBLE,
        Word.WORSE_MAYBE_NEGLIGIBLE: Word.BETTER_MAYBE_NEGLIGIBLE,
    }
    forward = judge(estimate(low, high), better="higher").word
    assert judge(estimate(low, high), better="lower").word == mirrored.get(forward, forward)


def test_pairs_needed_is_the_formula_of_the_method():
    """((1.96 + 0.84)·s / ln(1 + effect))² + 2, rounded up."""
    assert pairs_needed(0.02, effect=0.02) == 10
    assert pairs_needed(0.0, effect=0.02) == 2
    assert pairs_needed(None, effect=0.02) is None


@given(st.integers(3, 100), st.floats(0.001, 0.3))
def test_smallest_effect_and_pairs_needed_are_inverse(pairs, spread):
    """An effect that n pairs just find needs n pairs (up to rounding)."""
    assert abs(pairs_needed(spread, effect=smallest_effect(pairs, spread)) - pairs) <= 1


def test_an_undecided_interval_says_what_it_needs():
    """Inconclusive comes with a number."""
    assert judge(estimate(0.99, 1.05, sd_log=0.05), better="higher") == Judgement(word=Word.INCONCLUSIVE, pairs_needed=52)


def test_holm_on_a_textbook_case():
    """.01, .02, .03, .04 become .04, .06, .06, .06."""
    assert holm({"a": 0.01, "d": 0.04, "c": 0.03, "b": 0.02}) == pytest.approx({"a": 0.04, "b": 0.06, "c": 0.06, "d": 0.06})


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_holm_never_lowers_a_p_and_keeps_their_order(p_values):
    """Adjusted values are at least the raw ones, at most 1, in the same order."""
    adjusted = holm(p_values)
    assert all(p_values[name] <= adjusted[name] <= 1 for name in p_values)
    ranked = sorted(p_values, key=p_values.__getitem__)
    assert [adjusted[name] for name in ranked] == sorted(adjusted.values())


def test_three_looks_use_pocock():
    """6/12/18 pairs with α = .0221 each."""
    assert look_alpha(3) == 0.0221
    assert look_alpha(1, alpha=0.1) == 0.1
    with pytest.raises(ValueError, match="looks"):
        look_alpha(3, alpha=0.1)


def test_three_looks_err_five_times_in_a_hundred():
    """Stopping at the first look that excludes "no effect" errs 5 % of the time where nothing differs."""
    rng = np.random.default_rng(0)
    alpha = look_alpha(3)

    def stops(differences):
        return any((paired([1.0] * n, np.exp(differences[:n]).tolist(), alpha=alpha).p or 1) < alpha for n in (6, 12, 18))

    wrong = sum(stops(rng.normal(0, 0.02, 18)) for _ in range(600)) / 600
    assert 0.02 < wrong < 0.08
