"""The live state of a run: bounded, right, and indifferent to who tells it what in which order."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.live import Live, eta_s
from loadkit.live.markers import MOST, Watch
from loadkit.live.run import STAGES_MARKED
from loadkit.live.series import Series
from loadkit.live.words import line
from loadkit.plan import Stage
from loadkit.record import Answer, AnswerVerdict, CaseFacts, Events, Heartbeat, Outcome, Phase, Record, Slot, Usage

S = 1_000_000_000
MS = 1_000_000
GIB = 1 << 30


def ended(
    number: int, at: int, *, stage: str = "2 ways", ways: int = 2, round_: int = 1, tokens: int = 101, **more: object
) -> Record:
    """A request that took 2 s, its first token after 0.5 s."""
    fields: dict[str, object] = {
        "id": str(number), "slot": Slot(stage=stage, ways=ways, round=round_), "outcome": Outcome.COMPLETED,
        "case": CaseFacts(scenario="short", case="c", workload="speed"), "due_ns": at - 2 * S, "sent_ns": at - 2 * S,
        "end_ns": at, "closed_ns": at, "events": Events(at_ns=(at - 1500 * MS, at), kinds="aa", tokens=(1, 1)),
        "usage": Usage(completion_tokens=tokens),
    }  # fmt: skip
    return Record(**(fields | more))


def begun(**more: object) -> Live:
    live = Live()
    live.begin(None, manifest={"label": "a"}, stages=(), at_ns=0, **more)
    return live


@settings(deadline=None)
@given(st.integers(1, 5_000))
def test_a_series_never_outgrows_its_bound(points):
    """An hour and a day of points take the same room, in order of time, the last one not far back."""
    series = Series(("a",), most=50)
    for number in range(points):
        series.add(float(number), {"a": float(number)})
    times, columns = series.since(0)
    assert len(times) == len(columns["a"]) <= 50
    assert all(before < after for before, after in pairwise(times))


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), min_size=4, max_size=500))
def test_a_dip_survives_every_merge(values):
    """Memory keeps its lowest value however often neighbours are merged."""
    series = Series(("memory",), most=8, merges={"memory": min})
    for number, value in enumerate(values):
        series.add(float(number), {"memory": value})
    shown = [value for value in series.since(0)[1]["memory"] if value is not None]
    held = [row[0] for _, row in series._held]
    assert min([*shown, *held]) == min(values)


def test_a_page_learns_that_old_points_have_changed():
    """The generation rises when points are merged or forgotten, and not otherwise."""
    series = Series(("a",), most=4)
    for number in range(4):
        series.add(float(number), {"a": 1.0})
    before = series.generation
    series.add(4.0, {"a": 1.0})
    assert series.generation == before + 1


def test_figures_of_a_stage_are_those_of_the_reference():
    """TTFT first event − sent, TPOT (end − first)/(N − k1), makespan Σ N / (last end − first sent), median of the rounds."""
    live = begun()
    for round_ in (1, 2, 3):
        at = round_ * 10 * S
        live.ended(ended(1, at, round_=round_))
        live.ended(ended(2, at + 2 * S, round_=round_))
    row = live.rows()[0]
    assert (row.ended, row.failed, row.wrong) == (6, 0, 0)
    assert row.ttft_median_ns == 500 * MS
    assert row.tpot_median_ns == 15 * MS
    assert row.makespan_per_s == pytest.approx(202 / 4)


def test_a_median_of_two_is_one_that_was_seen():
    """Nearest rank, as in the report: the lower of the two."""
    live = begun()
    live.ended(ended(1, 10 * S))
    live.ended(ended(2, 20 * S, sent_ns=18 * S - 100 * MS))
    assert live.rows()[0].ttft_median_ns == 500 * MS


def test_warm_ups_and_retries_enter_no_figure():
    """They are recorded elsewhere; here they do not exist."""
    live = begun()
    live.ended(ended(1, 5 * S, slot=Slot(phase=Phase.WARMUP, stage="2 ways")))
    live.ended(ended(2, 5 * S, slot=Slot(stage="2 ways", attempt=2)))
    live.tick(6 * S)
    assert (live.rows(), live.progress.done, live.series.since(0)[1]["ttft_p50_ms"]) == ([], 0, [None])


def test_a_wrong_answer_counts_as_failed():
    """Completed is not right."""
    live = begun()
    live.ended(ended(1, 5 * S), [AnswerVerdict(id="1", check="exact", answer=Answer.WRONG)])
    assert (live.progress.done, live.progress.failed, live.rows()[0].wrong) == (1, 1, 1)


def test_tokens_that_engines_counted_make_the_rate():
    """With running counts from two engines the rate is their sum, whatever has ended."""
    live = begun()
    for second in range(5):
        for worker in ("a", "b"):
            live.heartbeat(_beat(second, worker, tokens=second * 100))
    assert live.output_per_s(4 * S) == pytest.approx(200)


def test_without_counts_the_rate_is_of_requests_that_ended_lately():
    """Tokens of the last ten seconds, and nothing of what came before."""
    live = begun()
    live.ended(ended(1, 1 * S))
    live.ended(ended(2, 15 * S))
    assert live.output_per_s(20 * S) == pytest.approx(10.1)


def test_a_second_run_begins_empty():
    """Nothing of the first run is left, and the page can tell."""
    live = begun()
    live.ended(ended(1, 5 * S))
    live.tick(6 * S)
    live.finished("COMPLETED 1/1 → PASS (0)", 0, "finished", 7 * S)
    generation, number = live.series.generation, live.number
    live.begin(None, manifest={}, stages=(), at_ns=100 * S)
    assert (live.rows(), len(live.series), live.ended_as, live.progress.done) == ([], 0, None, 0)
    assert live.series.generation > generation
    assert live.number == number + 1


def test_the_series_stands_still_when_the_run_has_ended():
    """No points are added between runs."""
    live = begun()
    live.finished("x", 0, "finished", 7 * S)
    live.tick(8 * S)
    assert len(live.series) == 0


def test_the_series_ends_with_the_last_request():
    """While the report is made nothing moves, so no zeros are drawn."""
    live = begun()
    live.progress.total = 1
    live.ended(ended(1, 5 * S))
    live.tick(6 * S)
    assert len(live.series) == 0


def test_in_flight_comes_from_heartbeats_where_starts_are_not_told():
    """On a master the workers' engines say how much is in flight."""
    live = begun()
    for worker in ("a", "b"):
        live.heartbeat(Heartbeat(at_ns=S, in_flight=3, cpu_ns=0, loop_late_max_ns=0, rss_bytes=0, worker=worker))
    assert live.in_flight == 6


