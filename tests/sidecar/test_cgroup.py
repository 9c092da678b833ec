"""Both versions of the memory cgroup, from recorded trees."""

from pathlib import Path

import pytest

from loadkit.sidecar.cgroup import Cgroup, place
from loadkit.sidecar.samples import Missing

RECORDED = Path(__file__).parents[1] / "fixtures" / "cgroup"


def look(tmp_path: Path, lines: str, root: Path) -> dict[str, object]:
    (tmp_path / "29351").mkdir()
    (tmp_path / "29351" / "cgroup").write_text(lines)
    (data,) = Cgroup(lambda: 29351, proc=tmp_path, root=root).look()
    return data


def test_version_2_counts_kills_and_has_no_limit(tmp_path: Path):
    """memory.events of a systemd scope; `max` is no limit, not a number."""
    data = look(tmp_path, "0::/system.slice/docker-4f1d0c5a9b7e.scope\n", RECORDED / "v2")
    path = str(RECORDED / "v2/system.slice/docker-4f1d0c5a9b7e.scope")
    assert data == {"path": path, "version": 2, "oom": 2, "oom_kill": 1, "current_bytes": 17931698176}


def test_version_1_counts_kills_and_has_a_limit(tmp_path: Path):
    """memory.oom_control and failcnt of Docker's cgroupfs driver."""
    data = look(tmp_path, "11:memory:/docker/4f1d0c5a9b7e\n0::/\n", RECORDED / "v1")
    assert (data["version"], data["oom"], data["oom_kill"]) == (1, 31, 1)
    assert (data["current_bytes"], data["limit_bytes"]) == (66060288, 67108864)


def test_a_hybrid_host_keeps_memory_in_version_1(tmp_path: Path):
    """The unified hierarchy is mounted as well, but the controller is not there."""
    assert place("4:cpu,memory:/a\n0::/b\n", tmp_path) == (tmp_path / "memory" / "a", 1)


def test_from_within_a_namespace_of_ones_own(tmp_path: Path):
    """In a container the path of another is relative to one's own: it is found by its name below the mounted tree."""
    data = look(tmp_path, "0::/../docker-4f1d0c5a9b7e.scope\n", RECORDED / "v2")
    assert (data["oom_kill"], data["path"]) == (1, str(RECORDED / "v2/system.slice/docker-4f1d0c5a9b7e.scope"))


def test_a_process_without_memory_cgroup_is_said(tmp_path: Path):
    """A cgroup file that names no memory controller gives a reason, not a path."""
    with pytest.raises(Missing, match="no memory cgroup"):
        place("3:cpu:/a\n", tmp_path)


def test_a_container_that_does_not_run_is_said(tmp_path: Path):
    """No process, no cgroup: a reason, not a zero."""
    with pytest.raises(Missing, match="does not run"):
        Cgroup(lambda: 0, proc=tmp_path).look()


def test_a_process_that_is_gone_is_said(tmp_path: Path):
    """Its PID may vanish between two looks."""
    with pytest.raises(Missing, match="--pid host"):
        Cgroup(lambda: 1, proc=tmp_path).look()
