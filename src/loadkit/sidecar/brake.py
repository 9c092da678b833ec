"""The guard's hand: stops the container, each action recorded before it is taken, and waits for memory to come back.

Only the container that was named is stopped, and only if its Id is the baseline's: a new one under the old name is not ours.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from loadkit.clock import Clock
from loadkit.sidecar.container import Container
from loadkit.sidecar.docker_engine import DockerEngine
from loadkit.sidecar.samples import Missing

STOP_GRACE_S = 5
RECOVERY_NS = 600_000_000_000  # after a kill, memory took up to 60 s to come back


class Act(Protocol):
    """Records an action and shows it; `since_ns` is when that began whose duration is of interest."""

    def __call__(self, action: str, reason: str, *, since_ns: int | None = None) -> None: ...


class Brake:
    """Stops one container. `available` is the newest MemAvailable, `ended` says that the sidecar ends."""

    def __init__(
        self,
        container: Container | None,
        engine: DockerEngine | None,
        *,
        act: Act,
        available: Callable[[], int | None],
        clock: Clock,
        ended: threading.Event,
    ):
        self._container = container
        self._engine = engine
        self._act = act
        self._available = available
        self._clock = clock
        self._ended = ended

    @property
    def can_stop(self) -> bool:
        return self._engine is not None and self._container is not None and self._container.baseline_id is not None

    def stop(self, reason: str, *, begun_ns: int, panic_bytes: int) -> None:
        """`stop -t 5`; killed at once when MemAvailable falls below `panic_bytes` meanwhile, or when stop fails."""
        container_id = None if self._container is None else self._container.baseline_id
        if self._container is None or self._engine is None or container_id is None:
            self._act("failed", "there is no container that it may stop: only the streams were closed")
        elif self._may_stop(self._container, self._engine, container_id):
            self._act("stopping", reason)
            self._end(self._engine, container_id, reason, begun_ns=begun_ns, panic_bytes=panic_bytes)

    def await_memory(self, *, enough_bytes: int) -> None:
        """Wait until MemAvailable is back, and write down how long that took."""
        begun_ns = self._clock.monotonic_ns()
        while not self._ended.wait(0.25):
            available = self._available() or 0
            if available >= enough_bytes:
                self._act("recovered", f"MemAvailable {available >> 20} MiB", since_ns=begun_ns)
                return
            if self._clock.monotonic_ns() - begun_ns > RECOVERY_NS:
                self._act("not_recovered", f"MemAvailable {available >> 20} MiB after 10 minutes")
                return

    def _may_stop(self, container: Container, engine: DockerEngine, container_id: str) -> bool:
        try:
            found: dict[str, Any] = engine.inspect(container.name)
        except Missing as problem:
            self._act("failed", f"{problem}: the container was not stopped")
            return False
        if found["Id"] != container_id:
            self._act("failed", f"{container.name} is another container than at the baseline: not stopped")
            return False
        if not found["State"]["Running"]:
            self._act("stopped", "it does not run any more")
            return False
        return True

    def _end(self, engine: DockerEngine, container_id: str, reason: str, *, begun_ns: int, panic_bytes: int) -> None:
        order = _Order(engine, container_id)
        while not order.done.wait(0.05):
            available = self._available()
            if available is not None and available < panic_bytes:
                self._kill(engine, container_id, f"MemAvailable {available >> 20} MiB while it was stopping", begun_ns)
                return
        if order.trouble is None:
            self._act("stopped", reason, since_ns=begun_ns)
        else:
            self._kill(engine, container_id, f"stop failed: {order.trouble}", begun_ns)

    def _kill(self, engine: DockerEngine, container_id: str, reason: str, begun_ns: int) -> None:
        self._act("killing", reason)
        try:
            engine.kill(container_id)
        except Missing as problem:
            self._act("failed", str(problem))
        else:
            self._act("killed", reason, since_ns=begun_ns)


class _Order:
    """A stop under way in a thread of its own, so that memory can be watched meanwhile."""

    def __init__(self, engine: DockerEngine, container_id: str):
        self.done = threading.Event()
        self.trouble: str | None = None
        threading.Thread(target=self._give, args=(engine, container_id), name="stop", daemon=True).start()

    def _give(self, engine: DockerEngine, container_id: str) -> None:
        try:
            engine.stop(container_id, grace_s=STOP_GRACE_S)
        except Missing as problem:
            self.trouble = str(problem)
        self.done.set()
