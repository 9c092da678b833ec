"""The four incidents of the earlier experiments, replayed on a real engine, and told apart in words."""

import time

import pytest

from loadkit.incidents import Incident, find
from loadkit.record import Sample
from sidecar.engine import Engine, docker, eventually
from sidecar.sidecars import Running, Start

pytestmark = pytest.mark.docker


def watching(start: Start, name: str) -> Running:
    """A sidecar that has seen the container run (its baseline) and the kernel's log."""
    sidecar = start(container=name)
    sidecar.until(lambda one: one.data.get("event") == "baseline")
    sidecar.until(lambda one: one.source == "cgroup" and one.missing is None)
    sidecar.until(lambda one: one.source == "kernel")
    return sidecar


def engine_event(action: str, samples: list[Sample]) -> bool:
    return any(one.data.get("event") == "docker" and one.data["action"] == action for one in samples)


def story(sidecar: Running, *, settle_s: float = 2.5) -> dict[str, Incident]:
    """All incidents by kind, after the slower sources have had their turn."""
    time.sleep(settle_s)
    return {incident.kind: incident for incident in find(sidecar.samples())}


def waits_for(file: str, then: str) -> tuple[str, ...]:
    """A shell that begins when a file appears, so that the sidecar has its baseline before."""
    return ("sh", "-c", f"while [ ! -e {file} ]; do sleep 0.1; done; {then}")


def test_pid_1_over_its_limit(engine: Engine, start: Start):
    """Cgroup OOM: exit 137 and OOMKilled, the kernel names the limit, and it is the container's own."""
    name = engine.name("pid1")
    engine.run(name, *waits_for("/tmp/go", "exec tail /dev/zero"), flags=("--memory", "32m"))
    sidecar = watching(start, name)
    docker("exec", name, "touch", "/tmp/go")
    sidecar.until(lambda one: one.data.get("event") == "docker" and one.data["action"] == "die")
    found = story(sidecar)
    assert found["cgroup_oom"].words.startswith(
        "the container is over its memory limit: the kernel killed its PID 1, tail (pid "
    )
    assert found["container_died"].words == "the container died of memory (exit code 137)"
    assert found["cgroup_oom"].grave
    assert not found.keys() & {"global_oom", "killed_without_oom", "false_oom_flag"}


def test_a_child_dies_while_pid_1_lives(engine: Engine, start: Start):
    """The container goes on and OOMKilled stays false: only the kernel and the counters know."""
    name = engine.name("child")
    engine.run(name, *waits_for("/tmp/go", "tail /dev/zero; sleep 600"), flags=("--memory", "32m"))
    sidecar = watching(start, name)
    docker("exec", name, "touch", "/tmp/go")
    sidecar.until(lambda one: one.data.get("event") == "memcg_kill")
    found = story(sidecar)
    assert found["child_oom"].words.startswith("a child in the container was killed for memory while PID 1 lives: tail (pid ")
    assert sidecar.samples("container")[-1].data["running"] is True
    assert not found.keys() & {"cgroup_oom", "container_died", "global_oom"}
    assert max(one.data["oom_kill"] for one in sidecar.samples("cgroup") if one.missing is None) == 1


def test_docker_kill_is_no_oom(engine: Engine, start: Start):
    """Exit code 137 by an order: said as such, and nothing about memory."""
    name = engine.name("kill")
    engine.run(name, "sleep", "600", flags=("--memory", "64m"))
    sidecar = watching(start, name)
    docker("kill", name)
    sidecar.until(lambda one: one.data.get("event") == "docker" and one.data["action"] == "die")
    found = story(sidecar)
    assert found["killed_without_oom"].words == "the container was killed by order (signal 9, exit code 137), not for memory"
    assert not any("oom" in kind and kind != "killed_without_oom" for kind in found)


