"""GET over one kept connection, with one deadline for the whole answer however slowly it drips."""

from __future__ import annotations

import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

import httptools

from loadkit.clock import Clock
from loadkit.sidecar.samples import Missing

MOST_BYTES = 8 * 1024 * 1024


class KeptConnection:
    """`get` opens the connection when there is none, and opens a stale one anew, once.

    http.client's timeout is per read, so that a server that sends a byte a second would hold it for ever.
    """

    def __init__(self, url: str, clock: Clock, *, deadline_s: float = 2.0):
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._place = f"{parts.scheme}://{parts.netloc}{self._prefix}"
        self._authority = parts.netloc.rpartition("@")[2]
        self._clock = clock
        self._deadline_s = deadline_s
        self._socket: socket.socket | None = None

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body.

        Raises:
            Missing: nobody listens, no whole answer in time, or something that is no HTTP.
        """
        for reused in (self._socket is not None, False):
            due_ns = self._clock.monotonic_ns() + int(self._deadline_s * 1e9)
            try:
                return self._once(path, due_ns)
            except (OSError, httptools.HttpParserError, _Cut) as problem:
                self.close()
                if not reused or isinstance(problem, TimeoutError):
                    raise Missing(self._words(path, problem)) from problem
        raise AssertionError("unreachable: the second try returns or raises")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _once(self, path: str, due_ns: int) -> tuple[int, bytes]:
        if self._socket is None:
            self._socket = self._connected(due_ns)
        self._socket.settimeout(self._left_s(due_ns))
        head = f"GET {self._prefix}{path} HTTP/1.1\r\nHost: {self._authority}\r\nAccept: */*\r\nUser-Agent: loadkit\r\n\r\n"
        self._socket.sendall(head.encode())
        answer = _Answer()
        while not answer.complete:
            self._socket.settimeout(self._left_s(due_ns))
            answer.feed(self._socket.recv(262144))
        if not answer.parser.should_keep_alive():
            self.close()
        return answer.parser.get_status_code(), b"".join(answer.pieces)

    def _connected(self, due_ns: int) -> socket.socket:
        plain = socket.create_connection((self._host, self._port), timeout=self._left_s(due_ns))
        return ssl.create_default_context().wrap_socket(plain, server_hostname=self._host) if self._secure else plain

    def _left_s(self, due_ns: int) -> float:
        left_s = (due_ns - self._clock.monotonic_ns()) / 1e9
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def _words(self, path: str, problem: Exception) -> str:
        if isinstance(problem, TimeoutError):
            return f"{self._place}{path} gave no whole answer within {self._deadline_s:g} s"
        if isinstance(problem, ConnectionRefusedError):
            return f"nothing listens at {self._place}"
        if isinstance(problem, httptools.HttpParserError):
            return f"{self._place}{path} answered with something that is no HTTP"
        return f"{self._place}{path}: {problem or type(problem).__name__}"


class _Cut(Exception):
    """The connection ended before the answer did."""

    def __str__(self) -> str:
        return "the connection was closed"


class _Answer:
    """Callbacks of httptools' parser; a body without a length ends with the connection."""

    def __init__(self) -> None:
        self.parser: Any = httptools.HttpResponseParser(self)
        self.pieces: list[bytes] = []
        self.complete = False
        self._size = 0
        self._headers: dict[bytes, bytes] = {}

    def feed(self, piece: bytes) -> None:
        if piece:
            self.parser.feed_data(piece)
        elif self._headers and not self._headers.keys() & {b"content-length", b"transfer-encoding"}:
            self.complete = True
        else:
            raise _Cut

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > MOST_BYTES:
            raise _Cut
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        self.complete = True
