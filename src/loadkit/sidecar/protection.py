"""The sidecar's own survival: its memory stays in RAM and the OOM killer looks elsewhere, where the kernel permits it."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4  # include/uapi/asm-generic/mman.h
SCORE = -900  # well below any server, yet not exempt


def lock_memory() -> bool:
    """mlockall of what is touched (MCL_ONFAULT, Linux 4.4): thread stacks and arenas that are only reserved stay unlocked."""
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0)


def lower_oom_score(proc: Path = Path("/proc")) -> int | None:
    """oom_score_adj after the attempt; lowering it needs CAP_SYS_RESOURCE."""
    path = proc / "self/oom_score_adj"
    with suppress(OSError):
        path.write_text(str(SCORE))
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def rss_bytes(proc: Path = Path("/proc")) -> int:
    """Resident memory of this process (field 2 of statm, in pages)."""
    return int((proc / "self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
