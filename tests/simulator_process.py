"""A simulator in a process of its own, for tests: `with simulator("--preset", "instant") as sim: sim.url …`."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Simulator:
    """A running simulator. `url` has no /v1; `base_url` has; `truth` is read with `truths()`."""

    url: str
    model: str
    pid: int
    process: subprocess.Popen[str]
    truth: Path | None = None

    @property
    def base_url(self) -> str:
        return self.url + "/v1"

    def truths(self, least: int = 1) -> list[dict[str, Any]]:
        """The truth log, one dict per request that is over; waits for `least` of them (a line follows the last byte sent)."""
        assert self.truth is not None, "start the simulator with truth=…"
        for _ in range(200):
            lines = self.truth.read_text().splitlines()
            if len(lines) >= least:
                break
            time.sleep(0.05)
        return [json.loads(line) for line in lines]


@contextmanager
def simulator(*options: str, truth: Path | None = None, preset: str = "instant") -> Iterator[Simulator]:
    """Starts `loadkit sim --port 0`, waits for its ready line, ends it afterwards (also when this process dies)."""
    more = ["--truth", str(truth)] if truth else []
    command = [sys.executable, "-m", "loadkit", "sim", "--port", "0", "--exit-with-stdin", "--preset", preset, *more, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the simulator did not start: exit code {process.wait()}"
        facts = json.loads(line)
        try:
            yield Simulator(url=facts["url"], model=facts["model"], pid=facts["pid"], process=process, truth=truth)
        finally:
            process.terminate()
            process.wait(10)