def test_samples_become_gauges():
    """Memory in GiB, KV in per cent, hits as a share of the tokens asked for lately."""
    live = begun()
    live.sample({"source": "host", "monotonic_ns": S, "data": {"mem_available_bytes": 30 * GIB}})
    for query, hit in ((1000, 100), (2000, 600)):
        data = {"kv_usage": 0.25, "prefix_query_tokens": query, "prefix_hit_tokens": hit}
        live.sample({"source": "server", "monotonic_ns": S, "data": data})
    live.tick(2 * S)
    columns = live.series.since(0)[1]
    assert (columns["memory_gib"], columns["kv_percent"], columns["hit_percent"]) == ([30], [25], [50])


def test_unknown_stays_unknown():
    """Without a sidecar there is no memory, and it is not 0."""
    live = begun()
    live.tick(S)
    columns = live.series.since(0)[1]
    assert (columns["memory_gib"], columns["kv_percent"], columns["output_per_s"]) == ([None], [None], [None])


@pytest.mark.parametrize(
    ("source", "seen", "expected"),
    [
        ("host", [{"oom_kill": 3}, {"oom_kill": 3}], []),
        ("host", [{"oom_kill": 3}, {"oom_kill": 7}], ["unstable"]),
        ("kernel", [{"event": "watching"}, {"event": "oom_kill", "comm": "python3"}], ["unstable"]),
        ("kernel", [{"event": "nv_err_no_memory"}], ["suspect"]),
        ("guard", [{"level": "ok"}, {"level": "warn"}, {"level": "warn"}, {"level": "abort"}], ["suspect", "unstable"]),
        ("server", [{"process_start_time_s": 1.5}, {"process_start_time_s": 1.5}, {"process_start_time_s": 9.5}], ["unstable"]),
        ("container", [{"event": "docker", "action": "exec_start"}, {"event": "docker", "action": "die"}], ["unstable"]),
    ],
)
def test_only_changes_become_markers(source, seen, expected):
    """A counter that stood before the run, or a level that stays, is no event."""
    watch = Watch()
    assert [marker.severity for data in seen for marker in watch.see(source, data, S)] == expected


def test_markers_are_bounded():
    """A flood of kernel lines does not fill the page."""
    watch = Watch()
    flood = [marker for number in range(10_000) for marker in watch.see("kernel", {"event": "oom_kill", "comm": "x"}, number)]
    assert len(flood) == MOST


def test_marked_stages_are_the_last_ones():
    """A night of rounds neither fills the page nor hides what happened to the host."""
    live = begun()
    live.sample({"source": "kernel", "monotonic_ns": 2 * S, "data": {"event": "oom_kill", "comm": "x"}})
    for number in range(1, 1001):
        live.stage_began(Stage(name="1 way", ways=1, items=(), round=number), number * S)
    texts = [marker.text for marker in live.markers]
    assert (len(texts), texts[0], texts[-1]) == (STAGES_MARKED + 1, "oom_kill: x", "1 way r1000")


def test_the_time_to_go_follows_the_pace_so_far():
    """5 of 20 requests in 10 s leave 30 s; before the first it is unknown."""
    live = begun()
    live.progress.total = 20
    assert eta_s(live, 10 * S) is None
    live.progress.done = 5
    assert eta_s(live, 10 * S) == pytest.approx(30)


def test_a_line_of_progress_leaves_out_what_is_not_known():
    """Round, stage and requests always; rate, time and memory once they are known."""
    live = begun()
    live.progress.rounds = 3
    live.stage_began(Stage(name="2 ways", ways=2, items=(), round=1), S)
    assert line(live, 2 * S, "en") == "round 1/3 · 2 ways · 0 done"
    live.progress.total = 6
    live.ended(ended(1, 10 * S))
    live.sample({"source": "host", "data": {"mem_available_bytes": 30 * GIB}})
    assert line(live, 10 * S, "en") == "round 1/3 · 2 ways · 1/6 done · 10.1 tok/s · about 0:50 left · MemAvailable 30.0 GiB"


def _beat(second: int, worker: str, *, tokens: int) -> Heartbeat:
    return Heartbeat(
        at_ns=second * S, in_flight=1, cpu_ns=0, loop_late_max_ns=0, rss_bytes=0, tokens_total=tokens, worker=worker
    )
