"""The whole sidecar as a process: routes, token, clock, span, faults; each fault is survived and said."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from command_line import loadkit
from loadkit.errors import SidecarLost, UsageError
from loadkit.gauges import history, prefix_delta, rows, write_csv
from loadkit.record import Sample, from_line
from loadkit.sidecar.samples import KEYS
from loadkit.sidecar_client import ClockOffset, SidecarClient, clock_offset, command
from sidecar.engine import eventually
from sidecar.servers import Processes, started_processes
from sidecar.sidecars import Running, Start, starting


def ns() -> int:
    return time.monotonic_ns()


@dataclass(frozen=True)
class Ended:
    """A sidecar that is over: what it said first, when it was told to end, and its exit code."""

    sidecar: Running
    first: dict[str, Any]
    asked_ns: int
    code: int


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A sidecar that looks at its host and at a server, for tests that only ask it."""
    with started_processes() as processes, starting(tmp_path_factory.mktemp("watching")) as start:
        sidecar = start(server=processes.serve())
        sidecar.until(lambda one: one.source == "server" and "running" in one.data)
        sidecar.until(lambda one: one.source == "host")
        yield sidecar


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A sidecar that looked at a server and was then told to end."""
    with started_processes() as processes, starting(tmp_path_factory.mktemp("ended")) as start:
        sidecar = start(server=processes.serve())
        first = sidecar.client.latest()
        sidecar.until(lambda one: one.source == "server" and "success" in one.data)
        sidecar.until(lambda one: one.source == "host")
        asked_ns = ns()
        return Ended(sidecar=sidecar, first=first, asked_ns=asked_ns, code=sidecar.stop())


def test_all_that_it_writes_is_documented(ended: Ended):
    """Every source and key of a real file stands in the table of keys."""
    unknown = {(one.source, key) for one in ended.sidecar.samples() for key in one.data if key not in KEYS.get(one.source, {})}
    assert unknown == set()


def test_it_begins_and_ends_in_its_file(ended: Ended):
    """SIGTERM: the last samples are written and synced, and it ends with 0."""
    samples = ended.sidecar.samples()
    assert ended.code == 0
    assert (samples[0].data["event"], samples[-1].data["event"]) == ("started", "ended")


def test_counters_cover_a_run_from_its_begin_to_its_end(ended: Ended):
    """The server is looked at before the sidecar says that it listens, and once more when it is told to end."""
    assert ended.first["server"]["data"]["prompt_tokens"] == 1227
    assert ended.sidecar.samples("server")[-1].monotonic_ns > ended.asked_ns


def test_health_and_newest_samples(watching: Running):
    """What a gauge needs, by source."""
    sidecar = watching
    health, latest = sidecar.client.health(), sidecar.client.latest()
    assert (health["ok"], health["pid"], health["out"]) == (True, sidecar.ready.pid, str(sidecar.ready.out))
    assert rows(latest).keys() == {"MemAvailable MiB", "KV cache %", "running", "waiting"}
    assert history(latest, first=latest)[7:10] == (0, 0, 0)


def test_the_span_of_a_run(watching: Running):
    """Lines of the asked time and no others, as they stand in the file."""
    sidecar = watching
    begin = ns()
    eventually(lambda: sum(one.monotonic_ns >= begin for one in sidecar.samples("host")) >= 4)
    end = ns()
    found = [from_line(raw) for raw in sidecar.client.samples(begin, end)]
    wanted = [one for one in sidecar.samples() if begin <= one.monotonic_ns <= end]
    assert sorted(found, key=key) == sorted(wanted, key=key)  # type: ignore[type-var]


def key(one: object) -> tuple[int, str]:
    assert isinstance(one, Sample)
    return one.monotonic_ns, one.source


def test_a_copy_is_in_the_runs_clock(watching: Running, tmp_path: Path):
    """Stamps of another host's sidecar are turned into the run's; the wall time stays."""
    sidecar = watching
    shifted = ClockOffset(offset_ns=5_000_000_000_000, error_ns=1000, same_host=False, boot_id="x")
    run = tmp_path / "run.jsonl"
    count = sidecar.client.copy(run, from_ns=shifted.to_run(0), to_ns=shifted.to_run(ns()), offset=shifted)
    copied = [from_line(raw) for raw in run.read_bytes().splitlines()]
    own = {(one.wall_ns, one.source): one for one in sidecar.samples()}
    assert count == len(copied) > 0
    for one in copied:
        assert isinstance(one, Sample)
        original = own[one.wall_ns, one.source]
        assert one == replace(original, monotonic_ns=original.monotonic_ns + 5_000_000_000_000)


def test_clocks_of_one_host_are_one(watching: Running):
    """The same boot: no offset, no error."""
    offset = clock_offset(watching.client)
    assert (offset.offset_ns, offset.error_ns, offset.same_host) == (0, 0, True)


def test_clocks_of_two_hosts_are_related_by_round_trips(watching: Running):
    """A run whose clock is an hour ahead finds the hour, to within the error that it states."""

    class AnHourAhead:
        def monotonic_ns(self) -> int:
            return ns() + 3600 * 10**9

        def wall_ns(self) -> int:
            return time.time_ns()

    offset = clock_offset(watching.client, AnHourAhead())
    assert abs(offset.offset_ns - 3600 * 10**9) <= offset.error_ns < 10**9
    assert offset.same_host is False


def test_prometheus_can_read_it(watching: Running):
    """The exporter's text parses, and holds the host's memory and the server's counters."""
    text = urllib.request.urlopen(f"{watching.ready.url}/metrics", timeout=5).read().decode()
    names = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    assert names["loadkit_host_mem_available_bytes"] > 0
    assert names["loadkit_server_prefix_hit_tokens_total"] == 768
    assert names["loadkit_guard_level"] == 0


