"""Servers by command: started, watched, stopped, and never taken for another."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from conftest import free_port
from loadkit.clock import SystemClock
from loadkit.experiment import processes
from loadkit.experiment.launch import come_up
from loadkit.experiment.ledger import Ledger
from loadkit.experiment.plan import Arm
from loadkit.experiment.server import CommandServer, RunningServer, ServerFailed
from loadkit.experiment.server_log import ServerLog

WEB = f"exec {sys.executable} -u -m http.server --bind 127.0.0.1"


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "experiment", SystemClock())
    yield ledger
    processes.end_leftovers(ledger)


def log_in(folder: Path) -> ServerLog:
    return ServerLog(folder / "server.log", limit_bytes=100_000)


def web(port: int, **changes) -> Arm:
    return Arm(**{"start": f"{WEB} {port}", "base_url": f"http://127.0.0.1:{port}/v1", "health": "/", **changes})


def test_a_command_comes_up_and_goes_down(tmp_path, ledger):
    """Healthy, its command line known, its log kept, and gone with all its children."""
    port = free_port()
    server = CommandServer(web(port, start=f"{WEB} {port} & wait"), ledger, folder=tmp_path)
    log = log_in(tmp_path)
    assert server.running() is None
    server.up(log)
    assert come_up(server, log, limit_s=30, orders=None) == f"http://127.0.0.1:{port}/v1"
    assert "http.server" in server.facts()["arguments"]
    assert f"port {port}" in log.text()
    server.down()
    assert server.running() is None


def test_a_command_that_ends_says_what_its_log_ended_with(tmp_path, ledger):
    """No waiting for the limit, and the reason is in the message."""
    server = CommandServer(web(free_port(), start="echo no such flag; exit 3"), ledger, folder=tmp_path)
    server.up(log_in(tmp_path))
    with pytest.raises(ServerFailed, match=r"(?s)ended with 3.*no such flag"):
        come_up(server, log_in(tmp_path), limit_s=30, orders=None)


def test_a_server_that_never_answers_is_given_up(tmp_path, ledger):
    """After the limit, not for ever."""
    server = CommandServer(web(free_port(), start="sleep 60"), ledger, folder=tmp_path)
    server.up(log_in(tmp_path))
    with pytest.raises(ServerFailed, match="not healthy within"):
        come_up(server, log_in(tmp_path), limit_s=0.5, orders=None)
    server.down()


def test_another_server_on_the_port_is_not_measured(tmp_path, ledger):
    """Its figures would be taken for the arm's."""
    port = free_port()
    first = CommandServer(web(port), ledger, folder=tmp_path)
    first.up(log_in(tmp_path))
    come_up(first, log_in(tmp_path), limit_s=30, orders=None)
    with pytest.raises(ServerFailed, match="already"):
        CommandServer(web(port), ledger, folder=tmp_path).up(log_in(tmp_path))
    first.down()


def test_a_stop_command_stops_a_server_that_somebody_else_started(tmp_path, ledger):
    """The user's own server gives way."""
    port = free_port()
    other = CommandServer(web(port), ledger, folder=tmp_path)
    other.up(log_in(tmp_path))
    come_up(other, log_in(tmp_path), limit_s=30, orders=None)
    pid = processes.listener(port).pid
    ours = CommandServer(
        web(port, stop=f"kill {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.1; done &"), ledger, folder=tmp_path
    )
    ours.down()
    other.down()
    assert ours.running() is None


def test_a_server_that_ignores_sigterm_is_killed(tmp_path, ledger):
    """A group is ended within its patience, whatever it does."""
    with (tmp_path / "out").open("ab") as out:
        child = processes.start(
            ["/bin/sh", "-c", "trap '' TERM; echo up; sleep 60 & wait; sleep 60"], what="x", ledger=ledger, out=out
        )
    while "up" not in (tmp_path / "out").read_text():
        pass
    processes.end_group(child.pid, patience_s=0.5)
    assert processes.reap(child) == -signal.SIGKILL


def test_leftovers_of_a_killed_experiment_are_ended_and_nobody_else(tmp_path, ledger):
    """Same pid and same start time: a pid that was given out again is left alone."""
    with (tmp_path / "out").open("ab") as out:
        child = processes.start(["sleep", "60"], what="sleeper", ledger=ledger, out=out)
    ledger.note("process", pid=os.getpid(), created_s=psutil.Process().create_time() - 100, what="not us")
    assert processes.end_leftovers(ledger) == ("sleeper",)
    assert processes.reap(child) == -signal.SIGTERM


def test_a_running_server_is_neither_started_nor_stopped(tmp_path, ledger):
    """It stays up through up and down."""
    port = free_port()
    other = CommandServer(web(port), ledger, folder=tmp_path)
    other.up(log_in(tmp_path))
    come_up(other, log_in(tmp_path), limit_s=30, orders=None)
    server = RunningServer(Arm(base_url=f"http://127.0.0.1:{port}", health="/"))
    server.up(log_in(tmp_path))
    server.down()
    assert server.healthy()
    other.down()
    assert not server.healthy()
