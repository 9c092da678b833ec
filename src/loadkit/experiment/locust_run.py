"""The locustfile of a launch: Locust headless, as a process of its own, writing into a run folder."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from loadkit.experiment import processes
from loadkit.experiment.ledger import Ledger
from loadkit.experiment.server import ServerFailed
from loadkit.experiment.waiting import LOOK_EVERY_S, Interrupted, Orders, wait_until
from loadkit.run_folder import MANIFEST

ENDS_WITHIN_S = 120.0
"""How long Locust may take to write its files after Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocustRun:
    """What is run, and where it writes."""

    locustfile: Path
    base_url: str
    label: str
    run_dir: Path
    log: Path
    options: Sequence[str] = ()
    sidecar: str | None = None
    folder: Path = Path()

    @property
    def command(self) -> list[str]:
        words = [sys.executable, "-m", "locust", "-f", str(self.locustfile), "--headless", "--only-summary"]
        words += ["--host", self.base_url, "--label", self.label, "--run-dir", str(self.run_dir)]
        words += ["--sidecar", self.sidecar] if self.sidecar else []
        return [*words, *self.options]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """Locust's exit code, the run folder (`None` if it made none) and its headline."""

    exit_code: int
    folder: Path | None
    headline: str


def run(asked: LocustRun, *, ledger: Ledger, limit_s: float, orders: Orders | None, meanwhile: Callable[[], None]) -> RunEnded:
    """Run Locust to its end. `meanwhile` is called while waiting (the server's log is bounded there).

    Raises:
        Interrupted: the user asked to stop; Locust was told so and has written its files.
        ServerFailed: it does not end within `limit_s`.
    """
    before = set(_folders(asked.run_dir))
    with asked.log.open("ab") as out:
        child = processes.start(asked.command, what="locust", ledger=ledger, out=out, cwd=asked.folder)

    def over() -> bool:
        meanwhile()
        return processes.wait_for_exit(child, for_s=LOOK_EVERY_S) is not None

    try:
        met = wait_until(over, limit_s=limit_s, orders=orders)
    except Interrupted:
        processes.end_group(child.pid, first=signal.SIGINT, patience_s=ENDS_WITHIN_S)
        processes.reap(child)
        raise
    if not met:
        processes.end_group(child.pid, first=signal.SIGINT, patience_s=ENDS_WITHIN_S)
        processes.reap(child)
        raise ServerFailed(f"the run did not end within {limit_s:.0f} s")
    new = [folder for folder in _folders(asked.run_dir) if folder not in before and folder.name.endswith(asked.label)]
    folder = max(new, default=None, key=lambda path: path.name)
    return RunEnded(exit_code=child.returncode, folder=folder, headline=_headline(folder))


def _folders(run_dir: Path) -> list[Path]:
    return [path for path in run_dir.iterdir() if path.is_dir()] if run_dir.is_dir() else []


def _headline(folder: Path | None) -> str:
    if folder is None or not (folder / MANIFEST).exists():
        return ""
    return str(orjson.loads((folder / MANIFEST).read_bytes()).get("headline") or "")
