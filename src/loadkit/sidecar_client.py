"""The other side of the sidecar's seam: how to start one, ask it, follow its guard and copy its samples.

Blocking `http.client`, one connection per call, no state: it works from a thread, from a gevent greenlet and from an executor
under asyncio. docs/reference/sidecar.md describes the routes. Times are nanoseconds; a `ClockOffset` turns those of the
sidecar's host into those of the run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson

from loadkit.clock import Clock, SystemClock
from loadkit.errors import SidecarLost, UsageError

TOKEN_VARIABLE = "LOADKIT_SIDECAR_TOKEN"
Level = Literal["ok", "warn", "stop_new", "abort"]


@dataclass(frozen=True, slots=True)
class Ready:
    """What a sidecar prints on stdout, once, when it listens."""

    url: str
    pid: int
    out: Path


def command(
    *,
    out: Path,
    server: str | None = None,
    container: str | None = None,
    listen: str = "127.0.0.1:0",
    guard: bool = False,
    wait: bool = False,
    owner: int | None = None,
    extra: Sequence[str] = (),
) -> list[str]:
    """The command line of a sidecar on this host.

    Start it in a session of its own (Ctrl-C must not reach it) with stdout as a pipe, and give its first line to `ready`.
    With `owner` it ends by itself a minute after that process is gone.
    """
    words = [sys.executable, "-m", "loadkit", "sidecar", "--out", str(out), "--listen", listen]
    words += ["--server", server] if server else []
    words += ["--container", container] if container else []
    words += ["--guard"] if guard else []
    words += ["--wait"] if wait else []
    words += ["--owner", str(owner)] if owner is not None else []
    return [*words, *extra]


def ready(line: bytes) -> Ready:
    """The first line of a sidecar's stdout.

    Raises:
        SidecarLost: the line is empty (it ended before it listened; stderr says why) or no such JSON.
    """
    try:
        said = orjson.loads(line)
        return Ready(url=said["url"], pid=int(said["pid"]), out=Path(said["out"]))
    except (ValueError, KeyError, TypeError) as problem:
        raise SidecarLost("the sidecar ended before it listened" if not line.strip() else f"no sidecar: {line!r}") from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """Run clock − sidecar clock, ± half of the quickest round trip; 0 ± 0 where both are the clock of one boot of one host."""

    offset_ns: int
    error_ns: int
    same_host: bool
    boot_id: str

    def to_run(self, sidecar_ns: int) -> int:
        return sidecar_ns + self.offset_ns

    def to_sidecar(self, run_ns: int) -> int:
        return run_ns - self.offset_ns

    def manifest(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardState:
    """What the guard thinks and does. It only counts where `armed`; `abort` stays until a new baseline is taken.

    `action`: "" | closing_streams | stopping | stopped | killing | killed | failed | recovered. Locust has about half a second
    from closing_streams on to close its streams (`SidecarClient.closed` ends that wait).
    """

    level: Level = "ok"
    armed: bool = False
    action: str = ""
    reason: str = ""
    at_ns: int = 0
    mem_available_bytes: int | None = None
    container: str | None = None
    can_stop: bool = False


class SidecarClient:
    """Asks one sidecar. Every method raises `SidecarLost` when it does not answer, `UsageError` when it refuses the token."""

    def __init__(self, url: str, *, token: str | None = None, timeout_s: float = 5.0):
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is no address of a sidecar", where="--sidecar", remedy="write http://host:9101")
        self.url = parts.geturl().rstrip("/")
        self._parts = parts
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s

    def health(self) -> dict[str, Any]:
        return self._json("GET", "/health")

    def clock(self) -> dict[str, Any]:
        return self._json("GET", "/clock")

    def latest(self) -> dict[str, dict[str, Any]]:
        """The newest sample of each source, as plain JSON."""
        return self._json("GET", "/latest")

    def snapshot(self) -> dict[str, Any]:
        """Scrape the server now, record it, and return that sample (before and after a serial request)."""
        return self._json("POST", "/snapshot")

    def guard(self) -> GuardState:
        return _guard_state(self._json("GET", "/guard"))

    def guard_stream(self) -> Iterator[GuardState]:
        """A state at once, then at each change and once a second; raises `SidecarLost` when the sidecar is gone."""
        with self._answer("GET", "/guard/stream") as answer:
            while line := answer.readline():
                yield _guard_state(orjson.loads(line))
        raise SidecarLost(f"the sidecar at {self.url} ended")

    def closed(self) -> None:
        """Tell the guard that no stream is open any more: it need not wait before it stops the container."""
        self._json("POST", "/guard/closed")

    def rebaseline(self) -> None:
        """What runs now is the container to compare with and the only one to stop; an abort is forgotten."""
        self._json("POST", "/baseline")

    def expect_stop(self, *, for_s: int = 120) -> None:
        """We are about to stop the server: its going away in the next `for_s` seconds is no incident."""
        self._json("POST", f"/expect-stop?for_s={for_s}")

    def samples(self, from_ns: int, to_ns: int) -> Iterator[bytes]:
        """Lines of the span, both ends included, in the sidecar's clock."""
        with self._answer("GET", f"/samples?from_ns={from_ns}&to_ns={to_ns}") as answer:
            while line := answer.readline():
                yield line

    def copy(self, path: Path, *, from_ns: int, to_ns: int, offset: ClockOffset) -> int:
        """Append the span (in the run's clock) to a file, stamps turned into the run's clock; how many lines it was.

        Wall times and boot id stay those of the sidecar's host.
        """
        lines = 0
        with path.open("ab") as file:
            for line in self.samples(offset.to_sidecar(from_ns), offset.to_sidecar(to_ns)):
                file.write(line if offset.offset_ns == 0 else _moved(line, offset))
                lines += 1
        return lines

    def _json(self, method: str, route: str) -> dict[str, Any]:
        with self._answer(method, route) as answer:
            try:
                said = orjson.loads(answer.read())
            except ValueError as problem:
                raise SidecarLost(f"{self.url}{route} did not answer with JSON: is it a sidecar?") from problem
        if not isinstance(said, dict):
            raise SidecarLost(f"{self.url}{route} answered with something else: is it a sidecar?")
        return said

    @contextmanager
    def _answer(self, method: str, route: str) -> Iterator[HTTPResponse]:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._timeout_s)
        try:
            connection.request(method, self._parts.path.rstrip("/") + route, headers=self._headers)
            answer = connection.getresponse()
            self._check(answer, route)
            yield answer
        except (OSError, HTTPException) as problem:
            raise SidecarLost(f"the sidecar at {self.url} does not answer ({problem or type(problem).__name__})") from problem
        finally:
            connection.close()

    def _check(self, answer: HTTPResponse, route: str) -> None:
        if answer.status in (401, 403):
            raise UsageError(
                "it refuses the token",
                where=self.url,
                remedy=f"set {TOKEN_VARIABLE} to the value that the sidecar was started with",
            )
        if answer.status != 200:
            words = answer.read(300).decode("utf-8", "replace").strip()
            raise SidecarLost(f"{self.url}{route} answered {answer.status} {words}")


