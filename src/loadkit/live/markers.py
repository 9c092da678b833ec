"""Moments that the charts mark with a line: stages, the kernel's kills, the guard's levels, a container that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MOST = 200

Severity = Literal["stage", "suspect", "unstable"]

_KILLS = {"oom_kill", "memcg_kill", "oom_invoked", "xid"}
_WEAK = {"nv_err_no_memory", "hung_task"}
_DOCKER_ENDS = {"die", "oom", "kill", "restart", "stop"}


@dataclass(frozen=True, slots=True)
class Marker:
    """One moment on the charts' axis (monotonic ns)."""

    at_ns: int
    severity: Severity
    text: str


@dataclass(slots=True)
class Watch:
    """Turns samples into markers: only changes count, so it remembers what it saw last."""

    _last: dict[str, Any] = field(default_factory=dict)
    _given: int = 0

    def see(self, source: str, data: Mapping[str, Any], at_ns: int) -> Iterator[Marker]:
        """Markers that this sample gives rise to (mostly none); at most `MOST` in all."""
        for severity, text in self._words(source, data):
            if self._given < MOST:
                self._given += 1
                yield Marker(at_ns, severity, text)

    def _words(self, source: str, data: Mapping[str, Any]) -> Iterator[tuple[Severity, str]]:
        if source == "kernel":
            yield from self._kernel(data)
        elif source == "guard":
            yield from self._guard(data)
        elif source == "host" and self._rose("oom_kill", data.get("oom_kill")):
            yield "unstable", f"oom_kill {data['oom_kill']}"
        elif source == "server" and self._changed("process_start_time_s", data.get("process_start_time_s")):
            yield "unstable", "server restarted"
        elif source == "container" and data.get("event") == "docker" and data.get("action") in _DOCKER_ENDS:
            yield "unstable", f"container: {data['action']}"

    def _kernel(self, data: Mapping[str, Any]) -> Iterator[tuple[Severity, str]]:
        event = data.get("event")
        if event in _KILLS:
            yield "unstable", f"{event}: {data.get('comm') or str(data.get('text', ''))[:80]}"
        elif event in _WEAK:
            yield "suspect", str(event)

    def _guard(self, data: Mapping[str, Any]) -> Iterator[tuple[Severity, str]]:
        level = data.get("level")
        before = self._last.get("level", "ok")
        if level is None or level == before:
            return
        self._last["level"] = level
        if level != "ok":
            yield "suspect" if level == "warn" else "unstable", f"guard: {level}"

    def _rose(self, name: str, value: Any) -> bool:
        before = self._last.get(name)
        if isinstance(value, int | float):
            self._last[name] = value
            return before is not None and value > before
        return False

    def _changed(self, name: str, value: Any) -> bool:
        before = self._last.get(name)
        if value is not None:
            self._last[name] = value
        return before is not None and value is not None and before != value
