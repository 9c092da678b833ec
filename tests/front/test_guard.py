"""An armed guard and Locust, as processes: what it says is done on every worker, and the run's end says so."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from guards import ABORT, CALM, STOP_NEW, relay, sidecar
from locust_process import Locust, locust, ran

from loadkit.record import Outcome, Phase, Record
from simulator_process import Simulator, simulator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def server() -> Iterator[Simulator]:
    with simulator(preset="spark") as started:
        yield started


def measured(done: Locust) -> list[Record]:
    return [record for record in done.run.records if record.slot.phase is Phase.MEASURED]


def skipped(done: Locust) -> list[str]:
    return [line["id"] for line in done.run.plan if line["kind"] == "skipped"]


def test_nothing_is_sent_where_memory_is_short_from_the_beginning(server: Simulator, tmp_path: Path):
    """The run ends by itself with the guard's words, and is no success."""
    with sidecar(tmp_path / "s.jsonl", *STOP_NEW) as url:
        done = ran(tmp_path, "--host", server.url, "--sidecar", url, "--guard", "--ways", "2", "--rounds", "1")
    assert done.process.returncode == 3, done.output
    assert done.run.records == ()
    assert "guard: " in done.run.manifest["headline"]
    assert done.run.manifest["state"] == "aborted"


@pytest.mark.parametrize("processes", [(), ("--processes", "2")], ids=["one process", "two workers"])
def test_stop_new_drains_what_runs_and_ends_each_users_row(
    server: Simulator, tmp_path: Path, unused_tcp_port: int, processes: tuple[str, ...]
):
    """Requests in flight complete; the rest of every row is noted as skipped; nothing is cancelled."""
    ports = ["--master-port", str(unused_tcp_port), "--master-bind-port", str(unused_tcp_port)] if processes else []
    options = [
        "--host",
        server.url,
        "--guard",
        "--ways",
        "2",
        "--rounds",
        "1",
        "--requests-per-user",
        "200",
        "--max-tokens",
        "60",
    ]
    with (
        sidecar(tmp_path / "calm.jsonl", *CALM) as calm,
        relay(calm) as between,
        locust(tmp_path, *options, *processes, *ports, "--sidecar", between.url) as running,
    ):
        running.wait_for("run folder")
        _until_measured(running)
        with sidecar(tmp_path / "short.jsonl", *STOP_NEW) as short:
            between.upstream = short
            assert running.wait() == 3, running.output
    done = measured(running)
    assert {record.outcome for record in done} == {Outcome.COMPLETED}
    assert 2 <= len(done) < 400
    assert len(done) + len(skipped(running)) == 400
    assert running.run.manifest["ended_reason"].startswith("guard: ")
    assert "guard: " in running.run.manifest["headline"]
    assert running.run.lost == ()


@pytest.mark.parametrize("processes", [(), ("--processes", "2")], ids=["one process", "two workers"])
def test_abort_closes_every_stream_at_once(server: Simulator, tmp_path: Path, unused_tcp_port: int, processes: tuple[str, ...]):
    """What was in flight is cancelled and recorded, and the host's axis makes it exit 4."""
    ports = ["--master-port", str(unused_tcp_port), "--master-bind-port", str(unused_tcp_port)] if processes else []
    options = ["--host", server.url, "--guard", "--ways", "2", "--rounds", "1", "--max-tokens", "20000"]
    with (
        sidecar(tmp_path / "calm.jsonl", *CALM) as calm,
        relay(calm) as between,
        locust(tmp_path, *options, *processes, *ports, "--sidecar", between.url) as running,
    ):
        running.wait_for("run folder")
        _until_in_flight(running)
        with sidecar(tmp_path / "short.jsonl", *ABORT) as short:
            between.upstream = short
            assert running.wait() == 4, running.output
    assert Outcome.CANCELLED in {record.outcome for record in running.run.records}
    assert running.run.lost == ()
    assert "HOST UNSTABLE (guard: " in running.run.manifest["headline"]


def _until_measured(running: Locust) -> None:
    """Until a measured request has ended."""
    _until(running, lambda: len(measured(running)) > 2)


def _until_in_flight(running: Locust) -> None:
    """Until a request has been sent."""
    _until(running, lambda: bool(running.run.starts))


def _until(running: Locust, reached: Callable[[], bool]) -> None:
    for _ in range(600):
        if reached():
            return
        assert running.process.poll() is None, running.output
        time.sleep(0.1)
    raise AssertionError(running.output)
