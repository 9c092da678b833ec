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
        self._begun_ns = clock.monotonic_ns()

    def start(self, options: Options, base_url: str) -> None:
        """Start a sidecar where the server is on this host; takes effect with `begin`."""
        if options.sidecar or options.no_sidecar or urlsplit(base_url).hostname not in LOOPBACK:
            return
        server = base_url.rsplit("/", 1)[0]
        words = command(
            out=self._samples, server=server, container=options.container or None, guard=options.guard, owner=os.getpid()
        )
        self._child = Child(words, name="sidecar")

    def begin(self, options: Options) -> dict[str, Any]:
        """Wait until it listens; returns the manifest's `clock`. One that was not asked for may fail: then nobody watches.

        Raises:
            UsageError: a sidecar that was asked for does not answer, or refuses the token.
        """
        try:
            url = self._url(options)
            if not url:
                return {}
            self._client = SidecarClient(url, token=os.environ.get(TOKEN_VARIABLE))
            self._offset = clock_offset(self._client, self._clock)
            armed = not options.guard or self._client.guard().armed
        except (SidecarLost, UsageError) as problem:
            if options.sidecar or options.guard:
                raise UsageError(str(problem)) from problem
            self._say(f"nobody watches the server's host: {problem}")
            self._client = None
            return {}
        if not armed:
            remedy = "start it with --guard, or leave --guard out here"
            raise UsageError("its guard is not armed", where=url, remedy=remedy)
        self._greenlets = [gevent.spawn(self._poll), *([gevent.spawn(self._heed)] if options.guard else [])]
        return self._offset.manifest()

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

    def _url(self, options: Options) -> str:
        if options.sidecar:
            return options.sidecar
        return "" if self._child is None else str(self._child.ready()["url"])

    def _poll(self) -> None:
        """Figures for the live tab, Locust's rows and the history's columns, once a second."""
        assert self._client is not None
        previous = None
        while True:
            try:
                latest = self._client.latest()
            except LoadkitError as problem:
                self._say(f"the sidecar is gone: {problem}")
                return
            self._first = latest if self._first is None else self._first
            for sample in latest.values():
                self._live.sample(sample)
            for name, value in gauges.rows(latest).items():
                self._environment.stats.get(ROW, name).log(value, 0)
            self._environment.loadkit_gauges = gauges.history(latest, first=self._first, previous=previous)
            previous = latest
            gevent.sleep(EVERY_S)

    def _heed(self) -> None:
        assert self._client is not None
        try:
            for state in self._client.guard_stream():
                self._guard(state)
        except LoadkitError as problem:
            self._say(f"the guard is gone: {problem}")
