"""The whole experiment, from the first look at the host to the default brought back; reads as a table of contents."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loadkit.clock import Clock
from loadkit.errors import LoadkitError, UsageError
from loadkit.experiment import host
from loadkit.experiment.host import Demands, Gate, HostState
from loadkit.experiment.launch import Bench, end_after_a_kill, launch, server_of
from loadkit.experiment.ledger import Ended, left, open_ledger
from loadkit.experiment.outcome import Outcome, comparison, gives_up, is_decided, unmeasured
from loadkit.experiment.plan import GIB, Experiment
from loadkit.experiment.restore import Proved, before, restore, stop_everything
from loadkit.experiment.schedule import Slot, estimate_s, schedule
from loadkit.experiment.server import ServerFailed, run_shell
from loadkit.experiment.waiting import Interrupted, Orders

PREPARE_S = 6 * 3600.0
Say = Callable[[str], None]


class Stopped(LoadkitError):
    """The experiment ends before its last launch; the message says why."""


@dataclass(frozen=True, slots=True)
class Conductor:
    """What the steps below share."""

    bench: Bench
    slots: tuple[Slot, ...]
    say: Say


def conduct(experiment: Experiment, folder: Path, *, clock: Clock, orders: Orders, say: Say) -> Outcome:
    """Do (or resume) the experiment in `folder`.

    Raises:
        UsageError: the folder belongs to another plan, or Locust refused its options.
    """
    ledger = open_ledger(experiment, folder, clock)
    servers = {name: server_of(arm, experiment, ledger) for name, arm in experiment.file.arms.items()}
    bench = Bench(experiment, ledger, clock, orders, servers)
    slots = schedule(experiment.arm_names, experiment.file.most_pairs, seed=experiment.file.seed)
    if ledger.last("finished") is not None:
        say("this experiment is finished: its comparison again")
        return Outcome(launches=ledger.ended(), comparison=comparison(experiment, ledger), restored=())
    for what in end_after_a_kill(ledger):
        say(f"ended what a killed experiment had left running: {what}")
    _nobody_else_there(bench)
    was = _begun(bench, slots)
    with orders.listening():
        return _all_of_it(Conductor(bench, slots, say), was)


def _nobody_else_there(bench: Bench) -> None:
    """A server that we did not start and can't stop would be measured instead of ours.

    Raises:
        UsageError: there is one.
    """
    for name, arm in bench.experiment.file.arms.items():
        if arm.kind == "command" and arm.stop is None and (running := bench.servers[name].running()) is not None:
            where, remedy = str(bench.experiment.path), "stop it first, or give the arm a `stop` command"
            raise UsageError(f"there is {running} already", where=where, key=f"arms.{name}", remedy=remedy)


def _begun(bench: Bench, slots: tuple[Slot, ...]) -> dict[str, Any]:
    """The state from before the first launch, kept over a resume; the schedule is written down before anything runs."""
    ledger, file = bench.ledger, bench.experiment.file
    if ledger.last("planned") is None:
        order = [{"pair": slot.pair, "arm": slot.arm} for slot in slots]
        ledger.note("planned", hash=bench.experiment.hash, seed=file.seed, order=order, **file.declared)
    known = ledger.last("before")
    if known is None:
        ledger.note("before", **before(bench))
        known = ledger.last("before")
    return known or {}


def _all_of_it(conductor: Conductor, was: dict[str, Any]) -> Outcome:
    bench, say = conductor.bench, conductor.say
    stopped, interrupted = "", False
    try:
        _prepare(conductor)
        stop_everything(bench)
        _launches(conductor, _baseline(bench))
    except Interrupted as order:
        stopped, interrupted = str(order), True
    except (Stopped, ServerFailed) as reason:
        stopped = str(reason)
        say(f"STOPPED: {stopped}")
    finally:
        say("bringing back the default configuration")
        restored = restore(bench, was)
        _say_restored(restored, say)
    if not stopped:
        bench.ledger.note("finished")
    found = comparison(bench.experiment, bench.ledger)
    return Outcome(launches=bench.ledger.ended(), comparison=found, restored=restored, stopped=stopped, interrupted=interrupted)


def _prepare(conductor: Conductor) -> None:
    """Each arm's `prepare` once; its output is kept, and it is not repeated on a resume."""
    bench = conductor.bench
    done = {line["arm"] for line in bench.ledger.lines("prepared")}
    for name, arm in bench.experiment.file.arms.items():
        if arm.prepare is None or name in done:
            continue
        conductor.say(f"preparing {name}")
        log = bench.ledger.logs / f"prepare-{name}.log"
        folder = bench.experiment.path.parent
        result = run_shell(arm.prepare, folder=folder, environment=arm.environment, limit_s=PREPARE_S, log=log)
        if result.returncode != 0:
            raise Stopped(f"preparing {name} ended with {result.returncode}: see {log}")
        bench.ledger.note("prepared", arm=name, log=str(log))


