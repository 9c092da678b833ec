"""How far the runs of a side can be believed: what did not complete, what was cut short, and what the host did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from loadkit.compare.launch import Launch, Side
from loadkit.record import Outcome, Record


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
    records = [record for launch in side.launches for record in launch.records]
    lost = sum(len(launch.lost) for launch in side.launches)
    missed = Counter(record.outcome.value for record in records if record.outcome is not Outcome.COMPLETED)
    if lost:
        missed[Outcome.IN_FLIGHT_LOST.value] += lost
    return Soundness(
        attempted=len(records) + lost,
        completed=sum(record.outcome is Outcome.COMPLETED for record in records),
        outcomes=dict(missed),
        truncated=sum(map(_truncated, records)),
        of_quality=sum(record.case.workload == "quality" for record in records),
        launches=tuple(map(_of_launch, side.launches)),
    )


def _truncated(record: Record) -> bool:
    """The right end of a speed workload is its budget; of a quality workload it is a loss."""
    return record.case.workload == "quality" and record.outcome is Outcome.COMPLETED and record.finish_reason == "length"


def _of_launch(launch: Launch) -> LaunchSoundness:
    return LaunchSoundness(name=launch.name, host="unverified", host_reasons=(), measurement="valid", measurement_reasons=())
