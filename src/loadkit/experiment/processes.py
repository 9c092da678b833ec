"""Processes that the experiment starts: in sessions of their own, ended as a group, and ended after a crash of ours too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from loadkit.experiment.ledger import Ledger

KILL_AFTER_S = 30.0
KILLED_WITHIN_S = 10.0


def start(
    command: Sequence[str],
    *,
    what: str,
    ledger: Ledger,
    out: IO[bytes] | int,
    err: IO[bytes] | int = subprocess.STDOUT,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """A child in a session of its own (Ctrl-C reaches only us), noted so that a resumed experiment can end it."""
    child = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    ledger.note("process", pid=child.pid, created_s=_created_s(child.pid), what=what)
    return child


def end_group(leader: int, *, first: signal.Signals = signal.SIGTERM, patience_s: float = KILL_AFTER_S) -> None:
    """Signal a process group and wait for all of it; what is left after `patience_s` is killed."""
    if not _has_members(leader):
        return
    _signal(leader, first)
    if not _gone(leader, within_s=patience_s):
        _signal(leader, signal.SIGKILL)
        _gone(leader, within_s=KILLED_WITHIN_S)


def _gone(leader: int, *, within_s: float) -> bool:
    """Looks rather than waits: waiting through psutil would take the exit code away from `reap`."""
    deadline = time.monotonic() + within_s
    while _has_members(leader):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def reap(child: subprocess.Popen[bytes]) -> int:
    """The exit code of a child that was ended, without leaving a zombie."""
    return child.wait(timeout=60)


def end_leftovers(ledger: Ledger, *, spare: frozenset[int] = frozenset()) -> tuple[str, ...]:
    """End processes that a killed experiment left behind: same pid and same start time as noted. Says what they were."""
    ended = []
    for line in ledger.lines("process"):
        pid, created = line["pid"], line["created_s"]
        if pid not in spare and created is not None and _created_s(pid) == created:
            end_group(pid)
            ended.append(str(line["what"]))
    return tuple(ended)


def listener(port: int) -> psutil.Process | None:
    """The process that listens on a TCP port of this host; `None` if there is none, or it may not be seen."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return None
    for connection in connections:
        here = connection.laddr[1] if connection.laddr else None
        if connection.status == psutil.CONN_LISTEN and here == port and connection.pid:
            return psutil.Process(connection.pid)
    return None


def wait_for_exit(child: subprocess.Popen[bytes], *, for_s: float) -> int | None:
    """The exit code, or `None` if it still runs after `for_s`."""
    deadline = time.monotonic() + for_s
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return child.poll()


def _has_members(leader: int) -> bool:
    """Whether a live process is in the group; a zombie has ended."""
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                return True
        except (ProcessLookupError, psutil.NoSuchProcess, PermissionError):
            continue
    return False


def _signal(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return


def _created_s(pid: int) -> float | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None
