"""The sidecar as a run sees it: started here for a server on this host, or asked at its address; samples end in the folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gevent

from loadkit import gauges
from loadkit.clock import Clock
from loadkit.errors import LoadkitError, SidecarLost, UsageError
from loadkit.front.children import Child
from loadkit.front.options import Options
from loadkit.live import Live
from loadkit.run_folder import SAMPLES
from loadkit.sidecar_client import TOKEN_VARIABLE, ClockOffset, GuardState, SidecarClient, clock_offset, command

EVERY_S = 1.0
PATIENCE_S = 1.5
"""A sidecar that nobody asked for holds the first request back for so long at most."""
JUDGED_S = 3.0
"""A guard has its first sample of memory within a second; one that has none is heard when it has."""
SPAN_NS = 60_000_000_000
"""How much of a remote sidecar's samples before and after the run is copied."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ROW = "server"
"""Name of the gauges' rows in Locust's statistics; the gauge is their type."""


class Watch:
    """One per run. `guard` is told each state of an armed guard; `say` is for people."""

    def __init__(
        self,
        *,
        folder: Path,
        live: Live,
        clock: Clock,
        environment: Any,
        guard: Callable[[GuardState], None],
        say: Callable[[str], None],
    ):
        self._samples = folder / SAMPLES
        self._live = live
        self._clock = clock
        self._environment = environment
        self._guard = guard
        self._say = say
        self._child: Child | None = None
        self._client: SidecarClient | None = None
        self._offset: ClockOffset | None = None
        self._greenlets: list[Any] = []
        self._first: dict[str, Any] | None = None
        self._previous: dict[str, Any] | None = None
        self._begun_ns = clock.monotonic_ns()

    def start(self, options: Options, base_url: str) -> None:
        """Start a sidecar where the server is on this host; takes effect with `begin`."""
        if options.sidecar or options.no_sidecar or urlsplit(base_url).hostname not in LOOPBACK:
            return
        server = base_url.rsplit("/", 1)[0]
        words = command(
            out=self._samples,
            server=server,
            container=options.container or None,
            guard=options.guard,
            owner=os.getpid(),
            extra=("--rotate", "0"),  # its file is the run's, which is read whole
        )
        self._child = Child(words, name="sidecar")

    def begin(self, options: Options) -> None:
        """Wait until it listens. One that nobody asked for may fail (then nobody watches), or be late (then it joins later).

        Raises:
            UsageError: a sidecar that was asked for does not answer, or refuses the token.
        """
        if options.sidecar or options.guard:
            try:
                self._connect(options)
            except SidecarLost as problem:
                raise UsageError(str(problem)) from problem
        elif self._child is not None:
            attempt = gevent.spawn(self._connect_if_possible, options)
            self._greenlets.append(attempt)
            attempt.join(timeout=PATIENCE_S)

    @property
    def clock(self) -> dict[str, Any]:
        """The manifest's `clock`: how the sidecar's is related to the run's; empty without one."""
        return {} if self._offset is None else self._offset.manifest()

    def _connect_if_possible(self, options: Options) -> None:
        try:
            self._connect(options)
        except (SidecarLost, UsageError) as problem:
            self._say(f"nobody watches the server's host: {problem}")

    def _connect(self, options: Options) -> None:
        url = options.sidecar
        if not url:
            if self._child is None:
                raise UsageError("the server is not on this host", where="--guard", remedy="name its sidecar with --sidecar")
            url = str(self._child.ready()["url"])
        client = SidecarClient(url, token=os.environ.get(TOKEN_VARIABLE))
        self._offset = clock_offset(client, self._clock)
        if options.guard:
            self._guard(self._judged(client))
        self._client = client
        self._look_exactly()
        self._greenlets += [gevent.spawn(self._poll), *([gevent.spawn(self._heed)] if options.guard else [])]

    @staticmethod
    def _judged(client: SidecarClient) -> GuardState:
        """The guard's state before the first request: where memory is short already, not even one is sent."""
        state = client.guard()
        if not state.armed:
            remedy = "start it with --guard, or leave --guard out here"
            raise UsageError("its guard is not armed", where=client.url, remedy=remedy)
        with gevent.Timeout(JUDGED_S, False):
            while not state.at_ns:  # it was started just now, and has seen no sample yet
                gevent.sleep(0.05)
                state = client.guard()
        return state

    def closed(self) -> None:
        """Our streams are closed: the guard need not wait for them."""
        if self._client is not None:
            try:
                self._client.closed()
            except LoadkitError as problem:
                self._say(str(problem))

    def end(self, csv_prefix: str | None) -> None:
        """Stop what was started here, bring the samples home, and make `<csv>_sidecar.csv` of them."""
        gevent.killall(self._greenlets)
        self._look_exactly()
        if self._child is not None:
            self._child.stop()
        elif self._client is not None and self._offset is not None:
            now_ns = self._clock.monotonic_ns()
            try:
                self._client.copy(self._samples, from_ns=self._begun_ns - SPAN_NS, to_ns=now_ns + SPAN_NS, offset=self._offset)
            except LoadkitError as problem:
                self._say(f"the sidecar's samples could not be copied: {problem}")
        if csv_prefix and self._samples.exists():
            gauges.write_csv(self._samples, Path(f"{csv_prefix}_sidecar.csv"))

    def _look_exactly(self) -> None:
        """The counters of this moment, not of up to a second ago: the first and the last look say what the run added."""
        if self._client is None:
            return
        try:
            self._client.snapshot()
            self._look(self._client.latest())
        except LoadkitError:
            return  # no sidecar or no server any more: the samples and `_poll` say which

    def _poll(self) -> None:
        """Figures for the live tab, Locust's rows and the history's columns, once a second."""
        assert self._client is not None
        while True:
            try:
                self._look(self._client.latest())
            except LoadkitError as problem:
                self._say(f"the sidecar is gone: {problem}")
                return
            gevent.sleep(EVERY_S)

    def _look(self, latest: dict[str, Any]) -> None:
        self._first = latest if self._first is None else self._first
        for sample in latest.values():
            self._live.sample(sample)
        for name, value in gauges.rows(latest).items():
            self._environment.stats.get(ROW, name).log(value, 0)
        self._environment.loadkit_gauges = gauges.history(latest, first=self._first, previous=self._previous)
        self._previous = latest

    def _heed(self) -> None:
        assert self._client is not None
        try:
            for state in self._client.guard_stream():
                self._guard(state)
        except LoadkitError as problem:
            self._say(f"the guard is gone: {problem}")
