"""How far the runs of a side can be believed: what did not complete, what was cut short, and what the host did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from loadkit.compare.launch import Launch, Side
from loadkit.verdict import Axis, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSoundness:
    """One launch: its name, and its runs' host and measurement axes in words."""

    name: str
    host: str
    host_reasons: tuple[str, ...]
    measurement: str
    measurement_reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Soundness:
    """A side. `outcomes` counts requests that did not complete by outcome; `truncated` answers ended at their budget."""

    attempted: int
    completed: int
    outcomes: dict[str, int]
    truncated: int
    of_quality: int
    launches: tuple[LaunchSoundness, ...]

    @property
    def unstable(self) -> bool:
        return any(launch.host == "unstable" for launch in self.launches)

    @property
    def invalid(self) -> bool:
        return any(launch.measurement == "invalid" for launch in self.launches)


def soundness(side: Side) -> Soundness:
    """Counted over all launches of the side; lost requests are attempts."""
    attempts = [attempt for launch in side.launches for attempt in launch.attempts]
    return Soundness(
        attempted=len(attempts),
        completed=sum(attempt.completed for attempt in attempts),
        outcomes=dict(Counter(attempt.record.outcome.value for attempt in attempts if not attempt.completed)),
        truncated=sum(attempt.truncated is not None for attempt in attempts),
        of_quality=sum(attempt.record.case.workload == "quality" for attempt in attempts),
        launches=tuple(map(_of_launch, side.launches)),
    )


WORST_FIRST = ("unstable", "suspect", "unverified", "stable")


def _of_launch(launch: Launch) -> LaunchSoundness:
    """The worst of its runs' verdicts on each axis."""
    verdicts = [judge(summary) for summary in launch.summaries]
    host = min((verdict.host.state for verdict in verdicts), key=WORST_FIRST.index)
    measurement = "invalid" if any(verdict.measurement.state == "invalid" for verdict in verdicts) else "valid"
    return LaunchSoundness(
        name=launch.name,
        host=host,
        host_reasons=_reasons([verdict.host for verdict in verdicts], host),
        measurement=measurement,
        measurement_reasons=_reasons([verdict.measurement for verdict in verdicts], measurement),
    )


def _reasons(axes: Sequence[Axis], state: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for axis in axes if axis.state == state for reason in axis.reasons))