def test_an_announced_stop_is_no_incident(engine: Engine, start: Start):
    """`expect_stop` before the stop: written down, not grave."""
    name = engine.name("stop")
    engine.run(name, "sleep", "600")
    sidecar = watching(start, name)
    sidecar.client.expect_stop(for_s=60)
    docker("stop", "-t", "1", name)
    sidecar.until(lambda one: one.data.get("event") == "docker" and one.data["action"] == "die")
    found = story(sidecar)
    assert found["expected_stop"].grave is False
    assert not any(incident.grave for incident in found.values())


def test_a_restart_loop(engine: Engine, start: Start):
    """The policy starts it again and again: a loop, counted, with its cause."""
    name = engine.name("loop")
    engine.run(name, "sh", "-c", "sleep 2; exec tail /dev/zero", flags=("--memory", "32m", "--restart", "unless-stopped"))
    sidecar = watching(start, name)
    sidecar.until(lambda one: one.data.get("restart_count", 0) >= 3, within_s=60)
    found = story(sidecar)
    assert found["restart_loop"].words.startswith("a restart loop: the container was started ")
    assert "cgroup_oom" in found
    assert "container_restarted" not in found


def test_a_siblings_oom_is_not_ours(engine: Engine, start: Start):
    """Two containers under one limited parent: the innocent one is flagged OOMKilled all the same."""
    parent = f"/loadkit-test-{engine.name('parent')}"
    innocent, hog = engine.name("innocent"), engine.name("hog")
    engine.run(innocent, "sleep", "600", flags=("--cgroup-parent", parent))
    limit_of_parent(parent, 64 << 20)
    sidecar = watching(start, innocent)
    engine.run(hog, *waits_for("/tmp/go", "exec tail /dev/zero"), flags=("--cgroup-parent", parent))
    docker("exec", hog, "touch", "/tmp/go")
    sidecar.until(lambda one: one.data.get("event") == "memcg_kill")
    eventually(lambda: docker("inspect", "-f", "{{.State.Running}}", hog) == "false")
    docker("kill", innocent)
    sidecar.until(lambda one: one.data.get("event") == "docker" and one.data["action"] == "die")
    found = story(sidecar)
    assert "false_oom_flag" in found, sidecar.samples("container")[-1]
    assert found["false_oom_flag"].grave is False
    assert found["other_oom"].words.startswith(f"another cgroup {parent}/")
    assert not found.keys() & {"cgroup_oom", "child_oom"}


def limit_of_parent(parent: str, size: int) -> None:
    """Set the limit of a cgroup that the engine made for its children."""
    for path, name in ((f"/sys/fs/cgroup/memory{parent}", "memory.limit_in_bytes"), (f"/sys/fs/cgroup{parent}", "memory.max")):
        try:
            with open(f"{path}/{name}", "w") as file:  # noqa: PTH123  -- the kernel's file
                file.write(str(size))
        except FileNotFoundError:
            continue
        return
    pytest.skip("the parent's cgroup is not to be found: another cgroup driver")


HTTPD = """
mkdir -p /tmp/www; echo ok > /tmp/www/health
echo 'vllm:num_requests_running 1' > /tmp/www/metrics
exec httpd -f -p 8000 -h /tmp/www
"""


def test_a_server_in_the_container_is_seen_through_its_address_and_its_port(engine: Engine, start: Start):
    """By the container's own address and by a published port alike: the process is on this host."""
    name = engine.name("httpd")
    engine.run(name, "sh", "-c", HTTPD, flags=("-p", "127.0.0.1::8000"))
    address = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name)
    port = docker("port", name, "8000").rpartition(":")[2]
    for url in (f"http://{address}:8000", f"http://127.0.0.1:{port}"):
        sidecar = start(container=name, server=url, wait=True)
        seen = sidecar.until(lambda one: one.source == "server" and "running" in one.data)
        assert (seen.data["server_seen"], seen.data["server_how"]) == (True, "container's port; no start time is exported")
        sidecar.stop()
