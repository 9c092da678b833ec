"""Shares of right answers: method.md's worked figures and the published examples of the formulas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from loadkit.compare.proportion import boschloo, difference, fisher, mcnemar, share


def test_eleven_and_twelve_of_twelve_show_no_difference():
    """Fisher p = 1.00, Newcombe −17…+35 points: the worked figure of method.md."""
    a, b = share(11, 12), share(12, 12)
    assert fisher(a, b).p == pytest.approx(1.0)
    found = difference(a, b)
    assert (round(found.low * 100), round(found.high * 100)) == (-17, 35)


def test_newcombe_reproduces_its_paper():
    """56/70 against 48/80 gives 0.0524…0.3339 (Newcombe 1998, table II, method 10)."""
    found = difference(share(48, 80), share(56, 70))
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


def test_mcnemar_counts_only_the_discordant_items():
    """Eight of eight discordant items on one side: 2/2^8."""
    assert mcnemar(0, 8).p == pytest.approx(2 / 256)
    assert mcnemar(0, 0).p == 1.0
    assert mcnemar(1, 0).p == 1.0


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_lies_inside_its_interval_and_inside_zero_to_one(counts):
    """Also at none and at all right."""
    found = share(*counts)
    assert -1e-12 <= found.low <= found.value + 1e-12 <= found.high + 2e-12 <= 1 + 3e-12


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_boschloo_is_never_weaker_than_fisher(n, m, data):
    """Its p is at most twice Fisher's smaller one-sided p, for every table."""
    right_a, right_b = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    found = boschloo(share(right_a, n), share(right_b, m))
    table = [[right_a, right_b], [n - right_a, m - right_b]]
    one_sided = min(stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater"))
    assert found is not None
    assert found.p <= 2 * one_sided + 1e-6


def test_boschloo_leaves_long_searches_alone():
    """A table it would search for seconds is left to Fisher."""
    assert boschloo(share(150, 200), share(160, 200)) is None
