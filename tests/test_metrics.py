"""Each figure of a request against one worked out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit import metrics
from loadkit.record import Events, Outcome, Record, Usage
from recorded import MS, record

THINKING_FIRST = record(sent=0, due=-5, events=(100, 150, 400, 500), tokens=(1, 3, 2, 4), kinds="rraa", end=520, n=12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ttft", 100 * MS),
        ("ttfat", 400 * MS),
        ("e2e", 520 * MS),
        ("elapsed", 521 * MS),
        ("send_lag", 5 * MS),
        ("ttft_from_due", 105 * MS),
        ("e2e_from_due", 525 * MS),
        ("output_tokens", 12),
        ("tpot", (520 - 100) * MS / 11),
        ("decode_rate", 11 / 0.420),
        ("longest_gap", 250 * MS),
        ("tokens_per_chunk", 11 / 3),
        ("prompt_tokens", 10),
    ],
)
def test_a_figure_is_what_its_formula_says(name, expected):
    """Thinking first, several tokens a chunk, two tokens that no chunk carried."""
    assert metrics.BY_NAME[name].of(THINKING_FIRST) == pytest.approx(expected)


def test_prefill_rate_needs_cached_tokens():
    """(prompt − cached) / TTFT; an absent count is unknown, not 0."""
    known = record(usage=Usage(prompt_tokens=1000, cached_tokens=200, completion_tokens=3))
    assert metrics.prefill_rate(known) == pytest.approx(800 / 0.1)
    assert metrics.prefill_rate(record()) is None


def test_itl_weighs_each_gap_by_its_tokens():
    """gap_j / k_j with weight k_j."""
    assert metrics.itl_ns(THINKING_FIRST) == ((50 * MS / 3, 3), (125 * MS, 2), (25 * MS, 4))


def test_without_running_usage_itl_does_not_apply_and_tpot_is_estimated():
    """Tokens never come from counting chunks; only k1 is taken as one."""
    unknown = record(events=(100, 200, 300), tokens=None, n=9)
    assert metrics.itl_ns(unknown) is None
    assert metrics.token_times(unknown) == "estimated"
    assert metrics.tpot_ns(unknown) == 200 * MS / 8


def test_no_visible_token_means_no_ttft():
    """An answer of one end-of-sequence token has no event: `None`, not 0."""
    silent = record(events=(), tokens=(), end=50, n=1)
    assert (metrics.ttft_ns(silent), metrics.ttfat_ns(silent), metrics.tpot_ns(silent)) == (None, None, None)
    assert metrics.e2e_ns(silent) == 50 * MS


def test_tool_calls_are_tokens():
    """A tool-call-only answer has a TTFT, and it is its TTFAT too."""
    call = record(kinds="ttt")
    assert metrics.ttft_ns(call) == metrics.ttfat_ns(call) == 100 * MS


def test_a_failed_request_has_elapsed_and_no_e2e():
    """Its latency is that of a failure."""
    failed = record(outcome=Outcome.STREAM_ERROR)
    assert metrics.e2e_ns(failed) is None
    assert metrics.tpot_ns(failed) is None
    assert metrics.elapsed_ns(failed) == 301 * MS


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (record(n=7), (7, False)),
        (record(n=None), (None, False)),
        (record(outcome=Outcome.CANCELLED, tokens=(1, 3, 2)), (6, False)),
        (record(outcome=Outcome.CANCELLED, tokens=None), (3, True)),
    ],
)
def test_tokens_of_a_cut_off_request(made, expected):
    """The running count where it is known, else one an event as a lower bound; without usage unknown."""
    assert metrics.tokens_seen(made) == expected


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), st.data())
def test_invariants_hold_for_any_stream(gaps, data):
    """0 ≤ TTFT ≤ e2e, gaps sum to last − first, the longest gap is one of them."""
    times = [sum(gaps[: place + 1]) for place in range(len(gaps))]
    tokens = data.draw(st.lists(st.integers(1, 5), min_size=len(gaps), max_size=len(gaps)))
    made = record()
    made = Record(
        **{name: getattr(made, name) for name in ("id", "slot", "case", "outcome")},
        due_ns=0,
        sent_ns=0,
        end_ns=times[-1],
        events=Events(at_ns=tuple(times), kinds="a" * len(times), tokens=tuple(tokens)),
        usage=Usage(completion_tokens=sum(tokens)),
    )
    ttft, e2e = metrics.ttft_ns(made), metrics.e2e_ns(made)
    assert ttft is not None
    assert e2e is not None
    assert 0 <= ttft <= e2e
    assert sum(metrics.gaps_ns(made)) == times[-1] - times[0]
    assert metrics.longest_gap_ns(made) == (max(metrics.gaps_ns(made)) if len(times) > 1 else None)
