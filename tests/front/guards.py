"""Real sidecars with an armed guard, and a relay that lets a test pass from one to another while Locust listens.

A guard's thresholds stand still, and a test must not use up the host's memory. So what changes is who answers: at first a guard
whose thresholds are far below MemAvailable, then one whose thresholds are above it.
"""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from loadkit.sidecar_client import command

CALM = ("--guard-warn", "3MiB", "--guard-stop-new", "2MiB", "--guard-abort", "1MiB")
STOP_NEW = ("--guard-warn", "100%", "--guard-stop-new", "100%", "--guard-abort", "1MiB")
ABORT = ("--guard-warn", "100%", "--guard-stop-new", "100%", "--guard-abort", "100%", "--guard-hold", "0")


@contextmanager
def sidecar(out: Path, *thresholds: str) -> Iterator[str]:
    """A real `loadkit sidecar --guard` on this host; its address."""
    words = command(out=out, guard=True, extra=("--guard-horizon", "0", "--no-gpu", *thresholds))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield str(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()
            process.wait(20)


class Relay(ThreadingHTTPServer):
    """Passes each request on to the sidecar at `upstream`; the guard's stream follows when that changes."""

    daemon_threads = True

    def __init__(self, upstream: str):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Relay

    def do_GET(self) -> None:
        if self.path != "/guard/stream":
            self._pass_on("GET", None)
            return
        self._head(200)
        while True:
            with urllib.request.urlopen(f"{self.server.upstream}/guard") as answer:
                self.wfile.write(json.dumps(json.load(answer)).encode() + b"\n")
            time.sleep(0.2)

    def do_POST(self) -> None:
        self._pass_on("POST", self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _pass_on(self, method: str, body: bytes | None) -> None:
        asked = urllib.request.Request(self.server.upstream + self.path, data=body, method=method)
        try:
            with urllib.request.urlopen(asked) as answer:
                self._head(answer.status)
                self.wfile.write(answer.read())
        except urllib.error.HTTPError as refusal:
            self._head(refusal.code)
            self.wfile.write(refusal.read())

    def _head(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        """A test prints nothing of it."""


@contextmanager
def relay(upstream: str) -> Iterator[Relay]:
    with Relay(upstream) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
