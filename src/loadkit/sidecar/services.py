"""Failed units of systemd, of the system and of users, and the state of units that lost a process to the OOM killer.

After a host OOM "everything is back" is a fact only if someone looks: the earlier experiments had to find and restart a user
manager, D-Bus and audio by hand.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from loadkit.sidecar.samples import Missing

TIMEOUT_S = 5.0


class Services:
    """Asks systemctl; `victims` collects units by the cgroups that the kernel's log names."""

    source = "services"

    def __init__(self, systemctl: str = "systemctl", run_user: Path = Path("/run/user")):
        self._systemctl = systemctl
        self._run_user = run_user
        self._victims: dict[tuple[str, str], None] = {}  # in order of their death

    def lost(self, cgroup: str) -> None:
        unit = unit_of(cgroup)
        if unit is not None:
            self._victims[unit] = None

    def look(self, at: str = "period") -> list[dict[str, Any]]:
        """One sample's data.

        Raises:
            Missing: there is no systemd, or it does not answer.
        """
        failed = [f"system:{unit}" for unit in self._failed(())]
        for uid, flags in self._users():
            try:
                failed += [f"{uid}:{unit}" for unit in self._failed(flags)]
            except Missing:
                failed.append(f"{uid}:user manager does not answer")
        data: dict[str, Any] = {"at": at, "failed_units": failed}
        if self._victims:
            data["victims"] = {f"{scope}:{unit}": self._state(scope, unit) for scope, unit in self._victims}
        return [data]

    def _users(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Whose user managers can be asked: all that run for root, else one's own."""
        if os.geteuid() != 0:
            return [("user", ("--user",))] if (self._run_user / str(os.geteuid())).exists() else []
        uids = sorted(path.name for path in self._run_user.glob("[0-9]*")) if self._run_user.exists() else []
        return [(f"user-{uid}", ("--user", f"--machine={uid}@.host")) for uid in uids]

    def _failed(self, flags: tuple[str, ...]) -> list[str]:
        out = self._ask(*flags, "list-units", "--failed", "--plain", "--no-legend", "--no-pager")
        return [line.split()[0] for line in out.splitlines() if line.strip()]

    def _state(self, scope: str, unit: str) -> str:
        flags = () if scope == "system" else ("--user", f"--machine={scope.removeprefix('user-')}@.host")
        try:
            return self._ask(*flags, "show", "--property=ActiveState", "--value", unit).strip() or "unknown"
        except Missing:
            return "unknown"

    def _ask(self, *words: str) -> str:
        try:
            done = subprocess.run([self._systemctl, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except FileNotFoundError as problem:
            raise Missing("there is no systemctl") from problem
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise Missing(f"systemctl did not answer ({type(problem).__name__})") from problem
        if done.returncode != 0:
            if "not been booted with systemd" in done.stderr:
                raise Missing("no systemd runs here, so failed units can't be compared before and after")
            raise Missing(f"systemctl: {(done.stderr.strip().splitlines() or ['no reason given'])[0][:200]}")
        return done.stdout


def unit_of(cgroup: str) -> tuple[str, str] | None:
    """("system", "docker-….scope") or ("user-1000", "wireplumber.service") of a cgroup path; `None` where it names no unit.

    A path with user@UID.service in it belongs to that user's manager (systemd's cgroup layout, systemd.slice(5)).
    """
    parts = [part for part in cgroup.split("/") if part]
    manager = next((part for part in parts if part.startswith("user@") and part.endswith(".service")), None)
    inner = parts[parts.index(manager) + 1 :] if manager else parts
    unit = next((part for part in reversed(inner) if part.endswith((".service", ".scope"))), None)
    if unit is None:
        return ("system", manager) if manager else None
    return (f"user-{manager[5:-8]}" if manager else "system", unit)
