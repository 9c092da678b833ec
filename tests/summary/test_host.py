"""The host axis: rules, gaps, and who is charged."""

from dataclasses import replace

import pytest

from loadkit import verdict
from loadkit.summary import summarise
from recorded import GIB, beats, record, run, sample, watched

LONG = {"events": (2000, 8000, 18000), "end": 18000}
ONE = record("one", sent=1000, **LONG)


def judged(samples, *, records=(ONE,), asked=True, **changes):
    changes.setdefault("heartbeats", beats(0, 20000))
    return summarise(run(list(records), samples=samples, manifest={"asked": {"host": asked}}, **changes), selftest=None)


def test_quiet_samples_are_a_stable_host():
    """oom_kill, boot id, server identity, kernel log, no gap."""
    summary = judged(watched(0, 20000))
    assert (summary.host.state, summary.requests[0].host) == ("stable", "stable")
    assert verdict.judge(summary).exit_code == 0


def test_without_a_kernel_log_it_says_so():
    """Stable, with the note of the method."""
    summary = judged([one for one in watched(0, 20000) if one.source != "kernel"])
    assert "HOST stable (kernel log not seen)" in verdict.judge(summary).headline


def test_no_sidecar_is_unverified_and_asking_for_it_makes_six():
    """Missing evidence is never a pass; a sidecar nobody asked for does not make 6."""
    assert verdict.judge(judged([])).exit_code == 6
    assert verdict.judge(judged([], asked=False)).exit_code == 0
    assert judged([]).host.reasons == ("no sidecar",)


def test_a_run_that_sent_nothing_does_not_blame_its_sidecar():
    """It was there, and so may be the guard that stopped the run before its first request."""
    nothing = judged(watched(0, 5000), records=())
    assert nothing.host.reasons == ("no request in flight",)
    assert not any("counters" in sentence for sentence in nothing.not_verified)


@pytest.mark.parametrize(
    ("sources", "why"),
    [((), ""), (("kernel",) * 2, ""), (("kernel", "read"), "some requests have"), (("read",) * 2, "stamps are the client's")],
)
def test_stamps_that_are_read_times_are_told(sources, why):
    """Of all requests or of some; where none was measured there is nothing to tell."""
    records = [replace(ONE, id=f"r{number}", stamp_source=source) for number, source in enumerate(sources)]
    said = [one for one in judged([], records=records).not_verified if one.startswith("Stamp error")]
    assert [why in sentence for sentence in said] == ([True] if why else [])


@pytest.mark.parametrize(
    ("looks", "why"),
    [
        ((), "were not seen."),
        ((1500, 19000), "only after the first request"),
        ((500, 9000), "not seen after the last request"),
        ((500, 19000), ""),
    ],
)
def test_counters_that_were_not_seen_say_which_side_is_missing(looks, why):
    """A sidecar that joined late is told apart from none."""
    looked = [sample("server", ms, generation_tokens=number) for number, ms in enumerate(looks)]
    found = judged([*watched(0, 20000), *looked])
    said = [sentence for sentence in found.not_verified if "counters" in sentence]
    assert [why in sentence for sentence in said] == ([True] if why else [])


def container(ms, **data):
    return sample("container", ms, **{"name": "v", "id": "c1", "running": True, "started_at": "t1", **data})


RISE = [
    *watched(0, 5000),
    *watched(6000, 20000, oom_kill=7),
]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ([sample("kernel", 5500, event="oom_kill", comm="wireplumber", pid=9)], "kernel killed wireplumber"),
        ([sample("kernel", 5500, event="memcg_kill", comm="eat", pid=9)], "in a cgroup"),
        ([sample("cgroup", 5000, path="/x", oom_kill=0), sample("cgroup", 6000, path="/x", oom_kill=1)], "cgroup oom_kill +1"),
        (
            [
                container(5000, oom_killed=False),
                container(6000, oom_killed=True),
                sample("cgroup", 5000, path="/x", oom_kill=0),
                sample("cgroup", 6000, path="/x", oom_kill=1),
            ],
            "container v was OOM-killed",
        ),
        (
            [
                container(5000, restart_count=0),
                container(6000, restart_count=1),
            ],
            "restarted (0 → 1)",
        ),
        (
            [
                container(5000, pid=5),
                container(6000, pid=6),
            ],
            "another process",
        ),
        ([sample("server", 6500, process_start_time_s=99.0, server_seen=True)], "server restarted"),
        ([sample("recorder", 6500, boot_id="boot-2")], "rebooted"),
        ([sample("kernel", 5500, event="xid", text="Xid 79")], "GPU fault"),
    ],
)
def test_each_rule_alone_makes_the_host_unstable(extra, words):
    """Any one of them, and the run fails with 4 although every answer came."""
    summary = judged([*watched(0, 20000), *extra])
    assert summary.host.state == "unstable"
    assert words in " ".join(summary.host.reasons)
    assert verdict.judge(summary).exit_code == 4


