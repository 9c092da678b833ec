"""Ratios and their intervals: method.md's worked figures, and properties that hold for any data."""

from math import exp, log

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from loadkit.compare.ratio import LARGEST_LOG, paired, sign_flip_p, unpaired

EAGER_64K, GRAPH_64K = (30.66, 31.04), (31.38, 31.20)
EAGER_128K, GRAPH_128K = (64.90, 63.08), (64.67, 63.28)

positive = st.floats(min_value=1e-3, max_value=1e6)


@st.composite
def two_sides(draw):
    n = draw(st.integers(2, 12))
    side = st.lists(positive, min_size=n, max_size=n)
    return draw(side), draw(side)


sides = two_sides()


def percent(ratio: float | None) -> float:
    assert ratio is not None
    return round((ratio - 1) * 100, 1)


def test_one_launch_a_side_has_a_ratio_and_no_interval():
    """31.361 against 30.032 tokens/s is +4.43 %, and nothing says how far to trust it."""
    estimate = paired([30.032], [31.361])
    assert round((estimate.ratio - 1) * 100, 2) == 4.43
    assert (estimate.low, estimate.high, estimate.p) == (None, None, None)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(EAGER_64K, GRAPH_64K, (1.4, -1.5, 4.4)), (EAGER_128K, GRAPH_128K, (-0.0, -7.4, 8.0))],
)
def test_the_earlier_first_tokens_unpaired(a, b, expected):
    """The pooled t interval gives method.md's worked figures."""
    estimate = unpaired(a, b)
    assert (percent(estimate.ratio), percent(estimate.low), percent(estimate.high)) == expected


@pytest.mark.parametrize(("a", "b", "expected"), [(EAGER_64K, GRAPH_64K, (-9.6, 13.8)), (EAGER_128K, GRAPH_128K, (-4.2, 4.3))])
def test_the_earlier_first_tokens_as_pairs_of_a_document(a, b, expected):
    """With df = 1 the interval is wide, as method.md says."""
    estimate = paired(a, b)
    assert (percent(estimate.low), percent(estimate.high)) == expected


def test_a_drift_of_one_and_a_half_percent_a_round_makes_the_earlier_difference():
    """Three rounds of A and then three of B: 1.5 % per round alone gives +4.5 %."""
    rounds = [30.032 * 1.015**n for n in range(6)]
    assert 4.4 < (unpaired(rounds[:3], rounds[3:]).ratio - 1) * 100 < 4.7


def test_an_interval_beyond_all_numbers_is_none():
    """Two pairs at a confidence of 0.9999."""
    estimate = paired([1.0, 2.0], [1.5, 2.0], alpha=0.0001)
    assert (estimate.low, estimate.high, estimate.p) == (None, None, None)


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy's, of sides that are nearly equal
@given(sides, st.sampled_from([0.05, 0.01]))
def test_interval_and_p_are_those_of_the_t_tests(both, alpha):
    """scipy's one-sample test of the pairs' differences, and its two-sample test with pooled variance."""
    logs_a, logs_b = ([log(value) for value in side] for side in both)
    differences = [b - a for a, b in zip(logs_a, logs_b, strict=True)]
    assume(max(differences) - min(differences) > 1e-6)
    tests = {paired: stats.ttest_1samp(differences, 0.0), unpaired: stats.ttest_ind(logs_b, logs_a)}
    for way, test in tests.items():
        estimate, bounds = way(*both, alpha=alpha), test.confidence_interval(1 - alpha)
        assert (estimate.low is None) == (max(abs(bounds.low), abs(bounds.high)) > LARGEST_LOG)
        if estimate.low is not None:
            assert (log(estimate.low), log(estimate.high)) == pytest.approx(tuple(bounds), abs=1e-9)
            assert estimate.p == pytest.approx(test.pvalue)


@given(sides)
def test_swapping_the_sides_inverts_everything(both):
    """B against A is the mirror of A against B, bounds included."""
    a, b = both
    there, back = paired(a, b), paired(b, a)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high, rel=1e-6)


@given(sides, st.floats(0.01, 100))
def test_a_unit_changes_nothing(both, factor):
    """Milliseconds or seconds: the ratio and its interval are the same."""
    a, b = both
    one, other = paired(a, b), paired([x * factor for x in a], [x * factor for x in b])
    assert one.ratio == pytest.approx(other.ratio, rel=1e-6)


@given(sides)
def test_the_ratio_lies_inside_its_interval(both):
    """For paired and unpaired alike."""
    for estimate in (paired(*both), unpaired(*both)):
        assert estimate.low * (1 - 1e-9) <= estimate.ratio <= estimate.high * (1 + 1e-9)


@given(st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=10), st.floats(-3, 3))
def test_what_a_pair_shares_drops_out(effects, drift):
    """A drift that hits both launches of a pair alike is in no paired figure."""
    assume(any(abs(e) > 1e-6 for e in effects))
    plain = paired([1.0] * len(effects), [exp(e) for e in effects])
    levels = [exp(drift * n) for n in range(len(effects))]
    drifted = paired(levels, [level * exp(e) for level, e in zip(levels, effects, strict=True)])
    assert log(drifted.ratio) == pytest.approx(log(plain.ratio), abs=1e-9)


def test_six_pairs_of_one_sign_reach_two_in_sixty_four():
    """The smallest p of the sign-flip test is 2/2^n, and it is exact."""
    assert sign_flip_p([1.0] * 6, [1.1, 1.2, 1.3, 1.2, 1.1, 1.15]) == pytest.approx(2 / 64)


def test_equal_pairs_have_no_doubt_and_no_effect():
    """Identical launches give the interval [1, 1] and p = 1 instead of NaN."""
    estimate = paired([2.0, 3.0, 4.0], [2.0, 3.0, 4.0])
    assert (estimate.low, estimate.high, estimate.p) == (1.0, 1.0, 1.0)
    assert sign_flip_p([2.0, 3.0], [2.0, 3.0]) == 1.0


@pytest.mark.parametrize(("a", "b"), [([], []), ([1.0], [0.0]), ([1.0], [-1.0]), ([1.0, 2.0], [1.0])])
def test_values_without_a_logarithm_are_refused(a, b):
    """Zero, negative, absent or unmatched values are an error here, never a NaN further on."""
    with pytest.raises(ValueError, match=r"pairs|side|above 0"):
        paired(a, b)
