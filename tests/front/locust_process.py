"""Locust in a process of its own, for tests: importing it here would patch pytest."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadkit.run_folder import Run, read_run

ROOT = Path(__file__).parents[2]
CONCURRENCY = ROOT / "locustfiles" / "concurrency.py"
HANG_S = 90


@dataclass(frozen=True)
class Locust:
    """A running or ended Locust. Its output goes to a file, so that it never waits for a reader."""

    process: subprocess.Popen[bytes]
    home: Path

    @property
    def output(self) -> str:
        return (self.home / "output.txt").read_text()

    def wait(self, timeout_s: float = HANG_S) -> int:
        return self.process.wait(timeout_s)

    def wait_for(self, pattern: str, timeout_s: float = HANG_S) -> str:
        """The first match in the output; fails when Locust ends without one, or when the time is over."""
        until = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.output)):
            assert self.process.poll() is None, f"Locust ended before {pattern!r}:\n{self.output}"
            assert time.monotonic() < until, f"no {pattern!r} in time:\n{self.output}"
            time.sleep(0.05)
        return found.group(0)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def folders(self) -> list[Path]:
        return sorted((self.home / "runs").glob("*Z*"))

    @property
    def folder(self) -> Path:
        return self.folders[-1]

    @property
    def run(self) -> Run:
        return read_run(self.folder)

    def csv(self, name: str) -> list[dict[str, str]]:
        with (self.home / f"out_{name}.csv").open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))

    @property
    def aggregated(self) -> dict[str, str]:
        """The last row of _stats.csv."""
        return self.csv("stats")[-1]


def start(
    home: Path,
    *options: str,
    file: Path = CONCURRENCY,
    headless: bool = True,
    quiet: bool = True,
    environ: dict[str, str] | None = None,
) -> Locust:
    """Start `locust -f file` in `home`, with run folders and CSV files there."""
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "locust", "-f", str(file), *(["--headless"] if headless else [])]
    command += ["--only-summary"] if quiet else []
    command += ["--run-dir", str(home / "runs"), "--csv", str(home / "out"), *options]
    with (home / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "160", **(environ or {})},
            start_new_session=True,
        )
    return Locust(process, home)


@contextmanager
def locust(home: Path, *options: str, **more: Any) -> Iterator[Locust]:
    """The same, ended with everything it started when the test is over."""
    started = start(home, *options, **more)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            os.killpg(started.process.pid, signal.SIGKILL)
            started.process.wait()


def ran(home: Path, *options: str, **more: Any) -> Locust:
    """Run it to its end."""
    with locust(home, *options, **more) as started:
        started.wait()
        return started
