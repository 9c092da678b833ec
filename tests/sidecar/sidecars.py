"""Real sidecar processes for tests: started, asked, ended; each with a file of its own."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadkit.record import Sample, from_line
from loadkit.sidecar_client import Ready, SidecarClient, command, ready


class Running:
    """One sidecar process, its client and its file."""

    def __init__(self, process: subprocess.Popen[bytes], said: Ready, complaints: Path, token: str | None):
        self.process = process
        self.ready = said
        self.client = SidecarClient(said.url, token=token)
        self.token = token
        self._complaints = complaints

    def samples(self, source: str | None = None) -> list[Sample]:
        """All whole lines of its file so far."""
        raws = self.ready.out.read_bytes().splitlines(keepends=True)
        lines = [from_line(raw) for raw in raws if raw.endswith(b"\n")]
        return [one for one in lines if isinstance(one, Sample) and source in (None, one.source)]

    def until(self, true_of: Callable[[Sample], bool], *, within_s: float = 30) -> Sample:
        """The first sample of which something is true; a hang guard, not a timing."""
        due = time.monotonic() + within_s
        while True:
            found = next((one for one in self.samples() if true_of(one)), None)
            if found is not None:
                return found
            assert self.process.poll() is None, f"the sidecar ended: {self.complaints()}"
            assert time.monotonic() < due, f"not within {within_s} s; complaints: {self.complaints()}"
            time.sleep(0.05)

    def complaints(self) -> str:
        return self._complaints.read_text()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """As `starting` in this test's folder."""
    with starting(tmp_path) as begin:
        yield begin


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """`start(server=…, container=…, guard=…, extra=(…), token=…, out=…)` gives a sidecar that listens."""
    running: list[Running] = []

    def begin(*, out: Path | None = None, token: str | None = None, extra: tuple[str, ...] = (), **options: object) -> Running:
        number = len(running)
        complaints = folder / f"sidecar-{number}.err"
        words = command(out=out or folder / f"samples-{number}.jsonl", extra=("--no-gpu", *extra), **options)  # type: ignore[arg-type]
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints.open("wb"),
            start_new_session=True,
            env={**os.environ, "LOADKIT_SIDECAR_TOKEN": token or ""},
        )
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 60)[0], "it did not say that it listens"
        line = process.stdout.readline()
        assert line, complaints.read_text()
        running.append(Running(process, ready(line), complaints, token))
        return running[-1]

    try:
        yield begin
    finally:
        for one in running:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()
            if one.process.stdout:
                one.process.stdout.close()
