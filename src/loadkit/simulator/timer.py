"""A timer that is exact to tens of microseconds: Linux's timerfd in the event loop.

libuv (and so uvloop) rounds its own timers to whole milliseconds, which is longer than the steps that are simulated.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Callable

CLOCK_MONOTONIC = 1
TFD_NONBLOCK = os.O_NONBLOCK
TFD_CLOEXEC = os.O_CLOEXEC
TFD_TIMER_ABSTIME = 1


class _Span(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    """struct itimerspec: an interval (0 here: once) and the time."""

    _fields_ = (("interval", _Span), ("value", _Span))


class Timer:
    """Calls `ring` once at each time that is set; a time in the past rings in the loop's next round."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]):
        self._loop = loop
        self._ring = ring
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._setting = _Setting()
        loop.add_reader(self._file, self._expired)

    def set(self, at_ns: int) -> None:
        """Ring at a time of CLOCK_MONOTONIC, in nanoseconds."""
        if at_ns <= time.monotonic_ns():
            self._loop.call_soon(self._ring)
            return
        value = self._setting.value
        value.seconds, value.nanoseconds = divmod(at_ns, 1_000_000_000)
        self._libc.timerfd_settime(self._file, TFD_TIMER_ABSTIME, ctypes.byref(self._setting), None)

    def close(self) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)

    def _expired(self) -> None:
        os.read(self._file, 8)
        self._ring()
