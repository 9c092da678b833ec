"""The guard's judgement, on recorded courses of memory and on made-up ones; minutes run in no time."""

from hypothesis import given
from hypothesis import strategies as st

from loadkit.record import Sample
from loadkit.sidecar.watchman import GIB, Judgement, Thresholds, Watchman
from sidecar.clocks import sample


def course(*available_gib: float, step_s: float = 0.25, oom_kill: int = 0) -> list[Sample]:
    """Host samples every quarter of a second."""
    return [
        sample("host", 100 + number * step_s, mem_available_bytes=int(gib * GIB), oom_kill=oom_kill)
        for number, gib in enumerate(available_gib)
    ]


def seen(samples: list[Sample], watchman: Watchman | None = None) -> list[Judgement]:
    watchman = watchman or Watchman(Thresholds(), needs_server=False)
    return [watchman.see(one) for one in samples]


def levels(samples: list[Sample]) -> list[str]:
    return [judgement.level for judgement in seen(samples)]


def slow(begin: float, end: float, step: float) -> list[float]:
    """A fall so slow that zero is far away."""
    count = int((begin - end) / step) + 1
    return [begin - step * number for number in range(count)]


def test_levels_fall_with_memory():
    """ok, warn, stop_new; abort only after the hold."""
    assert levels(course(20, 7.9, 5.9, 3.9))[0:3] == ["ok", "warn", "stop_new"]
    assert levels(course(*[3.9] * 4))[-1] != "abort"
    assert levels(course(*[3.9] * 5))[-1] == "abort"


def test_a_dip_shorter_than_the_hold_is_no_abort():
    """One reading above the threshold begins the second anew."""
    assert "abort" not in levels(course(3.9, 3.9, 3.9, 3.9, 4.1, 3.9, 3.9, 3.9, 3.9))


def test_stop_new_is_kept_until_above_warn():
    """Memory between the levels does not let new requests out again; above warn it does."""
    assert levels(course(5.9, 6.5, 7.9, 8.1)) == ["stop_new", "stop_new", "stop_new", "ok"]


def test_the_collapse_of_a_spark_is_stopped_at_half_way():
    """29 → 2.5 GiB in 9 s was too fast for a threshold alone: the slope sees it with more than 18 GiB left."""
    step = (29 - 2.5) / 36
    judgements = seen(course(*[29.0] * 12, *(29 - step * number for number in range(1, 37))))
    first = next(one for one in judgements if one.level == "abort")
    assert first.mem_available_bytes is not None
    assert first.mem_available_bytes > 18 * GIB
    assert "reaches zero in" in first.reason


def test_the_first_request_of_a_server_is_no_collapse():
    """4.4 GiB within a second, then flat (compilation at the first request): a step is no fall."""
    assert set(levels(course(*[18.0] * 10, 17, 15.9, 14.8, 13.7, *[13.6] * 20))) == {"ok"}


def test_loading_a_model_is_no_collapse():
    """Before the server has answered, a steep fall is its start; afterwards the same fall is an incident."""
    fall = [100 - 0.9 * number for number in range(100)]
    loading = Watchman(Thresholds(), needs_server=True)
    assert {judgement.level for judgement in seen(course(*fall), loading)} == {"ok"}
    running = Watchman(Thresholds(), needs_server=True)
    running.see(sample("server", 99, up=True))
    assert seen(course(*fall), running)[-1].level == "abort"


def test_the_fall_of_the_earlier_experiment_is_seen_without_swap():
    """260K eager: down to 0.139 GiB with 0.4 GiB of swap; the old guard wanted swap traffic and never fired."""
    assert levels(course(*slow(18, 0.14, 0.1)))[-1] == "abort"


def test_a_process_that_was_killed_aborts_at_once():
    """oom_kill +4 while memory looks fine again."""
    judgements = seen([*course(20, 20), *course(19, oom_kill=4)])
    assert (judgements[-1].level, judgements[-1].reason) == (
        "abort",
        "the kernel killed 4 process(es) for memory (oom_kill 4)",
    )


def test_kills_before_the_start_do_not_count():
    """The counter is since boot: only its rise says something."""
    assert levels(course(20, 20, oom_kill=7)) == ["ok", "ok"]


def test_a_line_of_the_kernel_aborts():
    """CONSTRAINT_NONE comes before the counter's next reading."""
    watchman = Watchman(Thresholds(), needs_server=False)
    line = sample("kernel", 5, event="oom_constraint", constraint="CONSTRAINT_NONE", comm="wireplumber")
    assert watchman.see(line).reason == "the host is out of memory: the kernel killed wireplumber"


def test_a_driver_line_alone_does_nothing():
    """Three good starts had one NV_ERR_NO_MEMORY each (vllm#56824)."""
    watchman = Watchman(Thresholds(), needs_server=False)
    assert watchman.see(sample("kernel", 5, event="nv_err_no_memory", text="NVRM: …")).level == "ok"


def running(at_s: float, started: str = "2026-09-17T15:00:00Z", *, alive: bool = True) -> Sample:
    return sample("container", at_s, id="4f1d", name="vllm", running=alive, started_at=started, exit_code=0 if alive else 137)


def test_a_container_that_dies_aborts_unless_it_was_announced():
    """An unasked end is an incident; one that was announced is none."""
    assert levels([running(1), running(2, alive=False)]) == ["ok", "abort"]
    watchman = Watchman(Thresholds(), needs_server=False)
    watchman.see(running(1))
    watchman.expect_stop(int(60e9))
    assert watchman.see(running(2, alive=False)).level == "ok"


def test_a_restart_by_policy_aborts():
    """Between two looks it died and came back: the start time tells."""
    assert levels([running(1), running(2, "2026-09-17T15:01:00Z")]) == ["ok", "abort"]


def test_a_new_baseline_forgets_the_abort():
    """After an experiment's restart the count begins anew, and old kills are history."""
    watchman = Watchman(Thresholds(), needs_server=False)
    seen([*course(20), *course(20, oom_kill=4)], watchman)
    watchman.rebaseline()
    assert [one.level for one in seen(course(20, 20, oom_kill=4), watchman)] == ["ok", "ok"]


def test_after_an_abort_memory_is_still_followed():
    """The brake needs the figure to see whether it gets worse, or better."""
    judgements = seen(course(*[3.9] * 6, 1.0, 19.0))
    assert [(one.level, (one.mem_available_bytes or 0) >> 30) for one in judgements[-2:]] == [("abort", 1), ("abort", 19)]


@given(st.lists(st.floats(min_value=8.01, max_value=120), min_size=1, max_size=60), st.integers(0, 100))
def test_a_host_with_memory_that_rises_is_left_alone(gibs: list[float], kills: int):
    """However memory jumps: rising or flat above warn is never more than ok."""
    assert set(levels(course(*sorted(gibs), oom_kill=kills))) == {"ok"}


@given(st.lists(st.floats(min_value=0.01, max_value=120), min_size=1, max_size=80))
def test_abort_is_for_ever(gibs: list[float]):
    """Whatever memory does afterwards."""
    found = levels(course(*gibs))
    assert "abort" not in found or set(found[found.index("abort") :]) == {"abort"}


@given(st.lists(st.floats(min_value=0.01, max_value=120), min_size=5, max_size=80))
def test_a_second_below_the_threshold_never_goes_unseen(gibs: list[float]):
    """Five readings in a row below 4 GiB (one second) always abort."""
    found = levels(course(*gibs))
    for end in range(5, len(gibs) + 1):
        if all(int(gib * GIB) < 4 * GIB for gib in gibs[end - 5 : end]):
            assert found[end - 1] == "abort"
