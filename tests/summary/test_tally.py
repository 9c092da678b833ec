"""Merging, throughput, windows, scaling: the figures of metrics.md worked out by hand."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.record import Outcome, Phase, Slot
from loadkit.summary import Judged, Tally, merged_tallies, summarise, tally
from recorded import case, record, run, way


def stage_of(records, **changes):
    return summarise(run(records, **changes), selftest=None).stages[0]


def test_makespan_throughput_is_tokens_over_last_end_minus_first_sent():
    """Two requests of 10 and 20 tokens, from 0 to 1000 ms: 30 tok/s, 15 a user."""
    stage = stage_of(
        [
            record("a", sent=0, events=(100, 500), tokens=(1, 9), slot=way(0)),
            record("b", sent=50, events=(200, 1000), tokens=(1, 19), slot=way(1)),
        ]
    )
    assert stage.makespan_tok_s.median == pytest.approx(30)
    assert stage.per_user_tok_s.median == pytest.approx(15)
    assert stage.achieved_concurrency.median == pytest.approx((500 + 950) / 1000)
    assert stage.peak_in_flight == 2


def test_the_median_of_the_rounds_is_given_with_minimum_and_maximum():
    """Three rounds of 10, 20 and 40 tok/s; the idle time between rounds is in no figure."""
    stage = stage_of(
        [
            record(
                f"r{number}",
                sent=5000 * number,
                events=(5000 * number + 1000,),
                tokens=(n,),
                slot=way(0, ways=1, round_=number),
            )
            for number, n in enumerate((10, 40, 20), start=1)
        ]
    )
    assert (stage.makespan_tok_s.median, stage.makespan_tok_s.minimum, stage.makespan_tok_s.maximum) == (20, 10, 40)


def test_scaling_is_against_the_stage_of_one_way():
    """30 tok/s at one way and 45 at two: 0.75."""
    one = [record("a", events=(1000,), tokens=(30,), slot=way(0, ways=1))]
    two = [
        record("b", sent=2000, events=(3000,), tokens=(20,), slot=way(0)),
        record("c", sent=2000, events=(3000,), tokens=(25,), slot=way(1)),
    ]
    stages = summarise(run(one + two), selftest=None).stages
    assert [stage.scaling for stage in stages] == [1.0, 0.75]


def test_without_usage_the_throughput_is_unknown():
    """A model that stopped early is never credited with the tokens asked for."""
    stage = stage_of([record("a", n=None, slot=way(0)), record("b", slot=way(1))])
    assert stage.makespan_tok_s is None
    assert stage.group.tokens_unknown == 1


def sustained(number_of_requests: int, *, tokens=(1, 1), users: int = 2):
    """`users` users, each sending one request of 100 ms after the other: events at +50 and +100 ms."""
    return [
        record(
            f"u{user}-{k}", sent=100 * k, events=(100 * k + 50, 100 * k + 100), tokens=tokens, slot=way(user, ways=users), n=2
        )
        for user in range(users)
        for k in range(number_of_requests)
    ]


def test_output_throughput_counts_tokens_by_their_time_inside_the_window():
    """a = every user finished its first request (100 ms), b = the first user has nothing left (1200 ms): 44 tokens in 1.1 s."""
    stage = stage_of(sustained(12))
    window = stage.rounds[0].window
    assert (window.seconds, window.tokens, window.requests, window.label) == (1.1, 44, 22, "exact")
    assert stage.output_tok_s.median == pytest.approx(40)


def test_a_window_needs_twenty_requests():
    """With 20 requests of two users only 18 end inside it."""
    assert stage_of(sustained(10)).output_tok_s is None


def test_a_cut_off_request_counts_by_the_time_of_its_tokens():
    """A time-limited run does not lose the tokens of the request that was cut off."""
    records = sustained(12)
    records[5] = record("cut", sent=500, events=(550, 590), tokens=(1, 7), outcome=Outcome.CANCELLED, slot=way(0))
    stage = stage_of(records)
    window = stage.rounds[0].window
    assert (window.tokens, window.requests, window.label) == (50, 21, "exact")
    assert (stage.group.failed_tokens, stage.group.failed_tokens_bound) == (8, 0)


def test_unknown_token_times_are_spread_and_labelled():
    """Each event counts as N / events, and the throughput is labelled estimated."""
    stage = stage_of(sustained(12, tokens=None))
    assert (stage.output_label, stage.rounds[0].window.tokens) == ("estimated", 44)


def test_a_cut_off_request_without_token_times_is_a_lower_bound():
    """One token an event, and the label says so."""
    records = sustained(12, tokens=None)
    records[5] = record("cut", sent=500, events=(550, 600), tokens=None, outcome=Outcome.CANCELLED, slot=way(0))
    assert stage_of(records).output_label == "lower bound"


def test_only_measured_first_attempts_enter_figures():
    """Warm-ups and retries are in the records, and retries are listed apart."""
    summary = summarise(
        run(
            [
                record("w", slot=Slot(phase=Phase.WARMUP)),
                record("m", slot=way(0, ways=1)),
                record("again", slot=way(0, ways=1, attempt=2)),
            ]
        ),
        selftest=None,
    )
    assert (summary.whole.attempted, summary.retries.attempted, len(summary.requests)) == (1, 1, 3)


def test_speed_and_quality_are_never_put_together():
    """Two workloads in one stage are two rows."""
    summary = summarise(run([record("a"), record("b", facts=case(workload="quality"))]), selftest=None)
    assert sorted(stage.workload for stage in summary.stages) == ["quality", "speed"]


def test_failures_as_infinity_stand_beside_the_successful_ones():
    """A failed request has no TTFT, and counts as infinite in the second view."""
    group = summarise(run([record("a"), record("b", outcome=Outcome.HTTP_ERROR, events=())]), selftest=None).whole
    ttft = group.distribution("ttft")
    assert (ttft.median, ttft.failed, ttft.with_failures(0.5)) == (100e6, 1, 100e6)


def drawn(seed: int, count: int):
    """Requests of several stages, outcomes and token knowledge, in an order that nothing may depend on."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        sent = chance.uniform(0, 5000)
        events = sorted(sent + chance.uniform(1, 900) for _ in range(chance.randint(0, 6)))
        known = chance.random() < 0.7
        made.append(
            record(
                f"r{number}",
                sent=sent,
                due=sent - chance.random(),
                events=events,
                tokens=[chance.randint(1, 4) for _ in events] if known else None,
                end=(events[-1] if events else sent) + 1,
                outcome=chance.choice([Outcome.COMPLETED] * 4 + [Outcome.TIMEOUT, Outcome.CANCELLED]),
                facts=case(tier=chance.choice([None, "8K"]), cache=chance.choice(["cold", "warm", None])),
                slot=way(chance.randint(0, 3), ways=chance.choice([2, 4]), round_=chance.randint(1, 2)),
            )
        )
    return [Judged(record=one) for one in made]


