"""Cases for users with tasks of their own: handed out in turn, so that no two users ask the same before all were asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from loadkit.case import Case
from loadkit.plan import Item
from loadkit.record import Slot

CASES = 200
"""Distinct cases that are drawn of a scenario; then they come again, with other salts."""


@dataclass
class Supply:
    """The cases of one worker: of each scenario every `workers`-th, beginning with number `first`.

    `draw` makes the cases of a scenario by name, the same on every worker.
    """

    draw: Callable[[str], tuple[Case, ...]]
    first: int = 0
    workers: int = 1
    _drawn: dict[str, tuple[Case, ...]] = field(default_factory=dict)
    _next: dict[str, int] = field(default_factory=dict)

    def take(self, scenario: str) -> tuple[Item, int]:
        """The next item of a scenario, and how often all cases have been used before.

        Raises:
            UsageError: there is no such scenario.
        """
        if scenario not in self._drawn:
            self._drawn[scenario] = self.draw(scenario)
        cases = self._drawn[scenario]
        number = self._next.get(scenario, self.first)
        self._next[scenario] = number + self.workers
        lap, place = divmod(number, len(cases))
        return Item(id=f"m-{cases[place].facts.case}-n{number + 1}", case=cases[place], slot=Slot(round=1)), lap