def test_a_rise_is_charged_to_every_request_in_flight_between_the_two_samples():
    """Requests that ended before the last good sample, or began after the first bad one, are not charged."""
    before = record("before", sent=1000, events=(1500,), tokens=(1,))
    across = record("across", sent=2000, events=(9000,), tokens=(1,))
    after = record("after", sent=9000, events=(9500,), tokens=(1,))
    summary = judged(RISE, records=[before, across, after])
    assert summary.host.events[0].charged == ("across",)
    assert [request.host for request in summary.requests] == ["stable", "unstable", "stable"]
    assert summary.host.events[0].text == "oom_kill +4"


def test_a_lost_request_is_charged_until_the_last_sign_of_life():
    """The client died while the request was in flight."""
    gone = record("gone", sent=4000)
    summary = judged(RISE, lost=[gone])
    assert "gone" in summary.host.events[0].charged


@pytest.mark.parametrize(("silent", "state"), [(True, "unstable"), (False, "unverified")])
def test_a_gap_is_unstable_only_if_the_engine_was_silent_too(silent, state):
    """A gap while the engine ran on is the sidecar's failure."""
    heartbeats = (*beats(0, 5000), *beats(13000, 20000)) if silent else beats(0, 20000)
    summary = judged([*watched(0, 5000), *watched(13000, 20000)], heartbeats=heartbeats)
    assert summary.host.state == state
    assert summary.requests[0].host == state


def test_a_sidecar_that_died_is_a_gap_to_the_end():
    """Its last sample lies more than 5 s before the end of the run."""
    summary = judged(watched(0, 6000))
    assert (summary.host.state, verdict.judge(summary).exit_code) == ("unverified", 6)


def test_a_tunnel_is_no_evidence():
    """The sidecar does not see the server's own process."""
    samples = [replace(one, data={"server_seen": False}) if one.source == "server" else one for one in watched(0, 20000)]
    assert judged(samples).host.reasons == ("server not on this host",)


@pytest.mark.parametrize(
    ("data", "event"),
    [({"mem_available_bytes": 3 * GIB}, None), ({"psi_memory_full_avg10": 12.0}, None), ({}, "nv_err_no_memory")],
)
def test_weak_signs_are_suspect_and_no_verdict(data, event):
    """Low memory, pressure and driver lines alone: inconclusive where the host was asked for."""
    extra = [sample("kernel", 5000, event=event)] if event else []
    summary = judged([*watched(0, 4000), *watched(5000, 6000, **data), *watched(7000, 20000), *extra])
    assert (summary.host.state, verdict.judge(summary).exit_code) == ("suspect", 6)


def test_an_xid_around_a_stop_that_we_asked_for_is_none():
    """Stopping the container ends its GPU channel."""
    stop = sample("guard", 5000, level="ok", action="stopping", armed=False)
    summary = judged([*watched(0, 20000), stop, sample("kernel", 6000, event="xid", text="Xid 43")])
    assert summary.host.state == "stable"


def test_the_false_oom_flag_of_a_sibling_is_no_event():
    """The kernel's log is seen, and names no process of this container."""
    flagged = [container(5000, oom_killed=False), container(6000, oom_killed=True)]
    summary = judged([*watched(0, 20000), *flagged])
    assert summary.host.state == "stable"
    assert [one.kind for one in summary.host.told] == ["false_oom_flag"]


def test_a_container_stop_that_was_announced_is_no_event():
    """Somebody told the sidecar to expect it."""
    docker = sample("container", 5500, event="docker", action="die", exit_code=0, expected=True)
    summary = judged([*watched(0, 20000), container(5000, pid=5), docker, container(6000, running=False, pid=0)])
    assert summary.host.state == "stable"


def test_events_before_the_run_are_the_baseline():
    """A kill before the first request is not ours."""
    assert judged([*watched(-50000, -40000), *watched(-39000, 20000, oom_kill=9)]).host.state == "stable"


def test_the_lowest_memory_of_each_request_is_known():
    """Sampled while it ran."""
    summary = judged([*watched(0, 4000), *watched(5000, 6000, mem_available_bytes=5 * GIB), *watched(7000, 20000)])
    assert (summary.requests[0].mem_available_min_bytes, summary.host.mem_available_min_bytes) == (5 * GIB, 5 * GIB)


def test_the_guards_abort_makes_four():
    """An aborted run whose guard stopped it is a host verdict, not an ordinary abort."""
    guard = sample("guard", 9000, level="abort", armed=True, reason="MemAvailable 3.1 GiB for 1 s")
    summary = judged([*watched(0, 20000), guard])
    assert verdict.judge(summary).exit_code == 4
    assert "guard: MemAvailable 3.1 GiB" in verdict.judge(summary).headline
