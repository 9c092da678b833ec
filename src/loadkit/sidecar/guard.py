"""The guard: hears every sample, judges it (`watchman`), tells Locust, and brakes where it is armed (`brake`)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from loadkit.clock import Clock
from loadkit.record import Sample
from loadkit.sidecar.brake import Brake
from loadkit.sidecar.container import Container
from loadkit.sidecar.docker_engine import DockerEngine
from loadkit.sidecar.watchman import Judgement, Level, Thresholds, Watchman

GRACE_S = 0.5  # for Locust to close its streams; an abort of a stream takes vLLM about 60 ms
HEARD = frozenset(("host", "kernel", "container", "server"))


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What Locust is told; the names are those of `sidecar_client.GuardState`."""

    level: Level = "ok"
    armed: bool = False
    action: str = ""
    reason: str = ""
    at_ns: int = 0
    mem_available_bytes: int | None = None
    container: str | None = None
    can_stop: bool = False


class Guard:
    """Judges in a thread of its own (`run`), acts in another.

    Unarmed it judges and records all the same, so that a run without a guard shows when one would have acted.
    """

    def __init__(
        self,
        watchman: Watchman,
        *,
        armed: bool,
        container: Container | None,
        engine: DockerEngine | None,
        record: Callable[[dict[str, Any]], None],
        clock: Clock,
    ):
        self.watchman = watchman
        self.state = State(armed=armed, container=None if container is None else container.name)
        self._armed = armed
        self._container = container
        self._record = record
        self._clock = clock
        self._heard: queue.SimpleQueue[Sample | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._version = 0
        self._listeners = 0
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._brake = Brake(
            container, engine, act=self._act, available=lambda: self.state.mem_available_bytes, clock=clock, ended=self._ended
        )

    def hear(self, sample: Sample) -> None:
        """Called by the recorder from any thread; returns at once."""
        if sample.source in HEARD:
            self._heard.put(sample)

    def run(self) -> None:
        """Judge until `end`."""
        self._record({"event": "thresholds", "armed": self._armed, **_threshold_data(self.watchman.thresholds)})
        while (sample := self._heard.get()) is not None:
            before = self.watchman.judgement
            self._judged(before, self.watchman.see(sample))

    def end(self) -> None:
        self._ended.set()
        self._closed.set()
        self._heard.put(None)
        self._show()

    def closed(self) -> None:
        """Locust has no stream open any more."""
        self._closed.set()

    def expect_stop(self, until_ns: int) -> None:
        self.watchman.expect_stop(until_ns)

    def rebaseline(self) -> None:
        """What runs now is the container to watch; a latched abort is forgotten."""
        self.watchman.rebaseline()
        if self._container is not None:
            self._container.rebaseline()
        self._show(level="ok", action="", reason="")

    def states(self) -> Iterator[State]:
        """The state at once, at each change, and once a second; ends with the guard."""
        self._listeners += 1
        try:
            seen = -1
            while not self._ended.is_set():
                with self._changed:
                    if self._version == seen:
                        self._changed.wait(1.0)
                    seen = self._version
                    state = self.state
                yield state
        finally:
            self._listeners -= 1

    def _judged(self, before: Judgement, now: Judgement) -> None:
        """Levels are recorded and told when they change; figures just reach the state."""
        if now is before:
            return
        figures = {"at_ns": now.at_ns, "mem_available_bytes": now.mem_available_bytes, "can_stop": self._brake.can_stop}
        if now.level == before.level:
            with self._changed:
                self.state = replace(self.state, **figures)  # type: ignore[arg-type]
            return
        self._record(_judgement_data(now, armed=self._armed))
        if now.level == "abort" and self._armed:
            self._closed.clear()
            self._show(**figures, level="abort", reason=now.reason, action="closing_streams")
            threading.Thread(target=self._abort, args=(now,), name="brake", daemon=True).start()
        else:
            self._show(**figures, level=now.level, reason=now.reason)

    def _abort(self, judgement: Judgement) -> None:
        self._act("closing_streams", judgement.reason)
        if self._listeners:
            self._closed.wait(GRACE_S)
        begun_ns = judgement.at_ns if judgement.crossed_ns is None else judgement.crossed_ns
        thresholds = self.watchman.thresholds
        self._brake.stop(judgement.reason, begun_ns=begun_ns, panic_bytes=thresholds.abort_bytes // 2)
        self._brake.await_memory(enough_bytes=thresholds.warn_bytes)

    def _act(self, action: str, reason: str, *, since_ns: int | None = None) -> None:
        """Record first, then show it to those who listen."""
        data: dict[str, Any] = {"level": "abort", "armed": True, "action": action, "reason": reason}
        if self.state.mem_available_bytes is not None:
            data["mem_available_bytes"] = self.state.mem_available_bytes
        if self._container is not None:
            data["container"] = f"{self._container.name} {(self._container.baseline_id or '')[:12]}".strip()
        if since_ns is not None:
            data |= {"crossed_ns": since_ns, "took_ms": round((self._clock.monotonic_ns() - since_ns) / 1e6, 1)}
        self._record(data)
        self._show(action=action)

    def _show(self, **changes: Any) -> None:
        with self._changed:
            self.state = replace(self.state, **changes)
            self._version += 1
            self._changed.notify_all()


def _judgement_data(judgement: Judgement, *, armed: bool) -> dict[str, Any]:
    data = {key: value for key, value in asdict(judgement).items() if value not in (None, "") and key != "at_ns"}
    return data | {"armed": armed}


def _threshold_data(thresholds: Thresholds) -> dict[str, int]:
    return {key: value for key, value in asdict(thresholds).items() if key.endswith("_bytes")}
