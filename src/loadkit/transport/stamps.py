"""When bytes arrived: the kernel's receive stamp, translated from wall time to the monotonic clock.

`SO_TIMESTAMPNS` makes `recvmsg` bring, as ancillary data, the wall time at which the kernel received the last segment that the
read took (socket(7)). The wall and the monotonic clock of Linux are slewed together, so the offset between them changes only
when somebody steps the wall clock; it is read again every second and at the end of each answer, and stamps that a step may
have spoiled are given up for read times.
"""

from __future__ import annotations

import socket
import struct

from loadkit.clock import Anchor, Clock, anchor

SO_TIMESTAMPNS = 35  # asm-generic/socket.h: the same on x86-64 and aarch64; also the type of the ancillary message
TIMESPEC = struct.Struct("@ll")
ANCILLARY_BYTES = socket.CMSG_SPACE(TIMESPEC.size)
STEP_NS = 100_000
"""A change of the offset beyond this and both readings' errors is a step: the error of a stamp stays below it."""


class Stamps:
    """Relates kernel stamps to the monotonic clock, and knows whether the wall clock stepped.

    `offset_ns` is wall − monotonic; `epoch` rises by one with each step that was seen. Stamps are to be trusted only where
    the epoch at the end of an answer, after `renew`, is the one at its beginning.
    """

    __slots__ = ("_anchor", "_clock", "_keeper", "epoch", "offset_ns")

    def __init__(self, clock: Clock, *, wanted: bool = True):
        self.epoch = 0
        self._clock = clock
        self._keeper = _keeper() if wanted else None
        self._set(anchor(clock))

    def renew(self) -> int:
        """Read both clocks again; returns the epoch."""
        fresh = anchor(self._clock, tries=1)
        moved = abs(fresh.wall_ns - fresh.monotonic_ns - self.offset_ns)
        if moved > STEP_NS + fresh.error_ns + self._anchor.error_ns:
            fresh = anchor(self._clock)
            self.epoch += 1
            self._set(fresh)
        elif fresh.error_ns <= self._anchor.error_ns:
            self._set(fresh)
        return self.epoch

    def enable(self, sock: socket.socket) -> bool:
        """Ask for kernel stamps on a socket; false where this system has none."""
        if self._keeper is None:
            return False
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return True

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _set(self, fresh: Anchor) -> None:
        self._anchor = fresh
        self.offset_ns = fresh.wall_ns - fresh.monotonic_ns


def _keeper() -> socket.socket | None:
    """Linux stamps packets while any socket wants it, and begins a moment after the first one asked: one socket keeps it on.

    `None` where the system knows no such option.
    """
    keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        keeper.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        keeper.close()
        return None
    return keeper
