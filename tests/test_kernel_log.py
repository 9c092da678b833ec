"""Kernel lines: who was killed, why, and by whom, from any of the programs that print them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.kernel_log import KernelEvent, parse

RECORDED = Path(__file__).parent / "fixtures" / "kernel_log"
SEPTEMBER_2026 = int(datetime(2026, 9, 30, tzinfo=UTC).timestamp()) * 1_000_000_000


def events_in(name: str, near_wall_ns: int | None = None) -> list[KernelEvent]:
    lines = (RECORDED / name).read_text().splitlines()
    return [event for line in lines if (event := parse(line, near_wall_ns=near_wall_ns)) is not None]


def test_a_global_oom_names_every_victim():
    """Four processes of the audio session died, and the host itself was out of memory."""
    events = events_in("global_oom.journal.txt")
    killed = [(event.comm, event.anon_rss_kb) for event in events if event.event == "oom_kill"]
    assert killed == [("wireplumber", 7680), ("pipewire-pulse", 5376), ("pipewire", 3328), ("pipewire", 2944)]


def test_a_global_oom_is_told_by_its_constraint():
    """CONSTRAINT_NONE with global_oom is the host, and the victim's cgroup names the unit to look after."""
    constraint = next(event for event in events_in("global_oom.journal.txt") if event.event == "oom_constraint")
    assert (constraint.constraint, constraint.global_oom, constraint.comm) == ("CONSTRAINT_NONE", True, "wireplumber")
    assert constraint.cgroup == "/user.slice/user-1000.slice/user@1000.service/session.slice/wireplumber.service"


def test_systemd_says_which_unit_lost_a_process():
    """Both of systemd's sentences about a victim are one kind of event."""
    units = [event.cgroup for event in events_in("global_oom.journal.txt") if event.event == "unit_oom"]
    assert units == ["wireplumber.service", "wireplumber.service"]


def test_a_cgroup_oom_is_not_a_host_oom():
    """A container over its own limit has its own words, and the raw record keeps number and stamp."""
    events = events_in("memcg_oom.kmsg.txt")
    assert [event.event for event in events] == ["oom_invoked", "oom_constraint", "memcg_kill"]
    constraint, killed = events[1:]
    assert (constraint.constraint, constraint.limit_cgroup, constraint.global_oom) == (
        "CONSTRAINT_MEMCG",
        "/docker/4f1d0c5a9b7e",
        False,
    )
    assert (killed.seq, killed.boot_us, killed.pid, killed.comm, killed.anon_rss_kb) == (426, 1409232369, 29351, "eat", 64768)


def test_driver_lines_are_told_apart():
    """A failed allocation of the driver is not a fault of the GPU, and a fault carries its code."""
    events = events_in("gb10_nvrm.dmesg.txt")
    assert [event.event for event in events] == ["nv_err_no_memory", "nv_err_no_memory", "xid", "xid", "hung_task"]
    assert [(event.code, event.pid, event.comm) for event in events[2:4]] == [(31, 2702, "VLLM::EngineCor"), (119, None, None)]
    assert events[0].boot_us == 5123_441092


def test_killers_in_user_space_are_named():
    """earlyoom and systemd-oomd leave no kernel counter: their own lines are the only evidence."""
    events = events_in("userspace_killers.short-iso.txt")
    assert [event.event for event in events] == ["userspace_kill", "userspace_kill", "unit_oom"]
    assert events[0].wall_ns == int(datetime(2026, 9, 17, 15, 50, 12, tzinfo=UTC).timestamp()) * 1_000_000_000
    assert events[2].wall_ns == int(datetime(2026, 9, 17, 15, 50, 14, tzinfo=UTC).timestamp()) * 1_000_000_000 + 250_000_000


def test_journal_json_with_odd_bytes():
    """A message that is no UTF-8 comes as a list of bytes and is still a kill."""
    events = events_in("global_oom.json.txt")
    assert [event.event for event in events] == ["oom_kill", "oom_kill"]
    assert (events[0].wall_ns, events[0].boot_us) == (1789659031123456000, 51231123456)


def test_a_date_without_a_year_is_the_nearest():
    """`journalctl -k` prints no year; without a hint the time is unknown, never invented."""
    assert events_in("global_oom.journal.txt")[0].wall_ns is None
    wall_ns = events_in("global_oom.journal.txt", SEPTEMBER_2026)[0].wall_ns
    assert wall_ns is not None
    assert datetime.fromtimestamp(wall_ns / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S") == "2026-09-17 23:28:31"


@pytest.mark.parametrize(
    "line",
    [
        "Sep 17 23:28:31 spark kernel: docker0: port 1(veth1) entered blocking state",
        "6,1,2,-;zoom: room is booming",
        '{"MESSAGE": "Out of memory: Kil',
        "",
        "random: crng init done",
    ],
)
def test_other_lines_say_nothing(line: str):
    """Lines without an event, also cut ones, are passed over."""
    assert parse(line) is None


@given(st.text(max_size=300))
def test_no_text_makes_it_stumble(text: str):
    """The kernel log holds whatever drivers print: parsing never raises."""
    parse(text)
    parse("oom-kill:constraint=" + text)
    parse(f"[Thu Sep 17 23:28:31 2026] Out of memory: Killed process 1 ({text}")


@given(comm=st.text(st.characters(exclude_categories=("Cs", "Zl", "Zp", "Cc")), min_size=1, max_size=15))
def test_a_name_with_brackets_keeps_its_pid(comm: str):
    """A process may call itself anything; the pid before it is still right."""
    event = parse(f"Out of memory: Killed process 77 ({comm}) total-vm:1kB, anon-rss:12kB, file-rss:0kB")
    assert event is not None
    assert (event.pid, event.anon_rss_kb) == (77, 12)
