"""Percentiles, mergeable distributions, and the test for a trend."""

import math
import random

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from loadkit.statistics import Distribution, Histogram, minimum_count, nearest_rank, trend

VALUES = st.lists(st.integers(0, 10**12), max_size=60)


@pytest.mark.parametrize(("p", "count"), [(0.9, 29), (0.95, 59), (0.99, 299)])
def test_a_percentile_needs_its_number_of_values(p, count):
    """p90, p95 and p99 are given from 29, 59 and 299 values on."""
    assert minimum_count(p) == count
    assert Distribution.of(range(count - 1)).percentile(p) is None
    assert Distribution.of(range(count)).percentile(p) is not None


@settings(deadline=None)
@given(VALUES.filter(bool), st.floats(0.01, 1))
def test_nearest_rank_is_the_smallest_value_that_covers_its_share(values, p):
    """At least a share p of the values is at or below it, and no smaller value has that property."""
    values = sorted(values)
    found = nearest_rank(values, p)
    covered = sum(value <= found for value in values) / len(values)
    below = sum(value < found for value in values) / len(values)
    assert covered >= p - 1e-6
    assert below < p + 1e-6


def test_none_is_left_out_and_zero_is_kept():
    """`None` does not apply, 0 is a value."""
    assert Distribution.of([None, 0, 5]).values == (0, 5)


def test_failures_count_as_infinity_in_the_second_view():
    """With 60 values and 5 failures the p95 of all requests is infinite, that of the successful ones is not."""
    distribution = Distribution.of(range(60), failed=5)
    assert (distribution.percentile(0.95), distribution.with_failures(0.95)) == (56, math.inf)


@settings(deadline=None)
@given(VALUES, VALUES, st.integers(0, 9), st.integers(0, 9))
def test_distributions_of_parts_merge_to_that_of_the_whole(left, right, failed_left, failed_right):
    """Merging is exact, so it is associative."""
    whole = Distribution.of(left + right, failed=failed_left + failed_right)
    assert Distribution.of(left, failed=failed_left).merged(Distribution.of(right, failed=failed_right)) == whole


@settings(deadline=None)
@given(VALUES, VALUES)
def test_histograms_of_parts_merge_to_that_of_the_whole(left, right):
    """Bucket counts add up, and so do sums, extremes and the count above the limit."""
    assert Histogram.of(left, limit=10**9).merged(Histogram.of(right, limit=10**9)) == Histogram.of(left + right, limit=10**9)


@settings(deadline=None)
@given(VALUES.filter(bool), st.sampled_from([0.1, 0.5, 0.75, 1.0]))
def test_a_histogram_percentile_is_within_a_thousandth_of_the_exact_one(values, p):
    """The error of metrics.md: at most 0.1 %."""
    exact = nearest_rank(sorted(values), min(p, 0.5))
    found = Histogram.of(values).percentile(min(p, 0.5))
    assert found is not None
    assert found == pytest.approx(exact, rel=1e-3, abs=0.5)


def test_a_histogram_agrees_with_hdrhistogram():
    """The buckets are those of HdrHistogram with three digits, filled by numpy: same percentiles, same count."""
    values = [int(random.Random(7).lognormvariate(16, 1.5)) + place for place in range(4000)]
    reference = HdrHistogram(1, 10**12, 3)
    for value in values:
        reference.record_value(value)
    ours = Histogram.of(values)
    for p in (0.5, 0.9, 0.99):
        assert ours.percentile(p) == pytest.approx(reference.get_value_at_percentile(100 * p), rel=2e-3)
    assert ours.count == reference.get_total_count()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 5)), max_size=30))
def test_a_weight_is_a_repetition(pairs):
    """A gap that brought k tokens counts k times."""
    weighted = Histogram.of([value for value, _ in pairs], weights=[k for _, k in pairs])
    assert weighted == Histogram.of([value for value, k in pairs for _ in range(k)])


@settings(deadline=None)
@given(st.lists(st.integers(1, 50), min_size=8, max_size=60))
def test_the_trend_test_agrees_with_kendalls_tau(values):
    """Mann-Kendall is Kendall's tau against time: same direction, and p within what the normal approximation differs."""
    found = trend(values)
    tau, p = kendalltau(range(len(values)), values, method="asymptotic")
    assert found is not None
    if not math.isnan(tau):
        assert found.p == pytest.approx(p, abs=0.12)


def test_a_steady_drift_is_found_with_its_size():
    """Ten per cent over the span, in small noise."""
    noise = random.Random(1)
    found = trend([100 * (1 + 0.10 * step / 39) + noise.gauss(0, 0.5) for step in range(40)])
    assert found is not None
    assert found.p < 1e-6
    assert found.change == pytest.approx(0.095, abs=0.02)


def test_noise_is_no_trend():
    """The same noise without the drift."""
    noise = random.Random(2)
    found = trend([100 + noise.gauss(0, 0.5) for _ in range(40)])
    assert found is not None
    assert found.p > 0.01
