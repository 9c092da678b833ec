"""Small real HTTP servers in processes of their own, that play a server's /metrics well or badly."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[1] / "fixtures" / "metrics"

SERVER = """
import http.server, os, sys, time
port, way, recorded = int(sys.argv[1]), sys.argv[2], open(sys.argv[3], "rb").read()
clock = os.sysconf("SC_CLK_TCK")
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
btime = next(int(line.split()[1]) for line in open("/proc/stat") if line.startswith("btime"))
started = btime + int(stat[19]) / clock
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def do_GET(self):
        body, kind = b"ok", "text/plain"
        if self.path == "/metrics":
            if way == "slow": time.sleep(5)
            body = {"garbage": os.urandom(200000), "html": b"<html>busy</html>" * 100}.get(way, recorded)
            if way == "honest":
                body = b"process_start_time_seconds %f\\n" % started + recorded[recorded.index(b"# HELP vllm"):]
        if self.path == "/version": body = b'{"version": "0.32.0"}'
        if self.path.startswith("/server_info"): body = b'{"vllm_config": {"api_key": "sk-verysecretkey", "model": "m"}}'
        if way == "error" and self.path == "/metrics": self.send_response(500)
        else: self.send_response(200)
        self.send_header("Content-Type", kind)
        if way == "drip" and self.path == "/metrics":
            self.send_header("Content-Length", "100000"); self.end_headers()
            for _ in range(30):
                self.wfile.write(b"x"); self.wfile.flush(); time.sleep(0.5)
            return
        self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

FORWARDER = """
import socket, sys, threading
listen, to = int(sys.argv[1]), int(sys.argv[2])
def pump(a, b):
    try:
        while data := a.recv(65536): b.sendall(data)
    except OSError: pass
    for one in (a, b):
        try: one.shutdown(socket.SHUT_RDWR)
        except OSError: pass
server = socket.create_server(("127.0.0.1", listen))
while True:
    near, _ = server.accept(); far = socket.create_connection(("127.0.0.1", to))
    for pair in ((near, far), (far, near)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""


class Processes:
    """Starts scripts on free ports and ends them."""

    def __init__(self) -> None:
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def serve(self, way: str = "honest", port: int | None = None) -> str:
        return self._start(SERVER, port or free_port(), way, str(RECORDED / "vllm-0.32.txt"))

    def forward(self, url: str) -> str:
        return self._start(FORWARDER, free_port(), url.rpartition(":")[2])

    def stop(self, url: str) -> None:
        process = self.running.pop(url)
        process.kill()
        process.wait()

    def _start(self, script: str, port: int, *words: str) -> str:
        process = subprocess.Popen([sys.executable, "-c", script, str(port), *words])
        due = time.monotonic() + 20
        while time.monotonic() < due:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.02)
            else:
                break
        self.running[f"http://127.0.0.1:{port}"] = process
        return f"http://127.0.0.1:{port}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


Serve = Callable[..., str]


@pytest.fixture
def processes() -> Iterator[Processes]:
    with started_processes() as own:
        yield own


@contextmanager
def started_processes() -> Iterator[Processes]:
    """Ends all that were started."""
    own = Processes()
    try:
        yield own
    finally:
        for url in list(own.running):
            own.stop(url)
