"""A container's memory cgroup, version 1 and 2 (Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst).

CUDA memory is not charged to it on GB10: a small figure here says nothing about the model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadkit.sidecar.samples import Missing

UNLIMITED_BYTES = 1 << 60  # v1 prints a huge number, not "max"


class Cgroup:
    """Looks at the cgroup of process `pid()`: `None` is not known yet, 0 is that the container does not run."""

    source = "cgroup"

    def __init__(self, pid: Callable[[], int | None], *, proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")):
        self._pid = pid
        self._proc = proc
        self._root = root
        self._known: Path | None = None

    def look(self) -> list[dict[str, Any]]:
        pid = self._pid()
        if pid is None:
            return []
        if pid == 0:
            raise Missing("the container does not run")
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text()
        except OSError as problem:
            raise Missing(f"the container's process {pid} can't be seen: run with --pid host") from problem
        folder, version = place(lines, self._root)
        folder = self._outside(folder)
        try:
            found = events_v1(folder) if version == 1 else events_v2(folder)
        except OSError as problem:
            raise Missing(f"{folder}: {problem.strerror}; mount /sys/fs/cgroup read-only") from problem
        return [{"path": str(folder), "version": version, **found}]

    def _outside(self, folder: Path) -> Path:
        """In a cgroup namespace of one's own, another's path begins with `..`: it is looked up by its last part, once."""
        if ".." not in folder.parts:
            return folder
        name = folder.name
        if self._known is None or self._known.name != name or not self._known.exists():
            self._known = next((found for found in self._root.rglob(name) if found.is_dir()), None)
        if self._known is None:
            raise Missing(f"the container's cgroup {name} is not below {self._root}: mount the host's /sys/fs/cgroup")
        return self._known


def place(proc_cgroup: str, root: Path) -> tuple[Path, int]:
    """Where the memory controller of a process lies, from its /proc/PID/cgroup; a hybrid host's v1 controller wins.

    Raises:
        Missing: the file names no memory controller.
    """
    unified = None
    for line in proc_cgroup.splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return root / "memory" / path.lstrip("/"), 1
        if number == "0" and not controllers:
            unified = path
    if unified is None:
        raise Missing("the process is in no memory cgroup")
    return root / unified.lstrip("/"), 2


def events_v1(folder: Path) -> dict[str, int]:
    """memory.oom_control, failcnt, usage and limit; raises OSError when the cgroup is gone."""
    control = _pairs((folder / "memory.oom_control").read_text())
    found = {
        "oom": int((folder / "memory.failcnt").read_text()),
        "current_bytes": int((folder / "memory.usage_in_bytes").read_text()),
    }
    if "oom_kill" in control:  # Linux 4.13 on
        found["oom_kill"] = control["oom_kill"]
    limit = int((folder / "memory.limit_in_bytes").read_text())
    return found | ({"limit_bytes": limit} if limit < UNLIMITED_BYTES else {})


def events_v2(folder: Path) -> dict[str, int]:
    """memory.events, current and max; raises OSError when the cgroup is gone."""
    events = _pairs((folder / "memory.events").read_text())
    found: dict[str, int] = {key: value for key, value in events.items() if key in ("oom", "oom_kill")}
    found["current_bytes"] = int((folder / "memory.current").read_text())
    limit = (folder / "memory.max").read_text().strip()
    return found | ({"limit_bytes": int(limit)} if limit != "max" else {})


def _pairs(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in text.splitlines() if line.strip())}
