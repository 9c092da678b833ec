"""Run folders grouped by the server launch they measured: the launch is what is replicated, not the folder.

An experiment leaves `launch.json` in each run folder (`LaunchFacts`): which arm, which pair, what was declared beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from loadkit.errors import FolderError, UsageError
from loadkit.record import Phase, Record, Start
from loadkit.run_folder import MANIFEST, Run, read_run
from loadkit.summary import Judged, Summary, summarise

LAUNCH = "launch.json"


@dataclass(frozen=True)  # no slots: cached properties
class Launch:
    """Every run that talked to one server process.

    `started_s` is the process's start in Unix seconds, `None` where no run knows it; `known` says whether it can be told from
    other launches at all. `pair` is the experiment's.
    """

    runs: tuple[Run, ...]
    started_s: float | None
    known: bool = True
    pair: int | None = None

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """What each run's own report would say."""
        return tuple(summarise(run, selftest=None) for run in self.runs)

    @cached_property
    def attempts(self) -> tuple[Judged, ...]:
        """Measured first attempts of all runs in order, lost ones included."""
        return tuple(request for summary in self.summaries for request in summary.requests if request.counts)

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """The records of `attempts`; a lost request has one without stamps."""
        return tuple(request.record for request in self.attempts)

    @property
    def name(self) -> str:
        return " + ".join(run.folder.name for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One configuration: a name for tables and its launches, in order of their start."""

    name: str
    launches: tuple[Launch, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for launch in self.launches for run in launch.runs)


def side(name: str, folders: Sequence[Path]) -> Side:
    """Read a side's run folders and group them by launch.

    Raises:
        UsageError: a folder is no run folder, or holds no measured request.
    """
    return Side(name=name, launches=launches_of([read(folder) for folder in folders]))


def read(folder: Path) -> Run:
    """A run to compare.

    Raises:
        UsageError: there is nothing to read there.
    """
    try:
        run = read_run(folder)
    except FolderError as problem:
        raise UsageError(str(problem), remedy="name run folders or their labels; `loadkit runs` lists them") from problem
    if not (any(map(_counts, run.records)) or any(map(_counts, run.lost))):
        raise UsageError("holds no measured request", where=str(folder), remedy="leave it out of the comparison")
    return run


def launches_of(runs: Iterable[Run]) -> tuple[Launch, ...]:
    """Runs with one server start time are one launch, whatever pair they were made for.

    Start times are compared to 10 ms (clock ticks). Where none is known, an experiment that started the server itself tells
    its launches apart; all other such runs are one launch, because nothing shows that they were several.
    """
    groups: dict[float | int | None, list[Run]] = {}
    for run in runs:
        started = started_s(run)
        groups.setdefault(_started_by_us(run) if started is None else round(started, 2), []).append(run)
    merged = [_launch(group, known=key is not None) for key, group in groups.items()]
    return tuple(sorted(merged, key=lambda launch: (launch.pair or 0, launch.started_s or 0.0)))


def _launch(runs: Sequence[Run], *, known: bool) -> Launch:
    pairs = {pair_of(run) for run in runs}
    return Launch(
        runs=tuple(runs), started_s=started_s(runs[0]), known=known, pair=next(iter(pairs)) if len(pairs) == 1 else None
    )


def _started_by_us(run: Run) -> int | None:
    """The number of the launch in its experiment, where the experiment started the server."""
    made = facts(run.folder)
    number = made.get("number")
    return number if made.get("restarted") and isinstance(number, int) else None


def started_s(run: Run) -> float | None:
    """When the measured server process started, as the manifest or the sidecar's samples say."""
    known = run.manifest.get("server", {}).get("process_start_time_s")
    if known is None:
        seen = (sample.data.get("process_start_time_s") for sample in run.samples if sample.source == "server")
        known = next((value for value in seen if value is not None), None)
    return None if known is None else float(known)


def pair_of(run: Run) -> int | None:
    """The pair that an experiment gave this run; `None` for runs made by hand."""
    pair = facts(run.folder).get("pair")
    return pair if isinstance(pair, int) else None


def facts(folder: Path) -> dict[str, Any]:
    """`launch.json` of a run folder, empty where no experiment made it."""
    path = folder / LAUNCH
    if not path.exists():
        return {}
    content = orjson.loads(path.read_bytes())
    return content if isinstance(content, dict) else {}


def pairs(a: Side, b: Side) -> tuple[tuple[Launch, Launch], ...] | None:
    """Launches of A and B that an experiment made as one pair; `None` where not every launch has a pair of its own."""
    by_pair = []
    for one in (a, b):
        numbered = {launch.pair: launch for launch in one.launches if launch.pair is not None}
        if len(numbered) < len(one.launches):
            return None
        by_pair.append(numbered)
    shared = sorted(by_pair[0].keys() & by_pair[1].keys())
    return tuple((by_pair[0][pair], by_pair[1][pair]) for pair in shared) or None


def find(name: str, run_dir: Path) -> tuple[Path, ...]:
    """Run folders for what a user typed: a folder, or a label (then all runs of that label, oldest first).

    Raises:
        UsageError: neither; labels that exist are named.
    """
    folder = Path(name)
    if folder.is_dir():
        return (folder,)
    if (run_dir / name).is_dir():
        return (run_dir / name,)
    labels = {path.parent: _label(path) for path in sorted(run_dir.glob(f"*/{MANIFEST}"))}
    found = tuple(path for path, label in labels.items() if label == name)
    if found:
        return found
    known = ", ".join(sorted({label for label in labels.values() if label})) or "none yet"
    raise UsageError(
        f"there is no run folder and no label {name!r}",
        where=str(run_dir),
        remedy=f"name a folder or one of the labels: {known}",
    )


def _label(manifest: Path) -> str:
    try:
        return str(orjson.loads(manifest.read_bytes()).get("label", ""))
    except (ValueError, OSError, AttributeError):
        return ""


def _counts(line: Record | Start) -> bool:
    return line.slot.phase is Phase.MEASURED and line.slot.attempt == 1