def test_without_the_token_nothing_is_answered(start: Start):
    """Every route wants it; a wrong one is a mistake with a remedy."""
    sidecar = start(token="right", listen="0.0.0.0:0")
    url = sidecar.ready.url.replace("0.0.0.0", "127.0.0.1")
    assert SidecarClient(url, token="right").clock()["monotonic_ns"] > 0
    for token in (None, "wrong", "right "):
        with pytest.raises(UsageError, match="LOADKIT_SIDECAR_TOKEN"):
            SidecarClient(url, token=token).clock()


def complaint(words: list[str], *, process: bool = True) -> tuple[int, str]:
    """Exit code and stderr of a command line that does not start (its first words are `python -m loadkit`)."""
    done = loadkit(*words[3:], process=process)
    return done.returncode, done.stderr.strip()


def test_mistakes_end_before_it_starts(tmp_path: Path, processes: Processes):
    """One line with the remedy and exit code 2, and no traceback."""
    out = tmp_path / "s.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cases = {
            "set LOADKIT_SIDECAR_TOKEN": command(out=out, listen="0.0.0.0:0"),
            "choose another port": command(out=out, listen=f"127.0.0.1:{port}"),
            "write 127.0.0.1:9101": command(out=out, listen="nonsense"),
            "add --wait": command(out=out, server="http://127.0.0.1:1"),
            "write 8GiB": command(out=out, extra=("--guard-warn", "much")),
            "here they are warn 1.0 GiB, stop-new": command(out=out, extra=("--guard-warn", "1GiB")),
        }
        for remedy, words in cases.items():
            code, said = complaint(words, process=remedy in ("choose another port", "add --wait"))  # these open something
            assert (code, remedy in said, len(said.splitlines())) == (2, True, 1), said


def test_an_output_that_cannot_be_opened_is_said():
    """Exit code 3 and the path."""
    code, said = complaint(command(out=Path("/proc/nowhere/s.jsonl"), listen="127.0.0.1:0"))
    assert (code, "/proc/nowhere/s.jsonl" in said) == (3, True)


def test_it_starts_before_the_server_and_survives_it(start: Start, processes: Processes):
    """--wait: down, up, gone, up again as another process; each is in the file, and stderr says each once."""
    url = processes.serve()
    processes.stop(url)
    sidecar = start(server=url, wait=True)
    sidecar.until(lambda one: one.source == "server" and one.data.get("up") is False)
    processes.serve(port=int(url.rpartition(":")[2]))
    sidecar.until(lambda one: one.source == "server" and one.data.get("up") is True)
    processes.stop(url)
    seen = len(sidecar.samples())
    eventually(lambda: any(one.data.get("up") is False for one in sidecar.samples()[seen:]))
    processes.serve(port=int(url.rpartition(":")[2]))
    sidecar.until(lambda one: one.data.get("restarted") is True)
    assert sidecar.complaints().count("nothing listens") == 2


def test_metrics_may_be_slow(start: Start, processes: Processes):
    """The server's sampler waits alone: the host's go on at their rhythm."""
    sidecar = start(server=processes.serve("slow"))
    missing = sidecar.until(lambda one: one.source == "server" and one.missing is not None)
    assert "gave no whole answer within 2 s" in (missing.missing or "")
    host = [one.monotonic_ns for one in sidecar.samples("host")]
    assert len(host) >= 5


def test_killed_it_leaves_whole_lines(start: Start):
    """kill -9 at any moment: the file is readable, and the client says that it is gone."""
    sidecar = start()
    sidecar.until(lambda one: one.source == "host")
    stream = sidecar.client.guard_stream()
    next(stream)
    sidecar.process.send_signal(signal.SIGKILL)
    sidecar.process.wait()
    assert all(raw.endswith(b"\n") for raw in sidecar.ready.out.read_bytes().splitlines(keepends=True))
    with pytest.raises(SidecarLost):
        list(stream)
    with pytest.raises(SidecarLost, match="does not answer"):
        sidecar.client.health()


