"""Objectives: how they are written, and how they come out."""

import math

import pytest

from loadkit import slo, verdict
from loadkit.errors import UsageError
from loadkit.record import Outcome
from loadkit.summary import summarise
from recorded import MS, record, run


@pytest.mark.parametrize(
    ("text", "metric", "share", "limit"),
    [
        ("ttft_p95=2s", "ttft", 0.95, 2e9),
        ("tpot_max=50ms", "tpot", 1.0, 50e6),
        ("e2e_median<=1.5min", "e2e", 0.5, 90e9),
        ("ttft_from_due_p99=300us", "ttft_from_due", 0.99, 3e5),
        ("decode_rate_p90>=20", "decode_rate", 0.9, 20),
        ("failed=1%", "failed", 1.0, 0.01),
        ("correct=0.95", "correct", 1.0, 0.95),
    ],
)
def test_an_objective_is_read(text, metric, share, limit):
    """Figure, percentile and a limit with its unit."""
    found = slo.parse(text)
    assert (found.metric, found.share, found.limit) == (metric, share, pytest.approx(limit))


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("ttft_p95", "ttft_p95=2s"),
        ("ttf_p95=2s", "did you mean ttft_p95?"),
        ("ttft_p95=2", "write 2s, 50ms or 300us"),
        ("ttft_p0=2s", "p1 to p99"),
        ("failed=5", "write 5%"),
        ("decode_rate_p90=20ms", "tok/s"),
        ("correct=many", "1%"),
        ("", "ttft_p95=2s"),
    ],
)
def test_a_mistake_names_its_remedy(text, remedy):
    """Raised before the first request, with where it stands."""
    with pytest.raises(UsageError) as caught:
        slo.parse(text)
    assert caught.value.where == "--slo"
    assert remedy in (caught.value.remedy or "")


def test_several_objectives_in_one_option():
    """Separated by commas or spaces."""
    assert [one.metric for one in slo.parse_all(["ttft_p95=2s,tpot_p50=50ms", "failed=0"])] == ["ttft", "tpot", "failed"]


def outcome(text, records):
    found = summarise(run(records, manifest={"slo": [text]}), selftest=None)
    return found.slos[0], verdict.judge(found)


def requests(count, *, slow=0, failed=0):
    """`count` requests with a TTFT of 100 ms, `slow` of them 900 ms, `failed` of them without an answer."""
    made = [record(f"r{n}", events=(900, 950) if n < slow else (100, 150), tokens=(1, 1)) for n in range(count - failed)]
    return made + [record(f"f{n}", outcome=Outcome.HTTP_ERROR, events=()) for n in range(failed)]


def test_a_percentile_within_its_limit_is_met():
    """Three of 60 may be slow at p95."""
    result, found = outcome("ttft_p95=200ms", requests(60, slow=3))
    assert (result.state, result.value, result.kept, result.attempted, found.exit_code) == ("met", 100 * MS, 57, 60, 0)


def test_failed_requests_stay_in_the_denominator():
    """Four failures of 60 break the p95 although all that completed were fast."""
    result, _ = outcome("ttft_p95=200ms", requests(60, failed=4))
    assert (result.state, result.value, result.kept) == ("missed", math.inf, 56)


def test_a_missed_objective_makes_one():
    """And the headline names it."""
    _, found = outcome("ttft_p95=200ms", requests(60, slow=4))
    assert found.exit_code == 1
    assert "SLO 0/1 (ttft_p95=200ms missed)" in found.headline


def test_too_few_requests_are_inconclusive_and_make_six():
    """p95 needs 59 requests."""
    result, found = outcome("ttft_p95=200ms", requests(20))
    assert (result.state, result.detail, found.exit_code) == ("inconclusive", "p95 needs 59 requests, there are 20", 6)


def test_even_few_requests_can_miss():
    """When already the median is above the limit."""
    assert outcome("ttft_p95=50ms", requests(20))[0].state == "missed"


def test_a_rate_is_a_lower_bound():
    """100 % must reach 20 tok/s; 1 token in 50 ms is just that."""
    assert outcome("decode_rate_max=20", requests(5))[0].state == "met"
    assert outcome("decode_rate_max=21", requests(5))[0].state == "missed"


@pytest.mark.parametrize(("text", "state"), [("failed=10%", "met"), ("failed=9%", "missed"), ("correct=1%", "inconclusive")])
def test_shares_of_the_requests(text, state):
    """One of ten failed; without a check there is no share of right answers."""
    assert outcome(text, requests(10, failed=1))[0].state == state


def test_goodput_counts_requests_within_every_objective():
    """Good / attempted and good per second."""
    found = summarise(run(requests(10, slow=2), manifest={"slo": ["ttft_max=200ms", "e2e_max=1s"]}), selftest=None)
    assert found.whole.good == 8
    assert found.stages[0].goodput_per_s.median == pytest.approx(8 / 0.95)
