"""What loadkit can do on which system: all of it on Linux, less and said so elsewhere."""

from __future__ import annotations

import sys

from loadkit.errors import UsageError

LINUX = "linux"
WINDOWS = "win32"


def lacks(system: str = sys.platform) -> tuple[str, ...]:
    """What is missing on this system, one sentence each; nothing on Linux.

    Raises:
        UsageError: a run is not possible here at all.
    """
    if system == WINDOWS:
        raise UsageError(
            "runs are not possible on Windows: the engine process is reached through an inherited socket",
            remedy="run it under WSL or in a Linux container; `loadkit report` and `loadkit compare` work here too",
        )
    if system == LINUX:
        return ()
    return (
        f"this is {system}, not Linux: the kernel's receive stamps are missing, so times are those of the client's reads, "
        "and how late they are is not known",
        "there is no sidecar on this system: run `loadkit sidecar` on the server's host and name it with --sidecar",
    )


def watchable(system: str = sys.platform) -> None:
    """The sidecar reads what only Linux has.

    Raises:
        UsageError: this is no Linux.
    """
    if system != LINUX:
        raise UsageError(
            f"the sidecar watches Linux hosts (/proc, the kernel's log, cgroups); this is {system}",
            remedy="run it on the server's host",
        )
