"""Incidents told apart from samples alone: those that no test machine can play, and damaged files."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loadkit.incidents import Incident, find
from loadkit.kernel_log import parse
from loadkit.record import Sample
from loadkit.sidecar.kernel import data_of
from sidecar.clocks import sample

RECORDED = Path(__file__).parent / "fixtures" / "kernel_log"
GIB = 1 << 30
ID = "4f1d0c5a9b7e"


def host(at_s: float, available_gib: float = 20, oom_kill: int = 0, **more: Any) -> Sample:
    return sample("host", at_s, mem_available_bytes=int(available_gib * GIB), oom_kill=oom_kill, **more)


def container(at_s: float, **changes: Any) -> Sample:
    state = {"id": ID, "name": "vllm", "running": True, "started_at": "a", "pid": 900, "restart_count": 0,
             "oom_killed": False, "exit_code": 0}  # fmt: skip
    return sample("container", at_s, **(state | changes))


def docker(at_s: float, action: str, **more: Any) -> Sample:
    return sample("container", at_s, event="docker", action=action, id=ID, name="vllm", **more)


def kernel(at_s: float, name: str) -> list[Sample]:
    """A recorded log as the sidecar would have written it."""
    lines = (RECORDED / name).read_text().splitlines()
    return [sample("kernel", at_s, **data_of(event)) for line in lines if (event := parse(line))]


def kinds(samples: list[Sample]) -> list[str]:
    return [incident.kind for incident in find(samples)]


def named(samples: list[Sample], kind: str) -> Incident:
    return next(incident for incident in find(samples) if incident.kind == kind)


WATCHING = sample("kernel", 0, event="watching", how="/dev/kmsg")


def test_the_eager_260k_run():
    """Four audio processes killed by the host while the model answered on: one incident, with its number and names."""
    samples = [
        WATCHING,
        host(1),
        host(2, 0.139),
        *kernel(2.2, "global_oom.journal.txt"),
        host(2.5, 1.2, oom_kill=4),
        container(3),
    ]
    found = named(samples, "global_oom")
    assert found.words == "the host ran out of memory: the kernel killed 4 process(es) (wireplumber, pipewire-pulse, pipewire)"
    assert found.grave
    assert kinds(samples) == ["low_memory", "global_oom"]


def test_a_global_oom_that_takes_the_container():
    """The graph side: the host's OOM killed the server; not the container's own limit."""
    samples = [
        WATCHING, host(1), container(1),
        sample("kernel", 2, event="oom_constraint", constraint="CONSTRAINT_NONE", global_oom=True, pid=900,
               comm="VLLM::EngineCor", cgroup=f"/system.slice/docker-{ID}.scope"),
        sample("kernel", 2, event="oom_kill", pid=900, comm="VLLM::EngineCor"),
        host(2.2, oom_kill=1), docker(2.4, "die", exit_code=137), container(3, running=False, exit_code=137, oom_killed=True),
    ]  # fmt: skip
    assert kinds(samples) == ["global_oom", "container_died"]
    assert named(samples, "container_died").words == "the container died of memory (exit code 137)"


def test_without_the_kernels_log_the_counter_speaks():
    """oom_kill rose and nobody is named: said so, and why."""
    samples = [host(1, oom_kill=3), host(2, oom_kill=5)]
    assert named(samples, "oom_unnamed").words == (
        "oom_kill +2: the kernel killed 2 process(es) for memory (the kernel log is not seen)"
    )


def test_without_the_kernels_log_the_cgroup_says_that_it_was_ours():
    """cgroup v2: memory.events of the container names its victim."""
    samples = [
        host(1), sample("cgroup", 1, oom_kill=0), container(1),
        host(2, oom_kill=1), sample("cgroup", 2, oom_kill=1), container(2),
    ]  # fmt: skip
    assert kinds(samples) == ["cgroup_oom"]


def test_an_old_flag_is_no_evidence():
    """OOMKilled was true before the run: sticky over restarts."""
    samples = [WATCHING, host(1), container(1, oom_killed=True), container(2, oom_killed=True)]
    assert [(one.kind, one.grave) for one in find(samples)] == [("old_oom_flag", False)]


def test_a_watchdog_in_user_space_is_not_the_kernel():
    """earlyoom's and systemd-oomd's victims leave no counter."""
    samples = [WATCHING, host(1), *kernel(2, "userspace_killers.short-iso.txt")]
    assert kinds(samples) == ["userspace_kill", "userspace_kill"]
    assert named(samples, "userspace_kill").words == "a watchdog in user space killed VLLM::EngineCor, not the kernel"


def test_the_drivers_lines():
    """A failed allocation is to be known; an Xid is grave."""
    found = [(one.kind, one.grave) for one in find([WATCHING, host(1), *kernel(2, "gb10_nvrm.dmesg.txt")])]
    assert found == [
        ("nv_err_no_memory", False),
        ("nv_err_no_memory", False),
        ("xid", True),
        ("xid", True),
        ("hung_task", False),
    ]


def test_137_without_a_sign_is_unexplained():
    """No order, no counter, no line: somebody sent SIGKILL, and that is all that is known."""
    samples = [WATCHING, host(1), container(1), host(2), docker(2, "die", exit_code=137)]
    assert named(samples, "killed_unexplained").words == "exit code 137: somebody sent SIGKILL; no sign of memory"


def test_another_boot_is_a_reboot():
    """The clock began anew in between: wall time puts the two in order."""
    later = Sample(source="host", monotonic_ns=5, wall_ns=host(9).wall_ns, boot_id="another", data={})
    assert kinds([host(1), host(2), later]) == ["reboot"]


def test_pressure_is_told_when_it_begins():
    """Once per stretch, not once per sample."""
    samples = [host(at, psi_memory_full_avg10=value) for at, value in enumerate((0, 12, 30, 11, 2, 40))]
    assert kinds(samples) == ["memory_pressure", "memory_pressure"]


def test_a_quiet_run_has_none():
    """Nothing happened: nothing is told."""
    assert kinds([WATCHING, *(host(at) for at in range(20)), *(container(at) for at in range(20))]) == []


values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
KEYS = [
    "event", "id", "running", "oom_kill", "oom_killed", "restart_count", "started_at", "pid", "action", "exit_code",
    "mem_available_bytes", "psi_memory_full_avg10", "cgroup", "constraint", "comm", "level", "armed", "restarted",
    "expected", "signal",
]  # fmt: skip
WORDS = ["docker", "die", "kill", "oom", "oom_kill", "memcg_kill", "oom_constraint", "abort", "baseline"]
data = st.dictionaries(st.sampled_from(KEYS), st.one_of(values, st.sampled_from(WORDS)))
damaged = st.builds(
    Sample,
    source=st.sampled_from(["host", "kernel", "container", "cgroup", "server", "guard"]),
    monotonic_ns=st.integers(0, 10**12),
    wall_ns=st.integers(0, 10**12),
    boot_id=st.sampled_from(["a", "b"]),
    data=data,
)


@given(st.lists(damaged, max_size=30))
def test_no_file_makes_it_stumble(samples: list[Sample]):
    """Whatever a damaged folder holds: a report is made."""
    for incident in find(samples):
        assert incident.words
