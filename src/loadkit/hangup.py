"""A terminal that is gone, as after a lost ssh connection: what is written to it from then on is an error."""

from __future__ import annotations

import os
import signal

OUTPUTS = (1, 2)


class Terminal:
    """Standard output and error, as far as they are a terminal now; afterwards that can't be told any more."""

    def __init__(self) -> None:
        self._outputs = [number for number in OUTPUTS if os.isatty(number)]

    def leave(self) -> None:
        """Write nowhere instead."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in self._outputs:
            os.dup2(nowhere, number)
        os.close(nowhere)


def matters() -> bool:
    """Whether SIGHUP is to be heard; not where it is ignored: whoever started this with nohup wants it to go on."""
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
