"""`loadkit sim` as a process: its ready line, its end, its mistakes."""

import json
import signal
import socket
import subprocess
import sys

import pytest

from command_line import loadkit

COMMAND = [sys.executable, "-m", "loadkit", "sim", "--preset", "instant"]


def test_it_says_where_it_is_and_ends_with_standard_input():
    """One JSON line with url, pid, model and preset; when standard input closes it is gone."""
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", "--exit-with-stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    assert set(facts) == {"url", "pid", "model", "preset"}
    assert facts["pid"] == process.pid
    process.stdin.close()
    assert process.wait(20) == 0
    assert process.stdout.read() == ""
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it(number: signal.Signals):
    """SIGTERM and SIGINT end it with 0 and no traceback."""
    process = subprocess.Popen([*COMMAND, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--preset", "fats"], "no preset is named 'fats'"),
        (["--speed", "0"], "the speed factor must be above 0"),
        (["--fault", "cutt"], "did you mean cut?"),
        (["--fault-file", "/nowhere/faults.txt"], "No such file"),
        (["--fault-file", sys.executable], "is not UTF-8 text"),
        (["--speed", "nan"], "must be above 0"),
        (["--truth", "/nowhere/truth.jsonl"], "--truth /nowhere/truth.jsonl: No such file or directory; give a file"),
        (["--host", "192.0.2.1"], "--host 192.0.2.1: is no address of this host; give an address"),
        (["--host", "no.such.invalid"], "--host no.such.invalid: is no address of this host"),
        (["--max-model-len", "999999", "--kv-blocks", "10"], "KV blocks"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(options: list[str], words: str):
    """What is wrong, where, and what to do; never a traceback."""
    done = loadkit("sim", "--preset", "instant", "--port", "0", *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_said():
    """Exit 2 and the remedy."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run([*COMMAND, "--port", port], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "choose another port" in done.stderr
