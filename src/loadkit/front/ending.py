"""How a run ends for the people who wait for it: the read half is run over the folder, its tables shown, its verdict taken.

It is a process of its own, the same `loadkit report` that anybody can run later: numbers are computed from the files and from
nothing else, and the libraries for that never enter Locust.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import orjson
from gevent import subprocess

from loadkit.front.run import Run
from loadkit.run_folder import SUMMARY


@dataclass(frozen=True, slots=True)
class Verdict:
    """Exit code and headline of a run."""

    exit_code: int
    headline: str


def reported(run: Run, *, csv_prefix: str | None) -> Verdict:
    """Run `loadkit report` over the folder. Its tables go to stderr, as stdout is Locust's (`--json`)."""
    command = [sys.executable, "-m", "loadkit", "report", str(run.folder)]
    command += ["--csv", csv_prefix] if csv_prefix else []
    command += ["--junit", str(run.options.junit)] if run.options.junit is not None else []
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False)
    return Verdict(exit_code=done.returncode, headline=_headline(run.folder))


def _headline(folder: Path) -> str:
    try:
        summary = orjson.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return ""
    return str(summary.get("headline", ""))
