"""Progress of a headless run: one bar that stays in place on a terminal, plain lines now and then otherwise.

It is told nothing; it looks at `Live` twice a second in a greenlet of its own, so it costs a run nothing when it is quiet.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import gevent
from rich.console import Console
from rich.file_proxy import FileProxy
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from loadkit.language import Language, language_of
from loadkit.live import Live
from loadkit.live.words import line, state, where

LOOK_S = 0.5
PLAIN_EVERY_S = 10.0


class Progress:
    """Shows how far the run is. `quiet` (Locust's `--only-summary`) shows nothing at all."""

    def __init__(self, live: Live, *, quiet: bool = False, stream: IO[str] | None = None):
        self._live = live
        self._quiet = quiet
        self._stream = sys.stderr if stream is None else stream
        self._greenlet: Any = None

    def start(self) -> None:
        """Begin to show; call when a run begins."""
        if not self._quiet and self._greenlet is None:
            self._greenlet = gevent.spawn(self._on_terminal if self._stream.isatty() else self._in_lines)

    def stop(self) -> None:
        """Take the bar away, so that tables can be printed; call before the verdict is shown. Harmless when repeated."""
        greenlet, self._greenlet = self._greenlet, None
        if greenlet is not None:
            greenlet.kill()

    def _in_lines(self) -> None:
        told, shown_at = "", 0.0
        language = language_of()
        while True:
            progress = self._live.progress
            key, now = f"{progress.stage}/{progress.round}/{progress.phase}", time.monotonic()
            if progress.stage and (key != told or now - shown_at >= PLAIN_EVERY_S):
                self._stream.write(f"loadkit: {line(self._live, time.monotonic_ns(), language)}\n")
                self._stream.flush()
                told, shown_at = key, now
            gevent.sleep(LOOK_S)

    def _on_terminal(self) -> None:
        console = Console(file=self._stream)
        language = language_of()
        columns = (TextColumn("{task.fields[where]}"), BarColumn(bar_width=None), TextColumn("{task.fields[figures]}"))
        bar = Bar(*columns, console=console, auto_refresh=False, transient=True, expand=True)
        with bar, _logs_above(console, self._stream):
            task = bar.add_task("", total=None, where="", figures="")
            while True:
                self._draw(bar, task, language)
                gevent.sleep(LOOK_S)

    def _draw(self, bar: Bar, task: TaskID, language: Language) -> None:
        progress = self._live.progress
        bar.update(
            task, total=progress.total, completed=progress.done, refresh=True,
            where=where(self._live, language), figures=state(self._live, time.monotonic_ns(), language),
        )  # fmt: skip


@contextmanager
def _logs_above(console: Console, stream: IO[str]) -> Iterator[None]:
    """Log lines that go to the same stream are written above the bar while it is there."""
    proxy = FileProxy(console, stream)
    handlers = {
        handler
        for logger in (logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict))
        for handler in logger.handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is stream
    }
    for handler in handlers:
        handler.setStream(proxy)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(stream)