def sorted_tally(whole: Tally) -> Tally:
    return Tally(leaves=dict(sorted(whole.leaves.items(), key=str)), flows=dict(sorted(whole.flows.items(), key=str)))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 40), st.lists(st.integers(0, 2), min_size=40, max_size=40))
def test_the_summary_of_a_merge_is_the_merge_of_summaries(seed, count, places):
    """However the records are spread over workers, and in whatever order the workers are merged."""
    requests = drawn(seed, count)
    parts = [[request for request, place in zip(requests, places, strict=False) if place == number] for number in range(3)]
    tallies = [tally(part) for part in parts]
    left = merged_tallies([merged_tallies(tallies[:2]), tallies[2]])
    right = merged_tallies([tallies[2], merged_tallies([tallies[1], tallies[0]])])
    assert sorted_tally(left) == sorted_tally(tally(requests))
    assert sorted_tally(right) == sorted_tally(tally(requests))


def test_several_stages_of_one_way_have_no_scaling():
    """Rungs of a ladder share their scenario, and none of them is the base of another."""
    rungs = [
        record(f"r{n}", sent=2000 * n, events=(2000 * n + 100 * n,), tokens=(5,), slot=way(0, ways=1, stage=f"{n}K"))
        for n in (1, 2)
    ]
    assert [stage.scaling for stage in summarise(run(rungs), selftest=None).stages] == [None, None]


def test_hidden_tokens_do_not_break_the_peak():
    """Tokens that no event carried (end of thinking, end of sequence) are in N, and in neither side of the invariant."""
    hidden = [record(f"r{n}", sent=1000 * n, events=(1000 * n + 10, 1000 * n + 990), tokens=(1, 9), n=40) for n in range(4)]
    assert summarise(run(hidden), selftest=None).violations == ()


def test_tokens_of_what_did_not_complete_do_not_break_the_peak():
    """Most tokens came after the last completed request, in one that was stopped."""
    done = record("done", sent=0, events=(10,), tokens=(2,), end=20)
    cut = record("cut", sent=0, events=tuple(range(100, 9000, 10)), tokens=(1,) * 890, outcome=Outcome.CANCELLED)
    assert summarise(run([done, cut]), selftest=None).violations == ()


def test_an_answer_that_was_not_streamed_counts_at_its_end():
    """Its tokens have no times of their own: the window is estimated, not empty."""
    whole = [
        record(f"u{user}-{k}", sent=100 * k, events=(), tokens=(), n=2, end=100 * k + 100, streamed=False, slot=way(user))
        for user in range(2)
        for k in range(12)
    ]
    stage = stage_of(whole)
    assert (stage.rounds[0].window.tokens, stage.output_label) == (44, "estimated")


def test_tokens_that_no_event_carried_count_at_the_end():
    """One hidden token a request: 22 requests end in the window, 3 tokens each."""
    records = [replace(one, usage=replace(one.usage, completion_tokens=3)) for one in sustained(12)]
    assert stage_of(records).rounds[0].window.tokens == 66