def test_another_one_goes_on_in_the_same_file(start: Start, tmp_path: Path):
    """After a crash the next sidecar appends, and a span holds both."""
    out = tmp_path / "shared.jsonl"
    first = start(out=out)
    first.until(lambda one: one.source == "host")
    first.process.kill()
    first.process.wait()
    second = start(out=out)
    second.until(lambda one: one.source == "host")
    starts = [raw for raw in second.client.samples(0, ns()) if b'"started"' in raw]
    assert len(starts) == 2


@pytest.mark.slow
def test_a_full_disk_is_survived_and_said(start: Start, tmp_path: Path):
    """Samples are still served while the disk is full, and it says so."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        sidecar = start(out=place / "s.jsonl")
        (place / "ballast").write_bytes(bytes(44 * 1024))
        eventually(lambda: sidecar.client.health()["unwritten_lines"] > 3, within_s=60)
        assert sidecar.client.health()["ok"] is False
        eventually(lambda: "the disk is full" in sidecar.complaints())
        (place / "ballast").unlink()
        sidecar.until(lambda one: one.data.get("event") == "disk_back")
        host = [json.loads(raw)["monotonic_ns"] for raw in sidecar.client.samples(0, ns()) if b'"source":"host"' in raw]
        assert max(after - before for before, after in pairwise(host)) < 5 * 10**9
        assert sidecar.stop() == 0
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_denied_docker_socket_is_said(start: Start, tmp_path: Path):
    """With --wait it goes on without; the container's source is missing, with the reason, and the guard can't stop."""
    sidecar = start(container="vllm", wait=True, guard=True, extra=("--docker", f"unix://{tmp_path}/none.sock"))
    missing = sidecar.until(lambda one: one.source == "container" and one.missing is not None)
    assert missing.missing == "there is no Docker socket: is the engine installed, is the socket mounted?"
    assert sidecar.client.guard().can_stop is False
    code, said = complaint(
        command(out=tmp_path / "x.jsonl", container="vllm", extra=("--docker", f"unix://{tmp_path}/none.sock"))
    )
    assert (code, "--container" in said, len(said.splitlines())) == (2, True, 1)


def test_it_ends_after_its_owner(start: Start):
    """A sidecar that Locust started is not orphaned for ever; a minute's aftermath is shortened here."""
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    sidecar = start(owner=owner.pid, extra=("--linger", "0.2"))
    sidecar.until(lambda one: one.source == "host")
    assert sidecar.process.poll() is None
    owner.communicate(b"\n")
    assert sidecar.process.wait(30) == 0
    assert sidecar.samples()[-1].data["event"] == "ended"


def test_a_snapshot_is_taken_now_and_recorded(watching: Running):
    """Before and after a request: two scrapes, and no delta where no request succeeded in between."""
    sidecar = watching
    before, after = sidecar.client.snapshot(), sidecar.client.snapshot()
    assert after["monotonic_ns"] > before["monotonic_ns"]
    assert prefix_delta(before, after) is None
    assert before["monotonic_ns"] in {one.monotonic_ns for one in sidecar.samples("server")}


def test_a_snapshot_without_a_server_is_refused(start: Start):
    """It says what to start it with."""
    with pytest.raises(SidecarLost, match="start the sidecar with --server"):
        start().client.snapshot()


def test_browsers_and_unknown_routes_are_turned_away(watching: Running):
    """A page on this machine can't take a new baseline; a wrong route lists the right ones."""
    url = watching.ready.url
    for request, status in (
        (urllib.request.Request(f"{url}/baseline", method="POST", headers={"Origin": "http://evil"}), 403),
        (urllib.request.Request(f"{url}/nothing"), 404),
        (urllib.request.Request(f"{url}/samples?from_ns=soon"), 400),
    ):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=5)
        assert caught.value.code == status


def test_something_else_under_the_address_is_no_sidecar(processes: Processes):
    """A web server answers, but not as a sidecar."""
    with pytest.raises(SidecarLost, match="is it a sidecar"):
        SidecarClient(processes.serve()).clock()


def test_the_csv_holds_every_sample(ended: Ended, tmp_path: Path):
    """One row per line of the file, the nested ones as JSON."""
    import csv

    sidecar = ended.sidecar
    count = write_csv(sidecar.ready.out, tmp_path / "run_sidecar.csv")
    with (tmp_path / "run_sidecar.csv").open(encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    assert count == len(table) == len(sidecar.samples())
    assert json.loads(next(row["success"] for row in table if row["success"]))["length"] == 3
