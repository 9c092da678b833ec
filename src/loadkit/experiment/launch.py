"""One launch: sidecar, server up, proof that the flag is in force, the run, server down; it always ends in one line."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from loadkit.clock import Clock
from loadkit.compare.launch import LAUNCH
from loadkit.errors import UsageError
from loadkit.experiment import locust_run, processes
from loadkit.experiment.compose import ComposeServer
from loadkit.experiment.ledger import Ended, Ledger
from loadkit.experiment.locust_run import LocustRun
from loadkit.experiment.plan import Arm, Experiment
from loadkit.experiment.proof import evidence
from loadkit.experiment.schedule import Slot
from loadkit.experiment.server import CommandServer, RunningServer, Server, ServerFailed, root_of
from loadkit.experiment.server_log import ServerLog
from loadkit.experiment.waiting import Interrupted, Orders, wait_until
from loadkit.experiment.watch import Watch, watch
from loadkit.run_folder import write_atomically

USAGE, INCOMPLETE = 2, 3
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Bench:
    """What every launch of an experiment shares."""

    experiment: Experiment
    ledger: Ledger
    clock: Clock
    orders: Orders
    servers: dict[str, Server]

    def now_s(self) -> float:
        return self.clock.monotonic_ns() / 1e9


def server_of(arm: Arm, experiment: Experiment, ledger: Ledger) -> Server:
    """The server that an arm describes."""
    if arm.kind == "compose":
        return ComposeServer(arm, [experiment.located(file) for file in arm.compose])
    if arm.kind == "command":
        return CommandServer(arm, ledger, folder=experiment.path.parent)
    return RunningServer(arm)


def launch(slot: Slot, bench: Bench) -> Ended:
    """Do the slot's launch, leave nothing running, and say how it ended.

    Raises:
        Interrupted: the user asked to stop; the launch is in the ledger as cut short.
        UsageError: Locust refused its options before the first request.
    """
    attempt = 1 + sum(ended.number == slot.number for ended in bench.ledger.ended())
    label = f"{slot.number:02d}-{slot.arm}" + (f"-again{attempt}" if attempt > 1 else "")
    folder = bench.ledger.logs / label
    folder.mkdir(parents=True, exist_ok=True)
    log = ServerLog(folder / "server.log", limit_bytes=int(bench.experiment.file.server_log_mib * (1 << 20)))
    bench.ledger.note("begun", number=slot.number, pair=slot.pair, arm=slot.arm, attempt=attempt, label=label)
    begun_s = bench.now_s()
    blank = Ended(number=slot.number, pair=slot.pair, arm=slot.arm, state="aborted")
    watching = _watch(slot, bench, folder)
    try:
        ended = _measured(slot, bench, log=log, label=label, sidecar=_address(watching, bench))
    except ServerFailed as problem:
        ended = replace(blank, reason=str(problem))
    except Interrupted:
        bench.ledger.finish(replace(blank, state="cut", reason="interrupted by the user", run=_run_made(bench, label)))
        raise
    finally:
        _down(bench.servers[slot.arm], log, watching)
    ended = replace(ended, duration_s=bench.now_s() - begun_s)
    bench.ledger.finish(ended)
    if ended.exit_code == USAGE:
        raise UsageError(
            "Locust refused to run", where=str(folder / "locust.log"), remedy="the last lines of that file say why"
        )
    return ended


def _measured(slot: Slot, bench: Bench, *, log: ServerLog, label: str, sidecar: str | None) -> Ended:
    server, file = bench.servers[slot.arm], bench.experiment.file
    server.up(log)
    base_url = come_up(server, log, limit_s=file.waits.healthy_s, orders=bench.orders)
    server.save_log(log)
    facts = server.facts()
    seen = evidence(file.arms[slot.arm].proof, log.text(), facts.get("arguments", ()))
    bench.ledger.note(
        "step", number=slot.number, step="healthy", facts=facts, evidence=list(seen.lines), missing=list(seen.missing)
    )
    if seen.missing:
        raise ServerFailed(f"the flag is not in force: {'; '.join(seen.missing)}")
    asked = LocustRun(
        locustfile=bench.experiment.located(file.locustfile),
        base_url=base_url,
        label=label,
        run_dir=bench.ledger.runs,
        log=log.path.with_name("locust.log"),
        options=(*file.options, *([] if file.sidecar else ["--no-sidecar"])),
        sidecar=sidecar,
        folder=bench.experiment.path.parent,
    )
    run = locust_run.run(asked, ledger=bench.ledger, limit_s=file.waits.run_s, orders=bench.orders, meanwhile=log.bound)
    if run.folder is not None:
        declared = {"experiment": file.declared, "pair": slot.pair, "arm": slot.arm, "number": slot.number, "place": slot.place}
        kept = {**declared, "restarted": server.restarts, "evidence": list(seen.lines), **facts}
        write_atomically(run.folder / LAUNCH, orjson.dumps(kept, option=orjson.OPT_INDENT_2))
    incomplete = run.folder is None or run.exit_code in (INCOMPLETE, 130) or run.exit_code < 0
    return Ended(
        number=slot.number,
        pair=slot.pair,
        arm=slot.arm,
        state="aborted" if incomplete else "finished",
        reason=(run.headline or f"Locust ended with {run.exit_code}") if incomplete else run.headline,
        run=run.folder.name if run.folder else None,
        exit_code=run.exit_code,
    )


def come_up(server: Server, log: ServerLog, *, limit_s: float, orders: Orders | None) -> str:
    """Wait until the server is healthy; gives its base URL.

    Raises:
        ServerFailed: it ended, or was not healthy in time; the end of its log is in the message.
        Interrupted: the user asked to stop.
    """
    why: str | None = None

    def up_or_over() -> bool:
        nonlocal why
        log.bound()
        why = server.ended()
        return why is not None or server.healthy()

    met = wait_until(up_or_over, limit_s=limit_s, orders=orders)
    if not met or why is not None:
        server.save_log(log)
        told = f"; its log ends with: {log.last_lines(3)}" if log.text() else ""
        raise ServerFailed((why or f"not healthy within {limit_s:.0f} s") + told)
    url = server.base_url()
    if url is None:
        raise ServerFailed("its address is unknown: give the arm `port` or `base_url`")
    return url


def _watch(slot: Slot, bench: Bench, folder: Path) -> Watch | None:
    """A sidecar of ours, where the server is on this host; the user's own is only named to Locust."""
    file, server = bench.experiment.file, bench.servers[slot.arm]
    arm = file.arms[slot.arm]
    if not isinstance(file.sidecar, bool) or not file.sidecar:
        return None
    container = server.name_ahead() if isinstance(server, ComposeServer) else None
    if container is None and not any(host in (arm.base_url or "") for host in LOOPBACK):
        return None
    root = root_of(arm.base_url) if arm.base_url else None
    return watch(folder, ledger=bench.ledger, server=root, container=container)


def _address(watching: Watch | None, bench: Bench) -> str | None:
    given = bench.experiment.file.sidecar
    return watching.url if watching else given if isinstance(given, str) else None


def _down(server: Server, log: ServerLog, watching: Watch | None) -> None:
    """Always: log, server, sidecar, in this order, so that the sidecar sees the end."""
    if watching is not None and server.restarts:
        watching.expect_stop()
    try:
        try:
            server.save_log(log)
        finally:
            server.down()
    finally:
        if watching is not None:
            watching.end()


def _run_made(bench: Bench, label: str) -> str | None:
    return next((path.name for path in sorted(bench.ledger.runs.iterdir(), reverse=True) if path.name.endswith(label)), None)


def end_after_a_kill(ledger: Ledger) -> tuple[str, ...]:
    """What a killed experiment left: its processes are ended, its unfinished launch is noted as cut short."""
    ended = processes.end_leftovers(ledger, spare=frozenset({os.getpid()}))
    begun = ledger.unfinished()
    if begun is not None:
        cut = Ended(
            number=begun["number"], pair=begun["pair"], arm=begun["arm"], state="cut", reason="the experiment was killed"
        )
        ledger.finish(cut)
    return ended
