"""Processes that Locust starts beside the engine: the embedded simulator, and a sidecar for a server on this host."""

from __future__ import annotations

import sys
from typing import Any

import gevent
import orjson
from gevent import subprocess

from loadkit.errors import UsageError

READY_S = 20.0


class Child:
    """A process that prints one line of JSON when it is ready. Its stdin is a pipe that nobody writes to: when Locust dies,
    however it dies, the child reads the end of it.
    """

    def __init__(self, command: list[str], *, name: str):
        self.name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._said: dict[str, Any] | None = None

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def ready(self) -> dict[str, Any]:
        """What it said when it was ready; waits for it.

        Raises:
            UsageError: it ended, or said nothing within 20 s.
        """
        if self._said is None:
            with gevent.Timeout(READY_S, False):
                line = self._process.stdout.readline()
                if not line:
                    raise UsageError(f"the {self.name} ended before it was ready (exit code {self._process.wait()})")
                self._said = orjson.loads(line)
            if self._said is None:
                raise UsageError(f"the {self.name} did not get ready within {READY_S:g} s")
        return self._said

    def stop(self, timeout_s: float = 3.0) -> None:
        """End it and wait; idempotent."""
        if not self.running:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def simulator(preset: str) -> Child:
    """The embedded simulator on a free loopback port."""
    command = [sys.executable, "-m", "loadkit", "sim", "--port", "0", "--preset", preset, "--exit-with-stdin"]
    return Child(command, name="embedded simulator")
