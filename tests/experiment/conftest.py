"""Experiments as a user runs them: a plan file, the command, and what it left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from conftest import ROOT, free_port
from loadkit.clock import SystemClock
from loadkit.experiment import processes
from loadkit.experiment.ledger import Ledger

PYTHON = sys.executable


@dataclass(frozen=True)
class Bed:
    """A folder for one experiment between simulators on one port."""

    folder: Path
    port: int

    @property
    def out(self) -> Path:
        return self.folder / "experiments" / "ab"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sim(self, words: str = "--preset fast") -> str:
        return f"exec {PYTHON} -m loadkit sim --port {self.port} {words}"

    def arm(self, words: str = "--preset fast", **changes: Any) -> dict[str, Any]:
        return {"start": self.sim(words), "base_url": self.url, **changes}

    def plan(self, **changes: Any) -> Path:
        content = {
            "name": "ab",
            "arms": {"a": self.arm(), "b": self.arm("--preset fast --max-num-seqs 8")},
            "default": "none",
            "primary": "decode_rate@1 way",
            "factors": ["server"],
            "pairs": 2,
            "locustfile": str(ROOT / "locustfiles" / "concurrency.py"),
            "options": "--rounds 1 --ways 1 --max-tokens 24",
            "waits": {"memory_slack_gib": 64, "memory_s": 60, "settle_s": 0.2, "healthy_s": 60},
            **changes,
        }
        path = self.folder / "plan.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    def start(self, plan: Path, *options: str) -> subprocess.Popen[str]:
        command = [PYTHON, "-m", "loadkit", "experiment", str(plan), "--out", str(self.out.parent), *options]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def run(self, plan: Path, *options: str, limit_s: float = 240) -> tuple[int, str]:
        process = self.start(plan, *options)
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends in order, and leaves no server behind
            output, _ = process.communicate(timeout=60)
            pytest.fail(f"not over within {limit_s} s:\n{output}")
        return process.returncode, output

    def lines(self, kind: str) -> list[dict[str, Any]]:
        path = self.out / "experiment.jsonl"
        found = [orjson.loads(raw) for raw in path.read_bytes().splitlines()] if path.exists() else []
        return [line for line in found if line["kind"] == kind]

    def states(self) -> list[tuple[int, str]]:
        return [(line["number"], line["state"]) for line in self.lines("ended")]

    def proved(self) -> dict[str, str]:
        return {line["what"]: line["state"] for line in self.lines("restored")}

    def wait_for(self, kind: str, count: int, *, limit_s: float = 120, **facts: Any) -> None:
        """Until the ledger holds so many lines of a kind with these facts."""
        deadline = time.monotonic() + limit_s
        while sum(all(line.get(key) == value for key, value in facts.items()) for line in self.lines(kind)) < count:
            assert time.monotonic() < deadline, f"no {count} {kind} {facts} within {limit_s} s"
            time.sleep(0.05)


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    made = Bed(tmp_path, free_port())
    yield made
    if made.out.exists():
        ledger = Ledger(made.out, SystemClock())
        processes.end_leftovers(ledger, spare=frozenset({os.getpid()}))
        ledger.close()


def kill_hard(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
