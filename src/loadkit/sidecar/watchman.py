"""The guard's judgement: samples in, a level and its reason out; no clock, no container, no thread in here.

    warn       MemAvailable below `warn`
    stop_new   below `stop_new`: nothing new is sent, what runs may end; kept until MemAvailable is above `warn` again
    abort      below `abort` for `hold`; or zero is predicted within `horizon`; or a process was killed for memory; or the
               container died unasked. Kept until a new baseline is taken

Swap is no condition: with free swap a guard that wants both low never fires (earlyoom on a Spark), and the incident that this
one is made for had 0.4 GiB of swap in use.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Literal

from loadkit.record import Sample

KEPT_NS = 3_200_000_000
Level = Literal["ok", "warn", "stop_new", "abort"]
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Bytes of MemAvailable and times. Measured on a Spark: rests at 18 GiB, once fell from 29 to 2.5 GiB in 9 s."""

    warn_bytes: int = 8 * GIB
    stop_new_bytes: int = 6 * GIB
    abort_bytes: int = 4 * GIB
    hold_ns: int = 1_000_000_000
    horizon_ns: int = 10_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The level now and why; `crossed_ns` is the stamp of the sample that began an abort."""

    level: Level = "ok"
    reason: str = ""
    at_ns: int = 0
    crossed_ns: int | None = None
    mem_available_bytes: int | None = None
    slope_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    at_ns: int
    available: int


class Watchman:
    """Sees every sample in order, keeps the last seconds of MemAvailable, and what the container was at first.

    The prediction counts only once the server has answered (`needs_server`): loading a model falls as steeply as a collapse.
    It wants three seconds in a row that each lead to zero: a step of some GiB (the first request compiles) is no fall.
    """

    def __init__(self, thresholds: Thresholds, *, needs_server: bool):
        self.thresholds = thresholds
        self.judgement = Judgement()
        self._server_up = not needs_server
        self._readings: deque[_Reading] = deque()
        self._below_since: _Reading | None = None
        self._oom_kill: int | None = None
        self._started_at: str | None = None
        self._expected_until_ns = 0

    def rebaseline(self) -> None:
        """What comes next is the normal state; a latched abort is forgotten."""
        self.judgement = Judgement(at_ns=self.judgement.at_ns)
        self._oom_kill = None
        self._started_at = None
        self._below_since = None

    def expect_stop(self, until_ns: int) -> None:
        """Until then the container may go away."""
        self._expected_until_ns = until_ns

    def expects_stop(self, at_ns: int) -> bool:
        return at_ns <= self._expected_until_ns

    def see(self, sample: Sample) -> Judgement:
        """The judgement after this sample; the same object as before where nothing changed but figures."""
        if sample.source == "host" and sample.missing is None:
            self._see_host(sample)
        elif sample.source == "kernel":
            self._see_kernel(sample)
        elif sample.source == "container":
            self._see_container(sample)
        elif sample.source == "server" and sample.data.get("up"):
            self._server_up = True
        return self.judgement

    def _see_host(self, sample: Sample) -> None:
        kills = sample.data.get("oom_kill")
        if kills is not None and self._oom_kill is not None and kills > self._oom_kill:
            self._abort(sample, f"the kernel killed {kills - self._oom_kill} process(es) for memory (oom_kill {kills})")
        self._oom_kill = kills if self._oom_kill is None else self._oom_kill
        available = sample.data["mem_available_bytes"]
        reading = _Reading(sample.monotonic_ns, available)
        self._readings.append(reading)
        while reading.at_ns - self._readings[0].at_ns > KEPT_NS:
            self._readings.popleft()
        self._see_memory(sample, reading)

    def _see_memory(self, sample: Sample, reading: _Reading) -> None:
        limits = self.thresholds
        below = reading.available < limits.abort_bytes
        self._below_since = (self._below_since or reading) if below else None
        if self._below_since is not None and reading.at_ns - self._below_since.at_ns >= limits.hold_ns:
            words = f"MemAvailable {_gib(reading.available)} below {_gib(limits.abort_bytes)} for {limits.hold_ns / 1e9:g} s"
            self._abort(sample, words, crossed_ns=self._below_since.at_ns)
        left_ns = self._time_to_zero() if self._server_up else None
        if left_ns is not None and left_ns < limits.horizon_ns:
            self._abort(sample, f"MemAvailable {_gib(reading.available)} reaches zero in {left_ns / 1e9:.1f} s at this rate")
        if self.judgement.level == "abort":
            self.judgement = replace(self.judgement, at_ns=reading.at_ns, mem_available_bytes=reading.available)
        else:
            self._settle(sample, reading)

    def _settle(self, sample: Sample, reading: _Reading) -> None:
        """ok, warn or stop_new by thresholds; stop_new goes back only above warn."""
        limits, was = self.thresholds, self.judgement
        available = reading.available
        level: Level = "ok"
        if available < limits.warn_bytes:
            low = available < limits.stop_new_bytes or was.level == "stop_new"
            level = "stop_new" if low else "warn"
        self.judgement = Judgement(
            level=level,
            reason=was.reason if level == was.level else self._reason(level, available),
            at_ns=sample.monotonic_ns,
            mem_available_bytes=available,
            slope_bytes_per_s=_slope(list(self._readings)),
        )

    def _reason(self, level: Level, available: int) -> str:
        if level == "ok":
            return ""
        limit = self.thresholds.stop_new_bytes if level == "stop_new" else self.thresholds.warn_bytes
        return f"MemAvailable {_gib(available)} below {_gib(limit)}"

    def _time_to_zero(self) -> float | None:
        """The longest of the times to zero by each of the last three seconds; `None` unless all of them fall."""
        now = self._readings[-1]
        longest = 0.0
        for second in range(3):
            begin, end = second * 1_000_000_000, second * 1_000_000_000 + 1_100_000_000
            slope = _slope([one for one in self._readings if begin <= now.at_ns - one.at_ns <= end])
            if slope is None or slope >= 0:
                return None
            longest = max(longest, now.available / -slope * 1e9)
        return longest

    def _see_kernel(self, sample: Sample) -> None:
        event = sample.data.get("event")
        if event == "oom_kill" or (event == "oom_constraint" and sample.data.get("constraint") == "CONSTRAINT_NONE"):
            self._abort(sample, f"the host is out of memory: the kernel killed {sample.data.get('comm', 'a process')}")
        elif event == "memcg_kill":
            self._abort(sample, f"a cgroup is over its limit: the kernel killed {sample.data.get('comm', 'a process')}")

    def _see_container(self, sample: Sample) -> None:
        data = sample.data
        if data.get("event") == "docker":
            if data.get("action") == "die" and self._started_at is not None and not self.expects_stop(sample.monotonic_ns):
                self._abort(sample, f"the container {data.get('name')} died (exit code {data.get('exit_code')})")
            return
        if data.get("running"):
            started = data["started_at"]
            if self._started_at not in (None, started) and not self.expects_stop(sample.monotonic_ns):
                self._abort(sample, f"the container {data['name']} was started anew at {started}")
            self._started_at = started
        elif data.get("running") is False and self._started_at is not None:
            self._started_at = None
            if not self.expects_stop(sample.monotonic_ns):
                code = data.get("exit_code")
                self._abort(sample, f"the container {data.get('name')} does not run any more (exit code {code})")

    def _abort(self, sample: Sample, reason: str, *, crossed_ns: int | None = None) -> None:
        """The first reason counts; later ones are in the samples."""
        if self.judgement.level == "abort":
            return
        self.judgement = Judgement(
            level="abort",
            reason=reason,
            at_ns=sample.monotonic_ns,
            crossed_ns=sample.monotonic_ns if crossed_ns is None else crossed_ns,
            mem_available_bytes=self._readings[-1].available if self._readings else None,
            slope_bytes_per_s=_slope(list(self._readings)),
        )


def _slope(readings: list[_Reading]) -> float | None:
    """Least squares, bytes per second; `None` for fewer than three readings or no span."""
    if len(readings) < 3:
        return None
    begin = readings[0].at_ns
    times = [(one.at_ns - begin) / 1e9 for one in readings]
    mean_t, mean_a = sum(times) / len(times), sum(one.available for one in readings) / len(readings)
    spread = sum((t - mean_t) ** 2 for t in times)
    if spread == 0:
        return None
    return sum((t - mean_t) * (one.available - mean_a) for t, one in zip(times, readings, strict=True)) / spread


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"
