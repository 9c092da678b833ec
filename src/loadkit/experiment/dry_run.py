"""What an experiment would do, without doing any of it: schedule, commands, estimated time."""

from __future__ import annotations

from collections.abc import Iterator

from loadkit.experiment.compose import compose_command
from loadkit.experiment.plan import Arm, Experiment
from loadkit.experiment.schedule import ASSUMED_RUN_S, ASSUMED_START_S, estimate_s, schedule
from loadkit.experiment.server import shown


def dry_run(experiment: Experiment) -> Iterator[str]:
    """Lines for people."""
    file = experiment.file
    a, b = experiment.arm_names
    slots = schedule(experiment.arm_names, file.most_pairs, seed=file.seed)
    yield f"{file.name}: {b} against {a}, primary metric {file.primary}, δ = {file.margin:.3g}"
    yield f"declared factors: {', '.join(file.factors) or 'none: the arms have to be equal in all else'}"
    looks = f", looked at after {', '.join(map(str, file.looks))}" if file.looks else ""
    yield f"{file.most_pairs} pairs{looks}; order by coin, seed {file.seed}:"
    for pair in range(1, file.most_pairs + 1):
        yield f"  pair {pair}: {' then '.join(slot.arm for slot in slots if slot.pair == pair)}"
    for name, arm in file.arms.items():
        yield from _arm(experiment, name, arm)
    yield f"measured on each launch: locust -f {experiment.located(file.locustfile)} {' '.join(file.options)}".rstrip()
    yield f"at the end: {_default(experiment)}"
    minutes = estimate_s(slots, ()) / 60
    each = f"{ASSUMED_START_S:.0f} s to start and {ASSUMED_RUN_S:.0f} s to run each"
    yield f"estimated time: {minutes:.0f} min for {len(slots)} launches ({each}, corrected as soon as one has been seen)"


def _arm(experiment: Experiment, name: str, arm: Arm) -> Iterator[str]:
    if arm.prepare:
        yield f"  {name} prepare: {shown(arm.prepare)}"
    if arm.kind == "compose":
        files = " ".join(f"-f {experiment.located(file)}" for file in arm.compose)
        yield f"  {name} up: {' '.join(compose_command())} {files} up -d {arm.service or ''}".rstrip()
    elif arm.kind == "command":
        yield f"  {name} up: {shown(arm.start or '')}"
        yield f"  {name} down: {shown(arm.stop) if arm.stop else 'SIGTERM to its process group'}"
    else:
        yield f"  {name}: runs already at {arm.base_url}, is neither started nor stopped"
    demands = {"log": arm.proof.log, "no log": arm.proof.no_log, "argument": arm.proof.argument}
    demands["no argument"] = arm.proof.no_argument
    for kind, patterns in demands.items():
        for pattern in patterns:
            yield f"  {name} proof: {kind} {pattern}"


def _default(experiment: Experiment) -> str:
    file = experiment.file
    if file.default == "none":
        return "nothing is left running"
    return f"{file.default} is started again and proved" + (f", {file.smoke} has to pass" if file.smoke else "")
