"""Ctrl-C, SIGTERM and kill -9 at random moments of a run: is any record lost?

    python benchmarks/exits.py --times 30

The simulator's truth log says which requests really reached the server. After Ctrl-C and SIGTERM each of them must have a
record, and Locust's totals must be the records; after kill -9 of Locust and its engine each must have at least its start line,
the folder must be readable, and all that ended must be whole. Prints one line a kind; exit code 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "front")]
# ruff: noqa: E402, I001 - what the tests start processes with lives beside them
from locust_process import Locust, locust
from simulator_process import Simulator, simulator

from loadkit.record import Outcome, Phase
from loadkit.run_folder import read_run

KINDS = {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM, "kill -9": signal.SIGKILL}
LATEST_S = 6.0
WAYS = ("--ways", "1,2,4", "--rounds", "50", "--max-tokens", "64", "--no-sidecar")


def once(kind: str, home: Path, server: Simulator, wait_s: float) -> list[str]:
    """One run, ended after `wait_s` seconds; returns what was lost."""
    before = len(server.truths())
    with locust(home, "--host", server.url, *WAYS) as running:
        running.wait_for("run folder")
        try:
            running.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            _end(kind, running)
        running.wait()
    _server_has_seen_the_end(server)
    reached = {truth["request_id"] for truth in server.truths()[before:]} - {None}  # preflight sends no ids
    return _lost_hard(running, reached) if kind == "kill -9" else _lost(running, reached)


def _end(kind: str, running: Locust) -> None:
    if kind != "kill -9":
        running.send(KINDS[kind])
        return
    found = subprocess.run(["pgrep", "-P", str(running.process.pid)], capture_output=True, text=True, check=False)
    for pid in [*map(int, found.stdout.split()), running.process.pid]:  # the engine has a session of its own
        os.kill(pid, signal.SIGKILL)


def _server_has_seen_the_end(server: Simulator) -> None:
    """Its log of a cut stream is written when it notices, within its next step."""
    try:
        server.process.wait(0.5)
    except subprocess.TimeoutExpired:
        return
    raise RuntimeError("the simulator ended")


def _lost(done: Locust, reached: set[str]) -> list[str]:
    run = done.run
    recorded = {record.id for record in run.records}
    ours = {name for name in reached if name.split("-")[0] == next(iter(recorded), "").split("-")[0]}
    measured = [record for record in run.records if record.slot.phase is Phase.MEASURED]
    failed = sum(record.outcome is not Outcome.COMPLETED for record in measured)
    totals = (int(done.aggregated["Request Count"]), int(done.aggregated["Failure Count"]))
    return [
        *(f"{name} reached the server and has no record" for name in sorted(ours - recorded)),
        *(f"{start.id} began and has no record" for start in run.lost),
        *([f"Locust says {totals}, the records {(len(measured), failed)}"] if totals != (len(measured), failed) else []),
        *([f"exit code {done.process.returncode}"] if done.process.returncode != 130 else []),
        *([f"{run.broken_lines} broken lines"] if run.broken_lines else []),
    ]


def _lost_hard(done: Locust, reached: set[str]) -> list[str]:
    run = read_run(done.folder)
    begun = {start.id for start in run.starts}
    ours = {name for name in reached if name.split("-")[0] == next(iter(begun), "").split("-")[0]}
    return [
        *(f"{name} reached the server and has no start" for name in sorted(ours - begun)),
        *(f"{record.id} ended and never began" for record in run.records if record.id not in begun),
        *([f"{run.broken_lines} broken lines"] if run.broken_lines > 1 else []),
    ]


def main() -> int:
    """Run all kinds; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    losses: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        truth = Path(folder) / "truth.jsonl"
        truth.touch()
        with simulator(preset="fast", truth=truth) as server:
            for kind in KINDS:
                for number in range(given.times):
                    lost = once(kind, Path(folder) / f"{kind}-{number}", server, rng.uniform(0, LATEST_S))
                    losses[kind] += bool(lost)
                    print(f"{kind} {number + 1}/{given.times}: {'; '.join(lost) or 'nothing lost'}", flush=True)
    for kind in KINDS:
        print(f"{kind}: {given.times - losses[kind]} of {given.times} lost nothing")
    return 1 if losses.total() else 0


if __name__ == "__main__":
    sys.exit(main())
