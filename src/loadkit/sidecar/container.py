"""The server's container: its state against a baseline, and the engine's events.

`OOMKilled` is sticky, late and also true for a sibling of a victim, and exit code 137 is SIGKILL from anybody; so the facts
are recorded with what they have to be compared with (Id, StartedAt, Pid, RestartCount), and judged from the file.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from loadkit.secrets import masked, masked_environment
from loadkit.sidecar.docker_engine import DockerEngine, Gone
from loadkit.sidecar.samples import Missing

# What decides how the server runs; anything else of the environment is nobody's business.
ENVIRONMENT = re.compile(r"^(CUDA|VLLM|NCCL|TORCH|PYTORCH|OMP|TRITON|FLASHINFER|SGLANG|TRTLLM|NVIDIA|HF_HUB_OFFLINE|LLAMA)")


class Container:
    """Looks at one container by name. The first one seen running is the baseline, until `rebaseline`."""

    source = "container"

    def __init__(self, name: str, engine: DockerEngine):
        self.name = name
        self._engine = engine
        self._lock = threading.Lock()
        self._baseline_id: str | None = None
        self._gone = False
        self._looked = False
        self.state: dict[str, Any] = {}
        self.ports: frozenset[int] = frozenset()
        self.addresses: frozenset[str] = frozenset()

    @property
    def baseline_id(self) -> str | None:
        return self._baseline_id

    def rebaseline(self) -> None:
        with self._lock:
            self._baseline_id = None

    def pid(self) -> int | None:
        """PID 1 of the container as the host numbers it; 0 while it does not run, `None` before the first look."""
        return (self.state.get("pid") or 0) if self._looked else None

    def look(self) -> list[dict[str, Any]]:
        try:
            inspected = self._engine.inspect(self.name)
        except Gone:
            self._looked = True
            return self._said_gone()
        self._looked = True
        self._gone = False
        self.state = state(inspected)
        self.ports, self.addresses = published(inspected), addresses(inspected)
        first = self._take_baseline(inspected) if self.state.get("running") else None
        return [first, self.state] if first is not None else [self.state]

    def _said_gone(self) -> list[dict[str, Any]]:
        """A container that was removed is an event, once; one that was never there is a missing source."""
        had, self.state = self.state, {}
        if not had and not self._gone:
            raise Missing(f"there is no container {self.name} yet")
        self._gone = True
        return [{"event": "gone", "id": had["id"], "name": self.name, "running": False}] if had else []

    def _take_baseline(self, inspected: dict[str, Any]) -> dict[str, Any] | None:
        with self._lock:
            if self._baseline_id is not None:
                return None
            self._baseline_id = inspected["Id"]
        digest = self._digest(inspected["Image"])
        return {"event": "baseline", **state(inspected), **identity(inspected), "image_digest": digest}

    def _digest(self, image_id: str) -> str:
        try:
            digests = self._engine.image(image_id).get("RepoDigests") or []
        except Missing:
            digests = []
        return str(digests[0]) if digests else image_id


class Events:
    """Follows the engine's events of one container in a thread of its own; begins again when the stream breaks."""

    def __init__(self, name: str, engine: DockerEngine):
        self._name = name
        self._engine = engine
        self._stream: Any = None
        self._closed = False

    def follow(self, tell: Callable[[dict[str, Any]], None]) -> None:
        """Tells every event; returns when the stream ends.

        Raises:
            Missing: the engine does not answer.
        """
        try:
            for event in self._engine.events(self._name, self._opened):
                tell(event_data(event))
        except Missing:
            if not self._closed:
                raise

    def close(self) -> None:
        self._closed = True
        if self._stream is not None:
            self._stream.close()

    def _opened(self, stream: Any) -> None:
        self._stream = stream
        if self._closed:
            stream.close()


def state(inspected: dict[str, Any]) -> dict[str, Any]:
    """The part of `docker inspect` that changes."""
    now = inspected["State"]
    health = (now.get("Health") or {}).get("Status")
    return {
        "id": inspected["Id"],
        "name": inspected["Name"].lstrip("/"),
        "running": now["Running"],
        "started_at": now["StartedAt"],
        "pid": now["Pid"] or None,
        "restart_count": inspected.get("RestartCount", 0),
        "oom_killed": now["OOMKilled"],
        "exit_code": now["ExitCode"],
    } | ({"health": health} if health else {})


def identity(inspected: dict[str, Any]) -> dict[str, Any]:
    """The part that says what was started, without secrets."""
    config, host = inspected["Config"], inspected["HostConfig"]
    environment = dict(entry.split("=", 1) for entry in config.get("Env") or [] if "=" in entry)
    return {
        "image": config["Image"],
        "labels": masked_environment(config.get("Labels") or {}),
        "arguments": list(masked([inspected["Path"], *inspected["Args"]])),
        "environment": masked_environment({name: value for name, value in environment.items() if ENVIRONMENT.match(name)}),
        "restart_policy": (host.get("RestartPolicy") or {}).get("Name") or "no",
        "memory_limit_bytes": host.get("Memory", 0),
    }


def published(inspected: dict[str, Any]) -> frozenset[int]:
    """Ports of the host that lead into the container."""
    ports = (inspected.get("NetworkSettings") or {}).get("Ports") or {}
    return frozenset(int(one["HostPort"]) for bindings in ports.values() for one in bindings or [] if one.get("HostPort"))


def addresses(inspected: dict[str, Any]) -> frozenset[str]:
    """The container's own addresses on the engine's networks."""
    networks = (inspected.get("NetworkSettings") or {}).get("Networks") or {}
    return frozenset(one["IPAddress"] for one in networks.values() if one.get("IPAddress"))


def event_data(event: dict[str, Any]) -> dict[str, Any]:
    """An event of the engine; `exec_start: sh -c …` and the like keep their first word."""
    attributes = (event.get("Actor") or {}).get("Attributes") or {}
    data: dict[str, Any] = {
        "event": "docker",
        "action": str(event.get("Action", "")).split(":")[0],
        "id": (event.get("Actor") or {}).get("ID", event.get("id")),
        "name": attributes.get("name"),
        "time_ns": event.get("timeNano"),
    }
    if "exitCode" in attributes:
        data["exit_code"] = int(attributes["exitCode"])
    if "signal" in attributes:
        data["signal"] = attributes["signal"]
    if data["action"] == "health_status":
        data["health"] = str(event["Action"]).partition(":")[2].strip()
    return {key: value for key, value in data.items() if value is not None}
