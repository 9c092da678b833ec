"""Axes, headline and exit codes, exactly as the method lists them."""

from dataclasses import replace

import pytest

from loadkit import verdict
from loadkit.record import Answer, Events, Outcome, Usage
from loadkit.summary import summarise
from recorded import MS, case, record, run, sample, verdict_on, watched, way

QUALITY = case(scenario="retrieval", workload="quality")


def judged(records, **changes):
    return verdict.judge(summarise(run(records, **changes), selftest=None))


def answered(id_, answer=Answer.CORRECT):
    return record(id_, facts=QUALITY, finish_reason="stop"), verdict_on(id_, answer)


def test_everything_that_was_asked_for_holds():
    """Completed, correct, no host asked for."""
    records, checks = zip(*(answered(f"r{n}") for n in range(3)), strict=True)
    found = judged(records, checks=checks, manifest={"asked": {"answers": True}})
    assert (found.exit_code, found.word) == (0, "pass")
    assert found.headline == "COMPLETED 3/3 · CORRECT 3/3 · HOST unverified (no sidecar) → PASS (0)"


def test_right_answers_on_an_unstable_host_fail_with_four():
    """The headline of the method, with the kernel's time of day."""
    records, checks = zip(*(answered(f"r{n}") for n in range(24)), strict=True)
    samples = [*watched(-1000, 100, step=100), *watched(200, 400, step=100, oom_kill=7)]
    found = judged(records, checks=checks, samples=samples, manifest={"asked": {"answers": True, "host": True}})
    assert found.exit_code == 4
    assert found.headline.startswith("COMPLETED 24/24 · CORRECT 24/24 · HOST UNSTABLE (oom_kill +4 at ")
    assert found.headline.endswith(" → FAIL (4)")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer.CORRECT, 0),
        (Answer.WRONG, 1),
        (Answer.HEDGED, 1),
        (Answer.WRONG_DISTRACTOR, 1),
        (Answer.REFUSED, 1),
        (Answer.NO_ANSWER, 1),
        (Answer.MALFORMED, 1),
        (Answer.UNVERIFIED, 6),
    ],
)
def test_only_a_correct_answer_passes(answer, code):
    """Missing evidence is unverified, never a pass."""
    one, check = answered("r", answer)
    assert judged([one], checks=[check], manifest={"asked": {"answers": True}}).exit_code == code


def test_answers_that_were_asked_for_and_never_checked_are_unverified():
    """The scenario declares a check, and no verdict was written."""
    one, _ = answered("r")
    found = judged([one], manifest={"asked": {"answers": True}})
    assert (found.exit_code, found.answers.state) == (6, "unverified")


@pytest.mark.parametrize(
    "outcome", [Outcome.HTTP_ERROR, Outcome.STREAM_ERROR, Outcome.TIMEOUT, Outcome.CONNECTION, Outcome.NOT_SENT]
)
def test_a_request_that_did_not_complete_makes_three(outcome):
    """It stays in the denominator."""
    found = judged([record("a"), record("b", outcome=Outcome(outcome))])
    assert found.exit_code == 3
    assert f"COMPLETED 1/2 · FAILED 1 {outcome}" in found.headline


def test_a_run_that_was_killed_is_aborted_and_its_requests_are_lost():
    """State `running` and a start without an end: exit 3, never a pass."""
    found = judged([record("a")], lost=[record("b")], manifest={"state": "running"})
    assert found.exit_code == 3
    assert "ABORTED (the run was killed) · COMPLETED 1/2 · FAILED 1 in_flight_lost" in found.headline


def test_nothing_measured_is_a_failure():
    """Zero rows are never a success."""
    assert judged([]).exit_code == 3


def test_requests_that_the_plan_skipped_stay_in_the_denominator():
    """A ladder that ended early is incomplete."""
    found = judged([record("a")], plan=({"kind": "skipped", "id": "x", "stage": "64K", "reason": "ladder"},))
    assert found.exit_code == 3
    assert "COMPLETED 1/2" in found.headline


def test_a_planned_end_may_cancel_what_is_in_flight():
    """The time of a time-limited run is up: not a failure, and said."""
    found = judged([record("a"), record("b", outcome=Outcome.CANCELLED)])
    assert found.exit_code == 0
    assert "COMPLETED 1/2 · CANCELLED 1" in found.headline


def test_what_this_side_stopped_is_no_wrong_answer():
    """It is in no denominator of answers: the model was not asked to the end."""
    records = [
        record("a", facts=case(workload="quality")),
        record("b", outcome=Outcome.CANCELLED, facts=case(workload="quality")),
    ]
    checks = (verdict_on("a"), verdict_on("b", Answer.NO_ANSWER))
    found = judged(records, checks=checks, manifest={"asked": {"answers": True}})
    assert found.exit_code == 0
    assert "COMPLETED 1/2 · CANCELLED 1 · CORRECT 1/1" in found.headline


