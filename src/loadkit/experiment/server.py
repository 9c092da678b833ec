"""A server that an arm starts and stops: what all kinds have in common, and the two that need no container."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import psutil

from loadkit.errors import LoadkitError
from loadkit.experiment import processes
from loadkit.experiment.ledger import Ledger
from loadkit.experiment.plan import Arm
from loadkit.experiment.server_log import ServerLog
from loadkit.secrets import masked

STOP_COMMAND_S = 120


class ServerFailed(LoadkitError):
    """The server did not start, ended, or could not be stopped; the message says what its log ended with."""


class Server(Protocol):
    """One arm's server. `up` returns at once; `ended` says why it is no longer running, `None` while it may still come up."""

    restarts: bool

    def up(self, log: ServerLog) -> None: ...

    def ended(self) -> str | None: ...

    def base_url(self) -> str | None: ...

    def healthy(self) -> bool: ...

    def facts(self) -> dict[str, Any]: ...

    def save_log(self, log: ServerLog) -> None: ...

    def down(self) -> None: ...

    def running(self) -> str | None: ...


def answers(base_url: str | None, health: str) -> bool:
    """Whether the server's health route answers 200."""
    if base_url is None:
        return False
    try:
        with urllib.request.urlopen(root_of(base_url) + health, timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def root_of(base_url: str) -> str:
    """The base URL without the API's `/v1`."""
    return base_url.rstrip("/").removesuffix("/v1")


def port_of(base_url: str) -> int:
    """The TCP port of a URL, its scheme's own where none is written."""
    parts = urlsplit(base_url)
    return parts.port or (443 if parts.scheme == "https" else 80)


class RunningServer:
    """A server that somebody else runs: it is measured as it is, and never stopped."""

    restarts = False

    def __init__(self, arm: Arm):
        self._arm = arm

    def up(self, log: ServerLog) -> None:
        """It is up already."""

    def ended(self) -> str | None:
        return None

    def base_url(self) -> str | None:
        return self._arm.base_url

    def healthy(self) -> bool:
        return answers(self._arm.base_url, self._arm.health)

    def facts(self) -> dict[str, Any]:
        return {"base_url": self._arm.base_url}

    def save_log(self, log: ServerLog) -> None:
        """Its log is not ours to read."""

    def down(self) -> None:
        """It is not ours to stop."""

    def running(self) -> str | None:
        return None


class CommandServer:
    """A server that a shell command runs in the foreground, in a session of its own, logging into a file."""

    restarts = True

    def __init__(self, arm: Arm, ledger: Ledger, *, folder: Path):
        self._arm = arm
        self._ledger = ledger
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def up(self, log: ServerLog) -> None:
        """Start it.

        Raises:
            ServerFailed: something else answers at its address already: its figures would be taken for this server's.
        """
        if (other := self.running()) is not None:
            raise ServerFailed(f"{other} already: stop it first, or give the arm a `stop` command")
        with log.path.open("ab") as out:
            self._child = processes.start(
                ["/bin/sh", "-c", self._arm.start or ""],
                what=f"server: {shown(self._arm.start or '')}",
                ledger=self._ledger,
                out=out,
                cwd=self._folder,
                environment=self._arm.environment,
            )

    def ended(self) -> str | None:
        code = None if self._child is None else self._child.poll()
        return None if code is None else f"the server's command ended with {code}"

    def base_url(self) -> str | None:
        return self._arm.base_url

    def healthy(self) -> bool:
        return self.ended() is None and answers(self._arm.base_url, self._arm.health)

    def facts(self) -> dict[str, Any]:
        """Command line of the process that listens (masked), and its start."""
        process = processes.listener(port_of(self._arm.base_url or ""))
        command = list(masked(_command_line(process))) if process is not None else shown(self._arm.start or "").split()
        return {"base_url": self._arm.base_url, "arguments": command, "start": shown(self._arm.start or "")}

    def save_log(self, log: ServerLog) -> None:
        log.bound()

    def down(self) -> None:
        """Stop it by its command if it has one, and by its process group.

        Raises:
            ServerFailed: it still answers afterwards.
        """
        if self._arm.stop is not None:
            run_shell(self._arm.stop, folder=self._folder, environment=self._arm.environment, limit_s=STOP_COMMAND_S)
        if self._child is not None:
            processes.end_group(self._child.pid)
            processes.reap(self._child)
            self._child = None

    def running(self) -> str | None:
        url = self._arm.base_url or ""
        if processes.listener(port_of(url)) is not None or answers(url, self._arm.health):
            return f"a server at {url}"
        return None


def run_shell(
    command: str, *, folder: Path, environment: Mapping[str, str], limit_s: float, log: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """A shell command to its end; its output goes to `log` if there is one.

    Raises:
        ServerFailed: it takes longer than `limit_s`.
    """

    sink = log.open("ab") if log is not None else None
    try:
        return subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=sink or subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **environment},
            timeout=limit_s,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as problem:
        raise ServerFailed(f"`{command}` took longer than {limit_s:.0f} s") from problem
    finally:
        if sink is not None:
            sink.close()


def shown(command: str) -> str:
    """A shell command as it may be stored: secrets masked."""
    return " ".join(masked(command.split()))


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []
