"""Ends of a run that was started in the web UI, without a browser: `--autoquit`, and a signal."""

import contextlib
import json
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from locust_process import Locust, locust

from loadkit.record import Outcome, Phase
from simulator_process import Simulator, simulator

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def server() -> Iterator[Simulator]:
    with simulator(preset="spark") as started:
        yield started


def started_page(port: int, html: Path) -> list[str]:
    return ["--web-host", "127.0.0.1", "--web-port", str(port), "--autostart", "--no-sidecar", "--html", str(html)]


def wait_for_port(port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def whole(done: Locust) -> None:
    """Every file of an ended run is there, and they agree."""
    run = done.run
    assert run.lost == ()
    counted = [record for record in run.records if record.slot.phase is Phase.MEASURED]
    assert int(done.aggregated["Request Count"]) == len(counted)
    assert {record.id for record in run.records} == {row["id"] for row in done.csv("requests")}
    for name in ("manifest.json", "summary.json", "report.html", "report.md", "run_requests.csv", "run_stages.csv"):
        assert (done.folder / name).stat().st_size > 0, name
    assert run.manifest["exit_code"] == done.process.returncode
    assert json.loads((done.folder / "summary.json").read_bytes())["headline"] == run.manifest["headline"]


def test_autostart_and_autoquit_end_with_the_files_and_the_exit_code_of_the_run(
    server: Simulator, tmp_path: Path, unused_tcp_port: int
):
    """A service level that can't be met is exit 1 in the web UI too."""
    options = ["--host", server.url, "--autoquit", "1", "--rounds", "1", "--ways", "1,2", "--max-tokens", "16"]
    page = started_page(unused_tcp_port, tmp_path / "out.html")
    with locust(tmp_path, *options, *page, "--slo", "ttft_p50=1us", headless=False) as running:
        code = running.wait()
    assert code in (1, 5), running.output  # 5: the machine that the test runs on was too busy for the figures to be believed
    assert running.run.manifest["state"] == "finished"
    assert sum(record.outcome is Outcome.COMPLETED for record in running.run.records) == 5
    whole(running)
    assert "COMPLETED 3/3" in (tmp_path / "out.html").read_text()


def test_sigterm_in_the_web_ui_ends_like_ctrl_c(server: Simulator, tmp_path: Path, unused_tcp_port: int):
    """What was in flight is cancelled and recorded, every file is written, exit 130."""
    page = started_page(unused_tcp_port, tmp_path / "out.html")
    with locust(tmp_path, "--host", server.url, "--ways", "2", "--max-tokens", "3000", *page, headless=False) as running:
        running.wait_for("run folder")
        while not running.run.starts:
            assert running.process.poll() is None, running.output
            time.sleep(0.1)
        running.send(signal.SIGTERM)
        assert running.wait() == 130, running.output
    assert running.run.manifest["state"] == "interrupted"
    assert Outcome.CANCELLED in {record.outcome for record in running.run.records}
    whole(running)
    assert (tmp_path / "out.html").exists()
    assert "Traceback" not in running.output


def test_sigterm_before_any_run_is_a_quiet_end(server: Simulator, tmp_path: Path, unused_tcp_port: int):
    """Nothing was asked for, so nothing failed."""
    port = ["--web-host", "127.0.0.1", "--web-port", str(unused_tcp_port)]
    with locust(tmp_path, "--host", server.url, *port, headless=False) as running:
        _until_it_answers(running, unused_tcp_port)
        running.send(signal.SIGTERM)
        assert running.wait() == 0, running.output
    assert running.folders == []
    assert "Traceback" not in running.output


def _until_it_answers(running: Locust, port: int) -> None:
    while True:
        assert running.process.poll() is None, running.output
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
                return
        except OSError:
            time.sleep(0.1)


def test_a_scenario_that_is_not_there_is_refused_in_the_form(server: Simulator, tmp_path: Path, unused_tcp_port: int):
    """Not when the run begins, where nobody would see why it ends."""
    page = ["--web-host", "127.0.0.1", "--web-port", str(unused_tcp_port), "--no-sidecar", "--host", server.url]
    with locust(tmp_path, *page, headless=False) as running:
        running.wait_for("Starting web interface")
        form = b"user_count=1&spawn_rate=1&scenario=shrot&host=" + server.url.encode()
        wait_for_port(unused_tcp_port)
        with urllib.request.urlopen(f"http://127.0.0.1:{unused_tcp_port}/swarm", form, timeout=30) as answer:
            said = json.loads(answer.read())
        assert said["success"] is False
        assert "there is no scenario 'shrot'; did you mean 'short'?" in said["message"]
        assert running.folders == []
        running.send(signal.SIGTERM)
        running.wait()
