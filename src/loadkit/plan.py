"""What a run does and in which order: stages of items, as plain data made before the first request.

The plan lives on Locust's master (or the single process). Users pull items; a stage begins when all items of the one before
have ended, so idle time between stages is in no figure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from loadkit.case import Case
from loadkit.record import Phase, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of work for one user: a case (all its turns, in order), and where in the plan it stands."""

    id: str
    case: Case
    slot: Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`ways` users work through `items`.

    With `release="barrier"` the first `ways` items are sent at one moment; later ones follow as users become free, each user
    keeping to the items of its own `way`. With `release="queue"` any free user takes the next item in order (one way: strictly
    serial). Stages that share a `ladder` climb: after one with a request that did not complete, or a host event, the rest of
    that ladder is not sent.
    """

    name: str
    ways: int
    items: tuple[Item, ...]
    round: int = 1
    phase: Phase = Phase.MEASURED
    release: Literal["barrier", "queue"] = "queue"
    ladder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole run. `hash` of the plan goes into the manifest: two runs of one plan asked the same things in one order."""

    stages: tuple[Stage, ...]
    seed: int = 0
    name: str = ""
    asked: dict[str, bool] = field(default_factory=dict)


def placed(case: Case, slot: Slot, **place: object) -> Item:
    """An item whose id says where it stands, unique in the plan."""
    at = replace(slot, **place)  # type: ignore[arg-type]
    parts = [at.phase.value[0], case.facts.case, at.stage, f"r{at.round}", f"w{at.way}", f"t{at.attempt}"]
    return Item(id="-".join(part.replace(" ", "") for part in parts if part), case=case, slot=at)
