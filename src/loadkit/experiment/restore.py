"""The default configuration, before and after: brought back at the end whatever happened, and each part of that is proved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from loadkit.experiment import host, locust_run
from loadkit.experiment.launch import Bench, come_up
from loadkit.experiment.locust_run import LocustRun
from loadkit.experiment.plan import GIB
from loadkit.experiment.server import Server, ServerFailed
from loadkit.experiment.server_log import ServerLog
from loadkit.experiment.waiting import wait_until

NONE = "none"
SMOKE_S = 1800.0
SMOKE_PASSES = (0, 5)
"""Smoke asks whether everything is answered rightly; that its timings are invalid (5) on a busy machine is no failure of it."""
State = Literal["ok", "failed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """One thing that has to be as before, and whether it is."""

    what: str
    state: State
    detail: str = ""

    @property
    def words(self) -> str:
        return f"{self.what}: {self.state}" + (f" ({self.detail})" if self.detail else "")


def before(bench: Bench) -> dict[str, Any]:
    """How things are before anything is touched: the host, the default's files, and its server if it runs."""
    name = bench.experiment.file.default
    server = bench.servers.get(name)
    runs = server is not None and server.running() is not None
    return {
        "host": host.look().facts(),
        "files": file_hashes(bench),
        "running": runs,
        "server": server.facts() if server is not None and runs else {},
    }


def file_hashes(bench: Bench) -> dict[str, str]:
    """sha256 of the default's compose files."""
    arm = bench.experiment.file.arms.get(bench.experiment.file.default)
    paths = [bench.experiment.located(file) for file in arm.compose] if arm else []
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "absent" for path in paths}


def stop_everything(bench: Bench) -> None:
    """No arm's server runs after this.

    Raises:
        ServerFailed: one can't be stopped.
    """
    for server in bench.servers.values():
        server.down()
    for name, server in bench.servers.items():
        if not wait_until(lambda server=server: server.running() is None, limit_s=60):  # type: ignore[misc]
            raise ServerFailed(f"{server.running()} ({name}) can't be stopped: give the arm a `stop` command, or stop it first")


def restore(bench: Bench, was: dict[str, Any]) -> tuple[Proved, ...]:
    """Bring the default back and prove it; nothing interrupts this, and no failure keeps the later proofs from being made."""
    proofs: list[Proved] = []
    for proof in _steps(bench, was):
        bench.ledger.note("restored", **asdict(proof))
        proofs.append(proof)
    return tuple(proofs)


def _steps(bench: Bench, was: dict[str, Any]) -> Iterator[Proved]:
    try:
        stop_everything(bench)
    except ServerFailed as problem:
        yield Proved(what="servers of the arms stopped", state="failed", detail=str(problem))
    name = bench.experiment.file.default
    if name == NONE:
        running = [server.running() for server in bench.servers.values() if server.restarts]
        still = ", ".join(words for words in running if words)
        yield Proved(what="nothing runs", state="failed" if still else "ok", detail=still)
    else:
        yield from _default_back(bench, name, was)
    yield _units(was)
    yield _memory(bench, was)


def _default_back(bench: Bench, name: str, was: dict[str, Any]) -> Iterator[Proved]:
    if was["files"]:
        same = file_hashes(bench) == was["files"]
        yield Proved(what="compose files byte-identical", state="ok" if same else "failed")
    server = bench.servers[name]
    folder = bench.ledger.logs / "default"
    folder.mkdir(parents=True, exist_ok=True)
    log = ServerLog(folder / "server.log", limit_bytes=int(bench.experiment.file.server_log_mib * (1 << 20)))
    try:
        server.up(log)
        url = come_up(server, log, limit_s=bench.experiment.file.waits.healthy_s, orders=None)
    except ServerFailed as problem:
        yield Proved(what=f"default {name} running and healthy", state="failed", detail=str(problem))
        return
    yield Proved(what=f"default {name} running and healthy", state="ok", detail=url)
    yield from _same_container(server, was)
    if bench.experiment.file.smoke is not None:
        yield _smoke(bench, bench.experiment.located(bench.experiment.file.smoke), url)


def _same_container(server: Server, was: dict[str, Any]) -> Iterator[Proved]:
    """Image and restart policy as before, where a container ran before."""
    old, new = was["server"], server.facts()
    for key, what in (("image_id", "image"), ("restart_policy", "restart policy")):
        if key not in new:
            continue
        if key not in old:
            yield Proved(what=f"{what} as before", state="unknown", detail=f"it did not run before; now {new[key] or 'none'}")
        else:
            same = old[key] == new[key]
            detail = str(new[key]) if same else f"{old[key]} before, {new[key]} now"
            yield Proved(what=f"{what} as before", state="ok" if same else "failed", detail=detail)


def _smoke(bench: Bench, locustfile: Path, url: str) -> Proved:
    run_dir = bench.ledger.folder / "restored"
    run_dir.mkdir(exist_ok=True)
    asked = LocustRun(
        locustfile=locustfile,
        base_url=url,
        label="smoke",
        run_dir=run_dir,
        log=bench.ledger.logs / "default" / "smoke.log",
        options=("--no-sidecar",),
        folder=bench.experiment.path.parent,
    )
    try:
        run = locust_run.run(asked, ledger=bench.ledger, limit_s=SMOKE_S, orders=None, meanwhile=lambda: None)
    except ServerFailed as problem:
        return Proved(what="smoke passed", state="failed", detail=str(problem))
    return Proved(what="smoke passed", state="ok" if run.exit_code in SMOKE_PASSES else "failed", detail=run.headline)


def _units(was: dict[str, Any]) -> Proved:
    old, new = was["host"].get("failed_units"), host.failed_units()
    if old is None or new is None:
        return Proved(what="no new failed unit", state="unknown", detail="systemd does not answer")
    fresh = sorted(set(new) - set(old))
    return Proved(what="no new failed unit", state="failed" if fresh else "ok", detail=", ".join(fresh))


def _memory(bench: Bench, was: dict[str, Any]) -> Proved:
    """MemAvailable as before, if the same thing runs as before: else there is nothing to compare it with."""
    waits = bench.experiment.file.waits
    if was["running"] != (bench.experiment.file.default != NONE):
        now = f"{host.mem_available_bytes() / GIB:.1f} GiB now"
        return Proved(what="memory as before", state="unknown", detail=f"the default did not run before; {now}")
    wanted = was["host"]["mem_available_bytes"] - waits.memory_slack_gib * GIB
    met = wait_until(lambda: host.mem_available_bytes() >= wanted, limit_s=waits.memory_s)
    old, new = was["host"]["mem_available_bytes"] / GIB, host.mem_available_bytes() / GIB
    return Proved(what="memory as before", state="ok" if met else "failed", detail=f"{old:.1f} GiB before, {new:.1f} GiB now")
