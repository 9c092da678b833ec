"""Waiting that can be told to stop, and the order to stop: Ctrl-C once ends the experiment in order, twice loses nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from loadkit import hangup
from loadkit.errors import LoadkitError

LOOK_EVERY_S = 0.25


class Interrupted(LoadkitError):
    """The user asked to stop; what was running ends, and the default configuration is brought back."""


class Orders:
    """What the user has asked for by signals, a closed terminal included; a second one changes nothing, but is answered."""

    def __init__(self, say: Callable[[str], None]):
        self.stop_asked = False
        self._say = say
        self._terminal = hangup.Terminal()

    @contextmanager
    def listening(self) -> Iterator[Orders]:
        heard = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangup.matters() else [])]
        before = {number: signal.signal(number, self._heard) for number in heard}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if number == signal.SIGHUP:
            self._terminal.leave()
        again = self.stop_asked
        self.stop_asked = True
        self._say(
            "still ending in order: the default configuration is brought back first"
            if again
            else "stopping: the run ends, then the default configuration is brought back"
        )


def wait_until(met: Callable[[], bool], *, limit_s: float, orders: Orders | None = None) -> bool:
    """Look until `met`; False after `limit_s` seconds. Without `orders` it can't be interrupted (bringing back the default).

    Raises:
        Interrupted: the user asked to stop.
    """
    deadline = time.monotonic() + limit_s
    while True:
        if orders is not None and orders.stop_asked:
            raise Interrupted("stopped by the user")
        if met():
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_EVERY_S)
