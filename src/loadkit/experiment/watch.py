"""The sidecar of one launch: it looks at the host from before the server's start until after its end."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path
from typing import IO

from loadkit import sidecar_client
from loadkit.errors import LoadkitError, SidecarLost
from loadkit.experiment import processes
from loadkit.experiment.ledger import Ledger

STOP_MAY_TAKE_S = 180
STARTS_WITHIN_S = 30


class Watch:
    """A sidecar process of ours. `url` is what Locust is told."""

    def __init__(self, child: subprocess.Popen[bytes], ready: sidecar_client.Ready, errors: IO[bytes]):
        self.url = ready.url
        self._child = child
        self._errors = errors
        self._client = sidecar_client.SidecarClient(ready.url, token=os.environ.get(sidecar_client.TOKEN_VARIABLE))

    def expect_stop(self) -> None:
        """The stop that comes now is ours: it is no event of the host."""
        try:
            self._client.expect_stop(for_s=STOP_MAY_TAKE_S)
        except LoadkitError:  # it has died, or does not know the route: what it saw until then is in its file
            return

    def end(self) -> None:
        """SIGTERM: it writes its last samples and ends."""
        processes.end_group(self._child.pid)
        processes.reap(self._child)
        if self._child.stdout:
            self._child.stdout.close()
        self._errors.close()


def watch(folder: Path, *, ledger: Ledger, server: str | None, container: str | None) -> Watch | None:
    """Start a sidecar that waits for the server; `None` if it does not come up (its stderr is kept in the folder)."""
    command = sidecar_client.command(
        out=folder / "samples.jsonl", server=server, container=container, wait=True, owner=os.getpid()
    )
    errors = (folder / "sidecar.log").open("ab")
    child = processes.start(command, what="sidecar", ledger=ledger, out=subprocess.PIPE, err=errors)
    spoke = bool(child.stdout and select.select([child.stdout], [], [], STARTS_WITHIN_S)[0])
    line = child.stdout.readline() if spoke and child.stdout else b""
    try:
        return Watch(child, sidecar_client.ready(line), errors)
    except SidecarLost:
        processes.end_group(child.pid)
        processes.reap(child)
        errors.close()
        return None