@pytest.mark.parametrize(("state", "code"), [("interrupted", 130), ("aborted", 3), ("finished", 0)])
def test_how_the_run_ended_decides_first(state, code):
    """Ctrl-C is 130, an abort 3."""
    assert judged([record("a")], manifest={"state": state}).exit_code == code


def test_the_first_that_applies_wins():
    """4 before 130 before 3 before 5 before 1 before 6."""
    samples = [*watched(-1000, 100, step=100), *watched(200, 400, step=100, oom_kill=7)]
    wrong, check = answered("r", Answer.WRONG)
    bad = {"records": [wrong, record("n", n=None)], "checks": [check]}
    states = {"asked": {"answers": True, "host": True}}
    assert judged(**bad, samples=samples, manifest={**states, "state": "interrupted"}).exit_code == 4
    assert judged(**bad, manifest={**states, "state": "interrupted"}).exit_code == 130
    assert judged(**bad, manifest={**states, "state": "aborted"}).exit_code == 3
    assert judged(**bad, manifest=states).exit_code == 5
    assert judged([wrong], checks=[check], manifest=states).exit_code == 1
    right, check = answered("r")
    assert judged([right], checks=[check], manifest=states).exit_code == 6


def test_truncation_is_told_apart_by_place_and_fails_where_asked():
    """While thinking (no answer token came) or in the answer; a speed workload ends by length on purpose."""
    thinking = record("t", facts=QUALITY, kinds="rrr")
    answer = record("a", facts=QUALITY, kinds="raa")
    found = judged([thinking, answer, record("s")], manifest={"asked": {"truncation": True}})
    assert found.exit_code == 1
    assert "TRUNCATED (1 in the answer, 1 truncated while thinking)" in found.headline
    assert judged([record("s")], manifest={"asked": {"truncation": True}}).exit_code == 0


def invalid(records, **changes):
    return dict(verdict.invalid_reasons(summarise(run(records, **changes), selftest=None)))


def many(count, **changes):
    return [record(f"r{n}", **changes) for n in range(count)]


def test_no_usage_is_invalid_and_said_in_the_headline():
    """Completed, tokens unknown."""
    found = judged([record("a", n=None)])
    assert found.exit_code == 5
    assert "TOKENS UNKNOWN 1" in found.headline
    assert "MEASUREMENT INVALID (no_usage)" in found.headline


def test_late_sends_degrade_the_schedule_only_where_the_percentile_is_known():
    """30 requests 5 ms late against a TTFT of 100 ms (limit 2 ms); one late one of 30 is printed, not judged."""
    assert "schedule_degraded" in invalid(many(30, due=-5))
    assert invalid([*many(30), record("late", due=-5)]) == {}


def test_late_stamps_are_a_client_bottleneck():
    """p99 of (read − kernel stamp) above max(1 ms, 2 % of the TTFT median)."""
    stamps = Events(at_ns=tuple(range(10**9, 10**9 + 300)), kinds="a" * 300, tokens=(1,) * 300, late_ns=(3 * MS,) * 300)
    late = record("a", events=(), end=400, n=300)
    assert "client_bottleneck" in invalid([_with_events(late, stamps)])


def test_coalesced_gaps_are_a_client_bottleneck():
    """More than 1 % of the gaps."""
    times = tuple(10**12 + n * MS for n in range(101))
    stamps = Events(at_ns=times, kinds="a" * 101, tokens=(1,) * 101, coalesced=((3, times[2]), (4, times[2])))
    assert "client_bottleneck" in invalid([_with_events(record("a", events=(), n=101, end=500), stamps)])


def _with_events(made, events):
    first, last = events.at_ns[0], events.at_ns[-1]
    return replace(made, events=events, sent_ns=first - MS, due_ns=first - MS, end_ns=last, closed_ns=last)


def test_a_prompt_of_another_length_than_planned_is_a_mismatch():
    """usage.prompt_tokens must equal the plan."""
    assert "tokens_mismatch" in invalid([record("a", facts=case(planned_prompt_tokens=11))])
    assert invalid([record("a", facts=case(planned_prompt_tokens=10))]) == {}


def counters(before, after):
    return [sample("server", -100, **before), sample("server", 900, **after)]


@pytest.mark.parametrize(
    ("after", "mismatch"),
    [
        ({"generation_tokens": 103, "success": {"stop": 1}}, False),
        ({"generation_tokens": 102, "success": {"stop": 1}}, True),
        ({"generation_tokens": 110, "success": {"stop": 1}}, True),
        ({"generation_tokens": 110, "success": {"stop": 4}}, False),
    ],
)
def test_the_servers_counter_is_the_third_count(after, mismatch):
    """Equal where the server is ours alone; more where it serves others; less is impossible."""
    samples = counters({"generation_tokens": 100, "success": {"stop": 0}}, after)
    assert ("tokens_mismatch" in invalid([record("a")], samples=samples)) is mismatch


