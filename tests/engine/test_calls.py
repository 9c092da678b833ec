"""Processes that work for Locust end with it, however it ends."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from loadkit.engine.protocol import line


def test_an_engine_that_draws_prompts_ends_with_its_socket():
    """After `kill -9` of Locust nobody wants them any more: the engine does not draw them to the end."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "loadkit.engine", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
    theirs.close()
    drawing = {"name": "short", "folder": None, "drawing": {}, "count": 250_000}
    ours.sendall(line("call", number=1, function="loadkit.engine.preparation:cases", arguments=drawing))
    assert ours.recv(1 << 16)  # ready
    time.sleep(0.7)
    ours.close()
    assert process.wait(5) == 0


def test_a_process_for_one_call_ends_with_whoever_asked(tmp_path: Path):
    """Its standard input is at its end already, so it looks who its parent is."""
    call = line("call", number=1, function="loadkit.engine.calls:until_orphaned", arguments={"parent": 0})
    (tmp_path / "call").write_bytes(call.replace(b'"parent":0', b'"parent":%PARENT%'))
    program = f"""
import os, subprocess, sys
call = open({str(tmp_path / "call")!r}).read().replace("%PARENT%", str(os.getpid()))
process = subprocess.Popen([sys.executable, "-m", "loadkit.engine.calls"], stdin=subprocess.PIPE)
process.stdin.write(call.encode())
process.stdin.close()
print(process.pid, flush=True)
sys.stdin.readline()
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.3)
    os.kill(pid, 0)  # it is there
    parent.kill()
    parent.communicate()
    until = time.monotonic() + 10
    while _there(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _there(pid)


def _there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
