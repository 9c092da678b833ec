"""Which request gets which fault: by the options of the server, or by the request's own header where that is enabled."""

from __future__ import annotations

import random
from collections import Counter

from loadkit.errors import UsageError
from loadkit.simulator.faults.table import KINDS, Fault, parse
from loadkit.simulator.refusal import Refusal

HEADER = "x-loadkit-fault"
GENERATING = ("/v1/chat/completions", "/v1/completions")


class Faults:
    """The faults of a server. Counts requests per fault; draws with a fixed seed, so that a run can be repeated."""

    def __init__(self, written: tuple[str, ...], *, header: bool):
        self._faults = [parse(text) for text in written]
        self._header = header
        self._seen: Counter[int] = Counter()
        self._played: Counter[int] = Counter()
        self._draw = random.Random(0)

    def for_connection(self) -> Fault | None:
        """A fault of connections (there is no request yet, so only options can ask for one)."""
        return self._next(lambda fault: KINDS[fault.name].scope == "connection")

    def for_request(self, path: str, headers: dict[str, str]) -> Fault | None:
        """The fault to play for a request, if any; the header wins.

        Raises:
            Refusal: the header names no fault (400), so that a test with a slip in it does not pass.
        """
        asked = headers.get(HEADER)
        if asked and self._header:
            try:
                return parse(asked, where="X-Loadkit-Fault", common=False)
            except UsageError as problem:
                raise Refusal(str(problem), param=HEADER) from None
        return self._next(lambda fault: KINDS[fault.name].scope != "connection" and _concerns(fault, path))

    def _next(self, concerned) -> Fault | None:  # type: ignore[no-untyped-def]
        for index, fault in enumerate(self._faults):
            if not concerned(fault):
                continue
            self._seen[index] += 1
            spared = self._seen[index] <= fault.count("skip")
            spent = 0 < fault.count("first") <= self._played[index]
            if not spared and not spent and self._draw.random() < fault.number("rate"):
                self._played[index] += 1
                return fault
        return None


def _concerns(fault: Fault, path: str) -> bool:
    wanted = fault.text("path")
    return path in GENERATING if wanted == "generate" else path == wanted