def test_a_look_while_the_last_step_is_not_yet_counted_is_passed_over():
    """Servers count a step after they wrote its tokens: the first look with nothing running counts, else the last one."""
    looks = counters({"generation_tokens": 100, "success": {"stop": 0}}, {"generation_tokens": 102, "running": 1})
    settled = sample("server", 950, generation_tokens=103, success={"stop": 1}, running=0)
    others = sample("server", 990, generation_tokens=140, success={"stop": 5}, running=0)
    assert "tokens_mismatch" not in invalid([record("a")], samples=[*looks, settled, others])
    assert "tokens_mismatch" in invalid([record("a")], samples=looks)


def test_the_residue_of_a_cut_request_is_explained():
    """Its tokens are in the server's counter, and only in part in ours."""
    samples = counters({"generation_tokens": 100}, {"generation_tokens": 120})
    tokens = summarise(run([record("a"), record("b", outcome=Outcome.CANCELLED)], samples=samples), selftest=None).tokens
    assert (tokens.residue, tokens.explained, tokens.mismatch) == (17, "1 requests were cut off", ())


def usage(cached):
    return Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=cached)


@pytest.mark.parametrize(
    ("cache", "expected", "cached", "reason"),
    [
        ("cold", None, 0, False),
        ("cold", None, 8, True),
        ("cold", None, None, False),
        ("warm", 8, 8, False),
        ("warm", 8, 0, True),
        ("warm", None, None, True),
        ("none", None, None, False),
    ],
)
def test_cold_and_warm_are_verified_states(cache, expected, cached, reason):
    """Contradicted, or no evidence where the run is about warm: invalid; a cold row without evidence is only labelled."""
    made = record("a", facts=case(cache=cache, expected_cached_tokens=expected), usage=usage(cached))
    assert ("cache_unverified" in invalid([made])) is reason


@pytest.mark.parametrize(("tokens", "reason"), [(1600, False), (1601, True)])
def test_a_prompt_too_short_for_a_block_has_nothing_to_find(tokens, reason):
    """A later turn of a short chat, with the blocks of 1600 tokens that hybrid models have: 0 is what there can be."""
    made = record("a", facts=case(cache="warm"), usage=Usage(prompt_tokens=tokens, completion_tokens=3, cached_tokens=0))
    assert ("cache_unverified" in invalid([made], manifest={"preflight": {"block_size": 1600}})) is reason


def test_another_fingerprint_within_the_run_is_drift_of_the_configuration():
    """vLLM's fingerprint holds version and configuration."""
    assert "config_drift" in invalid([record("a", system_fingerprint="x"), record("b", system_fingerprint="y")])


def climbing(growth):
    """40 like requests whose TPOT grows from 10 ms by `growth`."""
    slow = [100 * (1 + growth * n / 39) for n in range(40)]
    return [
        record(f"r{n}", sent=n * 1000, events=(n * 1000 + 100, n * 1000 + 100 + slow[n]), tokens=(1, 10), slot=way(0, ways=1))
        for n in range(40)
    ]


def test_a_tpot_that_climbs_is_not_stationary():
    """30 % slower at the end; 5 % is left to the reader."""
    assert "non_stationary" in invalid(climbing(0.3))
    assert "non_stationary" not in invalid(climbing(0.05))


def test_columns_of_different_length_are_reported_and_break_nothing():
    """A damaged record is an invariant violated, not a crash."""
    damaged = record("a", events=(100, 200), tokens=(1, 1, 1))
    assert "equal length" in invalid([damaged])["invariant_violated"]


def test_unreadable_lines_and_lost_workers_are_said():
    """Reasons of the method."""
    found = invalid([record("a")], broken_lines=2, manifest={"state": "aborted", "ended_reason": "worker_lost: w1"})
    assert (found["records_incomplete"], found["worker_lost"]) == ("2 lines can't be read", "w1")


def test_a_broken_invariant_is_reported():
    """A first token before the request was sent is a bug or an invalid run."""
    assert "0 ≤ TTFT" in invalid([record("a", sent=200)])["invariant_violated"]


def test_a_record_without_its_start_is_reported():
    """sent = completed + failed + cancelled + lost."""
    made = run([record("a"), record("b")])
    found = dict(verdict.invalid_reasons(summarise(replace(made, starts=made.starts[:1]), selftest=None)))
    assert "invariant_violated" in found


def test_a_stage_that_never_reached_its_concurrency_says_so():
    """Four ways asked for, requests one after the other."""
    found = judged(
        [record(f"r{n}", sent=n * 1000, events=(n * 1000 + 100,), tokens=(3,), slot=way(n, ways=4)) for n in range(4)]
    )
    assert "CONCURRENCY 1 OF 4" in found.headline
