"""What a run does and in which order: stages of items, as plain data made before the first request.

The plan lives on Locust's master (or the single process). Users pull items; a stage begins when all items of the one before
have ended, so idle time between stages is in no figure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import orjson

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


def joined(*plans: Plan, name: str) -> Plan:
    """One plan after the other; what any of them asks a verdict for is asked for, and the seed is the first one's."""
    return Plan(
        stages=tuple(stage for plan in plans for stage in plan.stages),
        seed=plans[0].seed,
        name=name,
        asked={key: True for plan in plans for key, wanted in plan.asked.items() if wanted},
    )


def stage(
    name: str,
    cases: Sequence[Case],
    *,
    ways: int = 1,
    round: int = 1,  # noqa: A002 - the word that slots and tables use
    phase: Phase = Phase.MEASURED,
    release: Literal["barrier", "queue"] = "queue",
    ladder: str | None = None,
) -> Stage:
    """A stage of these cases in this order, dealt to its ways in turn."""
    slot = Slot(phase=phase, stage=name, ways=ways, round=round)
    items = tuple(placed(case, slot, way=number % ways) for number, case in enumerate(cases))
    return Stage(name=name, ways=ways, items=items, round=round, phase=phase, release=release, ladder=ladder)


def cases_of_comparison(*, ways: Sequence[int], rounds: int, requests_per_user: int = 1, warm_up: bool = True) -> int:
    """How many distinct cases `comparison` needs."""
    return rounds * requests_per_user * sum(ways) + (len(ways) if warm_up else 0)


def comparison(
    cases: Sequence[Case],
    *,
    ways: Sequence[int] = (1, 2, 4),
    rounds: int = 3,
    requests_per_user: int = 1,
    warm_up: bool = True,
    seed: int = 0,
    name: str = "",
) -> Plan:
    """Round-major: in each round one barrier stage for each number of ways, each request a case of its own.

    The last cases are the warm-ups, one for each stage, before round 1: a run without them asks the same measured cases.

    Raises:
        ValueError: there are fewer cases than `cases_of_comparison` says.
    """
    needed = cases_of_comparison(ways=ways, rounds=rounds, requests_per_user=requests_per_user, warm_up=warm_up)
    if len(cases) < needed:
        raise ValueError(f"{needed} cases are needed, {len(cases)} given")
    supply = iter(cases[:needed])
    stages = tuple(
        stage(ways_name(count), _take(supply, count * requests_per_user), ways=count, round=number, release="barrier")
        for number in range(1, rounds + 1)
        for count in ways
    )
    warm = tuple(
        stage(ways_name(count), [case], round=0, phase=Phase.WARMUP) for count, case in zip(ways, supply, strict=warm_up)
    )
    return Plan(stages=warm + stages, seed=seed, name=name)


def sequence(
    cases: Sequence[Case],
    *,
    ways: int = 1,
    rounds: int = 1,
    stage_name: str = "",
    seed: int = 0,
    name: str = "",
    asked: dict[str, bool] | None = None,
) -> Plan:
    """All cases in order, once a round, by `ways` users; one way is strictly serial.

    Cases that are declared warm are asked once as warm-ups first, under the salt that they keep.
    """
    called = stage_name or name
    warm = [case for case in cases if case.facts.cache == "warm" and case.document is None]
    primed = (stage(called, warm, round=0, phase=Phase.WARMUP),) if warm else ()
    stages = tuple(stage(called, cases, ways=ways, round=number) for number in range(1, rounds + 1))
    return Plan(stages=primed + stages, seed=seed, name=name, asked={} if asked is None else asked)


def ladder(
    rungs: Sequence[tuple[str, Sequence[Case]]],
    *,
    round: int = 1,  # noqa: A002 - the word that slots and tables use
    name: str,
    seed: int = 0,
    asked: dict[str, bool] | None = None,
) -> Plan:
    """One serial stage a rung, climbing: after a rung that did not complete, the higher ones are not sent."""
    stages = tuple(stage(rung, cases, round=round, ladder=f"{name} r{round}") for rung, cases in rungs)
    return Plan(stages=stages, seed=seed, name=name, asked={} if asked is None else asked)


def ways_name(ways: int) -> str:
    """What a stage of a comparison is called."""
    return "1 way" if ways == 1 else f"{ways} ways"


def size(plan: Plan) -> int:
    """Items of the plan, warm-ups included."""
    return sum(len(part.items) for part in plan.stages)


def users_of(plan: Plan) -> int:
    """Users that the widest stage needs."""
    return max((part.ways for part in plan.stages), default=0)


def digest(plan: Plan) -> str:
    """SHA-256 of what is asked and in which order; run id, label, server and salts are not in it, nor where documents lie."""
    plain = [
        [part.name, part.ways, part.round, part.phase, part.release, part.ladder, [_identity(item) for item in part.items]]
        for part in plan.stages
    ]
    return hashlib.sha256(orjson.dumps([plan.name, plan.seed, plain])).hexdigest()


def _identity(item: Item) -> list[object]:
    case = item.case
    return [item.id, case.facts, case.turns, case.body, case.salt_group, case.stream, item.slot]


def _take(supply: Iterator[Case], count: int) -> list[Case]:
    return [next(supply) for _ in range(count)]