def _baseline(bench: Bench) -> HostState:
    """The host with nothing running; taken anew after a reboot, else once for the whole experiment."""
    time.sleep(bench.experiment.file.waits.settle_s)
    now = host.look()
    known = bench.ledger.last("baseline")
    if known is not None and known["boot_id"] == now.boot_id:
        return HostState.of(known)
    bench.ledger.note("baseline", **now.facts())
    return now


def _launches(conductor: Conductor, baseline: HostState) -> None:
    bench, say = conductor.bench, conductor.say
    while (slot := _next(conductor)) is not None:
        todo = left(conductor.slots, bench.ledger.ended())
        seen = [ended.duration_s for ended in bench.ledger.ended() if ended.state == "finished"]
        say(f"pair {slot.pair}, {slot.arm}: launch {slot.number} of {len(conductor.slots)}, about "
            f"{estimate_s(todo, seen) / 60:.0f} min left")  # fmt: skip
        _pass_gate(bench, baseline)
        ended = launch(slot, bench)
        say(f"pair {slot.pair}, {slot.arm}: {ended.state}: {ended.reason}")
        if reason := unmeasured(bench.experiment, bench.ledger):
            raise Stopped(reason)
        if gives_up(bench.ledger.ended(), slot.arm, bench.experiment.file.give_up_after):
            raise Stopped(f"{slot.arm} was aborted {bench.experiment.file.give_up_after} times in a row: {ended.reason}")
    _pass_gate(bench, baseline)


def _next(conductor: Conductor) -> Slot | None:
    """The next slot to do; a look that decides ends the experiment, and a pair whose first launch was aborted is left."""
    ledger = conductor.bench.ledger
    for slot in left(conductor.slots, ledger.ended()):
        if slot.place == 1 and _decided_before(conductor, slot.pair):
            return None
        if slot.place == 2 and any(one.pair == slot.pair and one.state == "aborted" for one in ledger.ended()):
            reason = "the other launch of its pair was aborted"
            ledger.finish(Ended(number=slot.number, pair=slot.pair, arm=slot.arm, state="skipped", reason=reason))
            continue
        return slot
    return None


def _decided_before(conductor: Conductor, pair: int) -> bool:
    """Whether the pairs before this one are a look, and it decides."""
    bench = conductor.bench
    if pair - 1 not in bench.experiment.file.looks:
        return False
    found = comparison(bench.experiment, bench.ledger, pairs=pair - 1)
    decided = is_decided(found)
    word = found.primary.judgement.word.value if found is not None and found.primary is not None else "nothing"
    bench.ledger.note("look", pairs=pair - 1, word=word, decided=decided)
    conductor.say(f"look after {pair - 1} pairs: {word}" + (" – no more pairs are needed" if decided else ""))
    return decided


def _pass_gate(bench: Bench, baseline: HostState) -> Gate:
    waits = bench.experiment.file.waits
    demands = Demands(
        baseline=baseline,
        slack_bytes=waits.memory_slack_gib * GIB,
        quiet_s=waits.settle_s,
        still_running=lambda: next((words for server in bench.servers.values() if (words := server.running())), None),
    )
    if not any(server.restarts for server in bench.servers.values()):
        demands = replace(demands, slack_bytes=float("inf"))  # memory has nothing to come back from
    gate = host.wait_at_gate(demands, limit_s=waits.memory_s, orders=bench.orders, now_s=bench.now_s)
    now = host.look()
    bench.ledger.note("gate", open=gate.open, waited_s=gate.waited_s, reasons=list(gate.reasons),
                      kills=host.new_kills(baseline, now), host=now.facts())  # fmt: skip
    if not gate.open:
        raise Stopped(f"aborted: host gate ({'; '.join(gate.reasons)})")
    return gate


def _say_restored(restored: tuple[Proved, ...], say: Say) -> None:
    for proof in restored:
        say(f"restored: {proof.words}")
    if any(proof.state == "failed" for proof in restored):
        say("THE DEFAULT CONFIGURATION IS NOT BACK AS IT WAS: see the lines above")