def clock_offset(client: SidecarClient, clock: Clock | None = None, *, tries: int = 9) -> ClockOffset:
    """Relate the clocks by round trips: the sidecar's reading lies between two of ours, the quickest trip counts.

    This is one exchange of NTP (RFC 5905 §8) with both of the server's stamps the same.
    """
    ours = SystemClock() if clock is None else clock
    trips = [_trip(client, ours) for _ in range(tries)]
    offset_ns, error_ns, boot_id = min(trips, key=lambda trip: trip[1])
    if boot_id == _boot_id() and abs(offset_ns) <= error_ns:
        return ClockOffset(offset_ns=0, error_ns=0, same_host=True, boot_id=boot_id)
    return ClockOffset(offset_ns=offset_ns, error_ns=error_ns, same_host=False, boot_id=boot_id)


def _trip(client: SidecarClient, clock: Clock) -> tuple[int, int, str]:
    before = clock.monotonic_ns()
    theirs = client.clock()
    after = clock.monotonic_ns()
    return (before + after) // 2 - int(theirs["monotonic_ns"]), (after - before + 1) // 2, str(theirs["boot_id"])


def _boot_id() -> str | None:
    """This host's boot; containers of one host share it. `None` where the system has none (macOS)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _guard_state(said: dict[str, Any]) -> GuardState:
    return GuardState(**{name: said[name] for name in GuardState.__slots__ if name in said})


def _moved(line: bytes, offset: ClockOffset) -> bytes:
    sample = orjson.loads(line)
    sample["monotonic_ns"] = offset.to_run(sample["monotonic_ns"])
    return orjson.dumps(sample, option=orjson.OPT_APPEND_NEWLINE)
