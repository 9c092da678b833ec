"""The sidecar's HTTP: health, clock, newest samples, a span of them, the guard's state as a stream, Prometheus metrics.

Threads and the standard library's server: a handful of clients at 1 Hz, and nothing that could starve the samplers. Without a
token it listens on loopback only; with one, every route wants it. docs/reference/sidecar.md lists the routes.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from loadkit.errors import UsageError
from loadkit.sidecar.guard import State
from loadkit.sidecar.samples import Missing

MOST_BODY_BYTES = 65536
JSON = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the routes answer with; each is called in the thread of its request."""

    health: Callable[[], JSON]
    clock: Callable[[], JSON]
    latest: Callable[[], JSON]
    snapshot: Callable[[], JSON]
    samples: Callable[[int, int], Iterator[bytes]]
    guard_states: Callable[[], Iterator[State]]
    guard: Callable[[], State]
    closed: Callable[[], None]
    rebaseline: Callable[[], None]
    expect_stop: Callable[[int], None]
    metrics: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Route:
    """A method of the handler, and what its answer is (for the reference page)."""

    handler: str
    meaning: str


ROUTES = {
    ("GET", "/health"): Route(
        "_health", "ok (false while the disk is full), pid, boot id, out, age of every source, waiting lines"
    ),
    ("GET", "/clock"): Route("_clock", "monotonic_ns, wall_ns, boot_id: for round trips"),
    ("GET", "/latest"): Route("_latest", "source → its newest sample"),
    ("GET", "/samples"): Route("_samples", "JSON lines with from_ns ≤ stamp ≤ to_ns (query parameters), chunked"),
    ("POST", "/snapshot"): Route("_snapshot", "reads the server now, records it, gives that sample; 503 if it can't"),
    ("GET", "/guard"): Route("_guard", "level, armed, action, reason, at_ns, mem_available_bytes, container, can_stop"),
    ("GET", "/guard/stream"): Route("_guard_stream", "the same as JSON lines: at once, at each change, and once a second"),
    ("POST", "/guard/closed"): Route("_closed", "Locust has no stream open any more: the guard need not wait"),
    ("POST", "/baseline"): Route("_baseline", "what runs now is the container to compare with; an abort is forgotten"),
    ("POST", "/expect-stop"): Route("_expect_stop", "for `for_s` seconds (120) the container's end is no incident"),
    ("GET", "/metrics"): Route("_metrics", "for Prometheus: the newest samples as loadkit_SOURCE_KEY"),
}


class Service(ThreadingHTTPServer):
    """Bound when made; `serve_forever` in a thread, `shutdown` from another."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, *, token: str | None, answers: Answers):
        self.token = token
        self.answers = answers
        if token is None and not _is_loopback(host):
            raise UsageError(
                f"without a token it listens on loopback only, not on {host}",
                where="--listen",
                remedy="set LOADKIT_SIDECAR_TOKEN here and where Locust runs",
            )
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as problem:
            raise UsageError(
                f"can't listen on {host}:{port}: {problem.strerror}", where="--listen", remedy="choose another port"
            ) from problem

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is our bug and is printed."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: Service

    def do_GET(self) -> None:
        self._route("GET")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MOST_BODY_BYTES:
            self.close_connection = True
            self._json({"error": "too long"}, status=413)
            return
        self.rfile.read(length)
        if self.headers.get("Origin"):  # a page in a browser on this machine has no business here
            self._json({"error": "not from a browser"}, status=403)
            return
        self._route("POST")

    def log_message(self, *args: Any) -> None:
        """Nothing: the file is the log."""

    def _route(self, method: str) -> None:
        parts = urlsplit(self.path)
        route = ROUTES.get((method, parts.path))
        if not self._allowed():
            self._json({"error": "a token is wanted: Authorization: Bearer …"}, status=401)
        elif route is None:
            self._json({"error": "no such route", "routes": [f"{verb} {path}" for verb, path in ROUTES]}, status=404)
        else:
            self._query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
            getattr(self, route.handler)()

    def _allowed(self) -> bool:
        token = self.server.token
        given = self.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        return token is None or hmac.compare_digest(given, token.encode())

    def _health(self) -> None:
        self._json(self.server.answers.health())

    def _clock(self) -> None:
        self._json(self.server.answers.clock())

    def _latest(self) -> None:
        self._json(self.server.answers.latest())

    def _guard(self) -> None:
        self._json(asdict(self.server.answers.guard()))

    def _snapshot(self) -> None:
        try:
            self._json(self.server.answers.snapshot())
        except Missing as problem:
            self._json({"error": str(problem)}, status=503)

    def _closed(self) -> None:
        self.server.answers.closed()
        self._json({})

    def _baseline(self) -> None:
        self.server.answers.rebaseline()
        self._json({})

    def _expect_stop(self) -> None:
        seconds = self._number("for_s", 120)
        if seconds is not None:
            self.server.answers.expect_stop(seconds)
            self._json({})

    def _metrics(self) -> None:
        self._send(self.server.answers.metrics(), "text/plain; version=0.0.4; charset=utf-8")

    def _samples(self) -> None:
        from_ns, to_ns = self._number("from_ns", 0), self._number("to_ns", 1 << 62)
        if from_ns is not None and to_ns is not None:
            self._stream(self.server.answers.samples(from_ns, to_ns))

    def _guard_stream(self) -> None:
        states = self.server.answers.guard_states()
        self._stream(orjson.dumps(asdict(state), option=orjson.OPT_APPEND_NEWLINE) for state in states)

    def _number(self, key: str, default: int) -> int | None:
        try:
            return int(self._query.get(key, default))
        except ValueError:
            self._json({"error": f"{key} is no whole number"}, status=400)
            return None

    def _json(self, said: JSON, *, status: int = 200) -> None:
        self._send(orjson.dumps(said), "application/json", status=status)

    def _send(self, body: bytes, kind: str, *, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, lines: Iterator[bytes]) -> None:
        """Chunked, so that a reader can tell a cut stream from one that ended."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
