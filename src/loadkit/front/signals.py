"""Ctrl-C, SIGTERM and a terminal that is gone: the first ends the run in order, a second Ctrl-C or SIGTERM leaves at once.

Locust installs its SIGTERM handler only after it has waited for a shape, and a KeyboardInterrupt may hit any greenlet; handlers
of the loop run in a greenlet of their own.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import gevent

from loadkit import hangup

INTERRUPTED = 130


class Signals:
    """Calls `interrupted` with the signal's name on the first one."""

    def __init__(self, interrupted: Callable[[str], None], leaving: Callable[[], None]):
        self._interrupted = interrupted
        self._leaving = leaving
        self._seen = False
        self._terminal = hangup.Terminal()

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            gevent.signal_handler(number, self._caught, number)
        if hangup.matters():
            gevent.signal_handler(signal.SIGHUP, self._hung_up)

    def _hung_up(self) -> None:
        """Shell and kernel may both say so: that is no second wish to leave."""
        self._terminal.leave()
        if not self._seen:
            self._caught(signal.SIGHUP)

    def _caught(self, number: int) -> None:
        if self._seen:
            self._leaving()
            os._exit(INTERRUPTED)
        self._seen = True
        self._interrupted(signal.Signals(number).name)
