"""The host's figures from a recorded /proc, and from the real one."""

from pathlib import Path

import pytest

from loadkit.sidecar.host import Host, cpu_times, oom_kills
from loadkit.sidecar.samples import KEYS, Missing
from sidecar.clocks import JumpingClock, S

SPARK = Path(__file__).parents[1] / "fixtures" / "proc" / "spark"


def test_a_recorded_host_under_pressure():
    """Every figure of a Spark near its end, in bytes, with swap used as total − free."""
    (data,) = Host(SPARK).look()
    assert data == {
        "mem_total_bytes": 127599580 * 1024,
        "mem_available_bytes": 7 << 30,
        "mem_free_bytes": 1468040 * 1024,
        "cached_bytes": 6 << 30,
        "swap_total_bytes": 16777212 * 1024,
        "swap_used_bytes": (16777212 - 16357900) * 1024,
        "psi_memory_some_avg10": 23.41,
        "psi_memory_full_avg10": 12.5,
        "psi_memory_some_total_us": 184467440,
        "psi_memory_full_total_us": 92233720,
        "oom_kill": 4,
        "load1": 3.5,
    }


def test_waiting_for_the_disk_is_idle():
    """Busy ticks leave out idle and iowait."""
    assert cpu_times(b"cpu  100 0 100 700 100 0 0 0 0 0\n") == (200, 1000)


def test_the_cpu_share_is_since_the_look_before(tmp_path: Path):
    """The first look has no share; the one a second later has that of the time in between."""
    (tmp_path / "meminfo").write_text("MemAvailable: 1 kB\n")
    (tmp_path / "stat").write_text("cpu  100 0 100 700 100 0 0 0 0 0\n")
    (tmp_path / "loadavg").write_text("1.0 1.0 1.0 1/1 1\n")
    clock = JumpingClock(10 * S)
    host = Host(tmp_path, clock=clock)
    first = host.look()[0]
    assert "load1" not in host.look()[0]  # a moment later
    clock.now_ns += S
    (tmp_path / "stat").write_text("cpu  175 0 100 725 100 0 0 0 0 0\n")
    assert ("cpu_percent" in first, host.look()[0]["cpu_percent"]) == (False, 75.0)


def test_a_kernel_without_psi_or_counter_leaves_them_out(tmp_path: Path):
    """psi=0 and kernels before 4.13: unknown, not 0."""
    (tmp_path / "meminfo").write_text("MemTotal: 2 kB\nMemAvailable: 1 kB\n")
    assert Host(tmp_path).look() == [{"mem_total_bytes": 2048, "mem_available_bytes": 1024}]
    assert oom_kills(b"nr_free_pages 1\n") == {}


def test_no_meminfo_is_said(tmp_path: Path):
    """A /proc that is none makes the source missing, with the path."""
    with pytest.raises(Missing, match="meminfo"):
        Host(tmp_path).look()


def test_this_host_is_read_with_documented_keys_only():
    """The real /proc gives what the table of keys says."""
    (data,) = Host().look()
    assert data["mem_available_bytes"] > 0
    assert data.keys() <= KEYS["host"].keys()
