"""The gate between launches, and what is read from the host."""

from dataclasses import replace
from pathlib import Path

import psutil

from loadkit.clock import SystemClock
from loadkit.experiment.host import Demands, HostState, look, new_kills, oom_kill, wait_at_gate

SOURCE = Path("/proc")


def now_s() -> float:
    return SystemClock.monotonic_ns() / 1e9


def demands(baseline: HostState, **changes) -> Demands:
    slack = 0.5 * psutil.virtual_memory().total
    return replace(Demands(baseline=baseline, slack_bytes=slack, quiet_s=0, still_running=lambda: None), **changes)


def test_the_host_is_read_from_proc():
    """Memory, kills and boot id of this host."""
    state = look()
    assert 0 < state.mem_available_bytes <= psutil.virtual_memory().total
    assert len(state.boot_id) == 36
    assert HostState.of(state.facts()) == state


def test_a_kernel_without_the_counter_is_unknown_and_not_zero(tmp_path):
    """`None`, from a recorded tree of /proc."""
    (tmp_path / "vmstat").write_text("nr_free_pages 1\n")
    assert oom_kill(tmp_path) is None
    (tmp_path / "vmstat").write_text("nr_free_pages 1\noom_kill 7\n")
    assert oom_kill(tmp_path) == 7


def test_an_idle_host_passes():
    """Nothing runs and memory is there."""
    assert wait_at_gate(demands(look()), limit_s=5, orders=None, now_s=now_s).open


def test_memory_that_does_not_come_back_closes_the_gate():
    """A baseline beyond what is there: closed after the limit, with the reason in words."""
    baseline = replace(look(), mem_available_bytes=psutil.virtual_memory().total * 2)
    gate = wait_at_gate(demands(baseline, slack_bytes=1 << 30), limit_s=0.3, orders=None, now_s=now_s)
    assert not gate.open
    assert "below the baseline" in gate.reasons[0]


def test_a_server_that_still_runs_closes_the_gate():
    """It is named."""
    running = demands(look(), still_running=lambda: "a server at http://x")
    assert wait_at_gate(running, limit_s=0.3, orders=None, now_s=now_s).reasons == ("a server at http://x still runs",)


def test_the_gate_opens_when_the_server_has_gone():
    """Waiting is looking again."""
    answers = iter(["a server", "a server", None])
    gone = demands(look(), still_running=lambda: next(answers, None))
    assert wait_at_gate(gone, limit_s=30, orders=None, now_s=now_s).open


def test_kills_are_counted_within_one_boot():
    """After a reboot the counter starts anew: no rise can be told."""
    before = replace(look(), oom_kill=3, boot_id="one")
    assert new_kills(before, replace(before, oom_kill=5)) == 2
    assert new_kills(before, replace(before, oom_kill=5, boot_id="two")) == 0
    assert new_kills(before, replace(before, oom_kill=None)) == 0
