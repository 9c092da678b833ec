"""Who goes first in each pair, by an independent seeded coin, and how long it will take."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

ASSUMED_START_S = 120.0
ASSUMED_RUN_S = 120.0
"""What a launch is taken to need before one has been seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One launch of the schedule. `number` counts from 1 over the whole experiment, `pair` from 1; `place` is 1 or 2 in it."""

    number: int
    pair: int
    place: int
    arm: str


def schedule(arms: tuple[str, str], pairs: int, *, seed: int) -> tuple[Slot, ...]:
    """AB or BA for each pair. The coin of a pair depends on the seed and its number only: more pairs change no earlier one."""
    slots: list[Slot] = []
    for pair in range(1, pairs + 1):
        heads = random.Random(f"loadkit {seed} {pair}").random() < 0.5
        for place, arm in enumerate(arms if heads else arms[::-1], start=1):
            slots.append(Slot(number=len(slots) + 1, pair=pair, place=place, arm=arm))
    return tuple(slots)


def estimate_s(slots: Sequence[Slot], durations_s: Sequence[float]) -> float:
    """Seconds for the slots: the mean of the launches seen so far, else the assumed start and run."""
    each = sum(durations_s) / len(durations_s) if durations_s else ASSUMED_START_S + ASSUMED_RUN_S
    return each * len(slots)
