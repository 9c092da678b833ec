"""The sidecar as a whole: which samplers run, what hears what, and how it begins and ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from loadkit.clock import Clock, SystemClock
from loadkit.errors import UsageError
from loadkit.record import Sample
from loadkit.sidecar import protection, server_process
from loadkit.sidecar.cgroup import Cgroup
from loadkit.sidecar.container import Container, Events
from loadkit.sidecar.cost import Cost
from loadkit.sidecar.docker_engine import DockerEngine
from loadkit.sidecar.exporter import Exporter
from loadkit.sidecar.gpu import Gpus
from loadkit.sidecar.guard import Guard
from loadkit.sidecar.host import Host
from loadkit.sidecar.kernel import open_log
from loadkit.sidecar.pulse import Pulse, Sampler
from loadkit.sidecar.recorder import Recorder
from loadkit.sidecar.samples import Missing, Stamper, boot_id
from loadkit.sidecar.server import Server
from loadkit.sidecar.server_process import ContainerFacts
from loadkit.sidecar.service import Answers, Service
from loadkit.sidecar.services import Services
from loadkit.sidecar.settings import Settings
from loadkit.sidecar.watchman import Watchman

RETRY_S = 10.0
FIRST_LOOK_NS = 3_000_000_000
AFTER_OOM_S = 2.0  # systemd needs a moment to notice what the kernel did to its units
Say = Callable[[str], None]


class Watch:
    """Everything that runs in a sidecar. `say` prints one line for a person (stderr).

    Raises (from the constructor):
        UsageError: no Linux /proc, the address is taken or needs a token, or (without `wait`) server or container is missing.
        FolderError: the output file can't be opened.
    """

    def __init__(self, settings: Settings, *, say: Say, clock: Clock | None = None):
        self.settings = settings
        self._say = say
        self._clock = SystemClock() if clock is None else clock
        self._stamper = Stamper(self._clock, _boot(settings))
        self._ended = threading.Event()
        self._engine = DockerEngine(settings.docker_url) if settings.container else None
        self._container = Container(settings.container, self._engine) if settings.container and self._engine else None
        self._server = Server(settings.server, clock=self._clock, find=self._find_process) if settings.server else None
        if not settings.wait:
            _check_present(settings, self._clock)
        self._services = Services()
        self.recorder = Recorder(settings.out, self._stamper, rotation=settings.rotation)
        self.guard = Guard(
            Watchman(settings.thresholds, needs_server=settings.server is not None),
            armed=settings.guard,
            container=self._container,
            engine=DockerEngine(settings.docker_url) if settings.container else None,
            record=lambda data: self._record("guard", data),
            clock=self._clock,
        )
        self.recorder.listeners += [self.guard.hear, self._hear]
        self._pulses = {sampler.source: self._pulse(sampler, period_s) for sampler, period_s in self._samplers()}
        self.service = Service(settings.host, settings.port, token=settings.token, answers=self._answers())
        self._events = Events(settings.container, DockerEngine(settings.docker_url)) if settings.container else None
        self._began_ns = self._clock.monotonic_ns()

    @property
    def url(self) -> str:
        return self.service.url

    def start(self) -> None:
        """Begin: protection first, then the threads; returns when every source was looked at once, or is slow to answer."""
        self._record("recorder", {"event": "started", "settings": _told(self.settings), **_protected()})
        self._look_at_services("start")
        for name, work in self._work():
            threading.Thread(target=work, name=name, daemon=True).start()
        due_ns = self._clock.monotonic_ns() + FIRST_LOOK_NS
        for pulse in self._pulses.values():
            pulse.looked.wait(max(0, due_ns - self._clock.monotonic_ns()) / 1e9)

    def end(self) -> None:
        """Last samples, so that counters cover a run to its end; then everything is on disk."""
        if self._ended.is_set():
            return
        self._look_at_services("end")
        self._ended.set()
        for source in ("container", "cgroup", "server", "host"):
            if source in self._pulses:
                self._pulses[source].look()
        self.guard.end()
        if self._events is not None:
            self._events.close()
        self.service.shutdown()
        self.service.server_close()
        self._record("recorder", {"event": "ended"})
        self.recorder.close()

    def wait_for_owner(self, ended: threading.Event) -> None:
        """Block until `ended`, or until the owner has been gone for a while: a run's aftermath is part of its story."""
        owner, proc = self.settings.owner, self.settings.proc
        if owner is None:
            ended.wait()
            return
        born = server_process.start_s(owner, proc)
        while not ended.wait(1.0):
            if server_process.start_s(owner, proc) != born or born is None:
                ended.wait(self.settings.linger_s)
                return

    def _samplers(self) -> Iterator[tuple[Sampler, float]]:
        settings, periods = self.settings, self.settings.periods
        yield Host(settings.proc), periods.host_s
        if self._container is not None:
            yield self._container, periods.container_s
            yield Cgroup(self._container.pid, proc=settings.proc, root=settings.cgroup_root), periods.cgroup_s
        if settings.gpu:
            yield Gpus(), periods.gpu_s
        if self._server is not None:
            yield self._server, periods.server_s
        yield self._services, periods.services_s
        late_ns = lambda: self._pulses["host"].worst_late_ns()  # noqa: E731  -- the pulses are made from this
        yield Cost(self.recorder, late_ns=late_ns, say=self._say, proc=settings.proc), periods.recorder_s

    def _work(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield "guard", self.guard.run
        for source, pulse in self._pulses.items():
            yield source, pulse.run
        yield "kernel", self._follow_kernel
        yield "sync", self._sync
        if self._events is not None:
            yield "docker-events", self._follow_events
        yield "http", self.service.serve_forever

    def _pulse(self, sampler: Sampler, period_s: float) -> Pulse:
        return Pulse(sampler, period_s=period_s, record=self._record, say=self._say, clock=self._clock, ended=self._ended)

    def _record(self, source: str, data: dict[str, Any], missing: str | None = None) -> None:
        self.recorder.record(self._stamper.sample(source, data, missing=missing))

    def _hear(self, sample: Sample) -> None:
        """What one source says may ask for a look at another."""
        if sample.source == "kernel" and sample.data.get("event") in ("oom_constraint", "unit_oom"):
            self._services.lost(sample.data.get("cgroup") or "")
            threading.Timer(AFTER_OOM_S, self._look_at_services, ("oom",)).start()
        elif sample.source == "guard" and sample.data.get("action") in ("stopping", "recovered", "not_recovered"):
            at = "before_stop" if sample.data["action"] == "stopping" else "recovered"
            threading.Thread(target=self._look_at_services, args=(at,), daemon=True).start()

    def _look_at_services(self, at: str) -> None:
        try:
            found = self._services.look(at)
        except Missing:  # the pulse says it
            return
        for data in found:
            self._record("services", data)

    def _follow_kernel(self) -> None:
        said = ""
        while not self._ended.is_set():
            try:
                log = open_log(self.settings.kmsg)
                self._record("kernel", {"event": "watching", "how": log.how})
                try:
                    while not self._ended.is_set():
                        log.follow(self._told_by_kernel)
                finally:
                    log.close()
            except Missing as problem:
                self._record("kernel", {}, str(problem))
                if str(problem) != said:
                    self._say(f"kernel log: {problem}")
                said = str(problem)
                self._ended.wait(RETRY_S)

    def _told_by_kernel(self, data: dict[str, Any]) -> None:
        container_id = None if self._container is None else self._container.baseline_id
        named = f"{data.get('cgroup', '')} {data.get('limit_cgroup', '')}"
        self._record("kernel", data | ({"container": True} if container_id and container_id in named else {}))

    def _follow_events(self) -> None:
        assert self._events is not None
        while not self._ended.is_set():
            with suppress(Missing):  # the container's sampler says the same once a second
                self._events.follow(lambda data: self._record("container", self._expected(data)))
            self._ended.wait(1.0)

    def _expected(self, data: dict[str, Any]) -> dict[str, Any]:
        return data | ({"expected": True} if self.guard.watchman.expects_stop(self._clock.monotonic_ns()) else {})

    def _sync(self) -> None:
        while not self._ended.wait(1.0):
            self.recorder.sync()

    def _find_process(self, started_s: float | None) -> dict[str, Any]:
        container = self._container
        facts = None
        if container is not None:
            self._pulses["container"].looked.wait(FIRST_LOOK_NS / 1e9)
        if container is not None and container.state.get("pid"):
            facts = ContainerFacts(container.state["id"], container.state["pid"], container.ports, container.addresses)
        assert self._server is not None
        return server_process.find(self._server.url, started_s, container=facts, proc=self.settings.proc)

    def _snapshot(self) -> dict[str, Any]:
        if self._server is None:
            raise Missing("no server is watched: start the sidecar with --server")
        self._pulses["server"].look()
        sample = self.recorder.latest["server"]
        if sample.missing is not None:
            raise Missing(sample.missing)
        return asdict(sample)

    def _answers(self) -> Answers:
        exporter = Exporter(self.recorder.latest, lambda: self.guard.state.level)
        return Answers(
            health=self._health,
            clock=lambda: {
                "monotonic_ns": self._clock.monotonic_ns(),
                "wall_ns": self._clock.wall_ns(),
                "boot_id": self._stamper.boot_id,
            },
            latest=lambda: {source: asdict(sample) for source, sample in dict(self.recorder.latest).items()},
            snapshot=self._snapshot,
            samples=self.recorder.between,
            guard=lambda: self.guard.state,
            guard_states=self.guard.states,
            closed=self.guard.closed,
            rebaseline=self.guard.rebaseline,
            expect_stop=lambda for_s: self.guard.expect_stop(self._clock.monotonic_ns() + for_s * 1_000_000_000),
            metrics=exporter.text,
        )

    def _health(self) -> dict[str, Any]:
        now_ns = self._clock.monotonic_ns()
        return {
            "ok": self.recorder.unwritten_lines == 0,
            "pid": os.getpid(),
            "boot_id": self._stamper.boot_id,
            "uptime_s": round((now_ns - self._began_ns) / 1e9, 1),
            "out": str(self.recorder.path.absolute()),
            "guard_armed": self.settings.guard,
            "unwritten_lines": self.recorder.unwritten_lines,
            "sources": {
                source: {"monotonic_ns": sample.monotonic_ns, "missing": sample.missing}
                for source, sample in dict(self.recorder.latest).items()
            },
        }


def _boot(settings: Settings) -> str:
    try:
        return boot_id(settings.proc)
    except OSError as problem:
        raise UsageError(
            f"the sidecar needs Linux's {settings.proc} ({problem.strerror})", remedy="run it on the server's host"
        ) from problem


def _check_present(settings: Settings, clock: Clock) -> None:
    """Without --wait a wrong name is a mistake, found now. Looks with objects of its own: the baseline is not taken here."""
    if settings.container is not None:
        try:
            DockerEngine(settings.docker_url).inspect(settings.container)
        except Missing as problem:
            raise UsageError(str(problem), where="--container", remedy="correct the name, or add --wait") from problem
    if settings.server is not None:
        try:
            Server(settings.server, clock=clock, find=lambda _: {}).look()
        except Missing as problem:
            if not problem.data.get("up"):
                raise UsageError(str(problem), where="--server", remedy="start the server, or add --wait") from problem


def _protected() -> dict[str, Any]:
    return {"memory_locked": protection.lock_memory(), "oom_score_adj": protection.lower_oom_score()}


def _told(settings: Settings) -> dict[str, Any]:
    """What it was asked to watch; the token stays out."""
    return {
        "server": settings.server,
        "container": settings.container,
        "guard": settings.guard,
        "listen": f"{settings.host}:{settings.port}",
        "owner": settings.owner,
    }
