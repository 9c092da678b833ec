"""The experiment's memory: an append-only file that says what was decided, begun and finished, also after a power cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import yaml

from loadkit.clock import Clock
from loadkit.errors import UsageError
from loadkit.experiment.plan import Experiment
from loadkit.experiment.schedule import Slot
from loadkit.run_folder import LineFile
from loadkit.secrets import masked, masked_json

LEDGER = "experiment.jsonl"
PLAN = "plan.yaml"
RUNS = "runs"
LOGS = "logs"

State = Literal["finished", "aborted", "cut", "skipped"]
"""`aborted` stays so; `cut` was cut short by the user or a crash and is done again; `skipped` because its pair was aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A launch that ended. `run` is its run folder's name under `runs/`, if there is one; `exit_code` is Locust's."""

    number: int
    pair: int
    arm: str
    state: State
    reason: str = ""
    run: str | None = None
    exit_code: int | None = None
    duration_s: float = 0.0

    @property
    def words(self) -> str:
        """For the list of aborted launches."""
        return f"pair {self.pair}, {self.arm}: {self.reason}"


class Ledger:
    """Appends lines to `experiment.jsonl` in the experiment's folder, each fsynced, and reads what stands there.

    Lines have a `kind`: `planned`, `before` (how things were), `baseline`, `prepared`, `begun`, `step`, `process` (something we
    started and have to end), `ended`, `look`, `restored`, `finished`.
    """

    def __init__(self, folder: Path, clock: Clock):
        self.folder = folder
        self.runs = folder / RUNS
        self.logs = folder / LOGS
        self._clock = clock
        for made in (self.runs, self.logs):
            made.mkdir(parents=True, exist_ok=True)
        self._repair()
        self._file = LineFile(folder / LEDGER)

    def note(self, kind: str, **facts: Any) -> None:
        """Append a line; it is on the disk when this returns."""
        line = {"kind": kind, "wall_ns": self._clock.wall_ns(), **facts}
        self._file.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    def lines(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Lines read back in order; one that a power cut left half written is passed over."""
        path = self.folder / LEDGER
        if not path.exists():
            return
        for raw in path.read_bytes().splitlines():
            try:
                line = orjson.loads(raw)
            except ValueError:
                continue
            if isinstance(line, dict) and kind in (None, line.get("kind")):
                yield line

    def last(self, kind: str) -> dict[str, Any] | None:
        found = None
        for found in self.lines(kind):  # noqa: B007
            pass
        return found

    def ended(self) -> tuple[Ended, ...]:
        """Launches that ended, in order; one slot may stand here several times, aborted and then finished."""
        keys = Ended.__dataclass_fields__.keys()
        return tuple(Ended(**{key: line[key] for key in keys if key in line}) for line in self.lines("ended"))

    def finish(self, ended: Ended) -> None:
        self.note("ended", **asdict(ended))

    def unfinished(self) -> dict[str, Any] | None:
        """The launch that was begun and never ended, if the experiment was killed in one."""
        begun = None
        for line in self.lines():
            if line.get("kind") == "begun":
                begun = line
            elif line.get("kind") == "ended":
                begun = None
        return begun

    def _repair(self) -> None:
        """A half line at the end gets its newline, so that the next line does not run into it."""
        path = self.folder / LEDGER
        if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
            with path.open("ab") as file:
                file.write(b"\n")


def open_ledger(experiment: Experiment, folder: Path, clock: Clock) -> Ledger:
    """The ledger in `folder`, new or to be resumed.

    Raises:
        UsageError: the folder belongs to an experiment with another plan.
    """
    ledger = Ledger(folder, clock)
    known = ledger.last("planned")
    if known is None:
        (folder / PLAN).write_text(_masked_plan(experiment))
    elif known["hash"] != experiment.hash:
        ledger.close()
        raise UsageError(
            "the plan has changed since this experiment began",
            where=str(folder),
            remedy="restore the plan (a copy is in the folder), or give the new one another name",
        )
    return ledger


def left(slots: tuple[Slot, ...], ended: tuple[Ended, ...]) -> tuple[Slot, ...]:
    """Slots that are still to be done."""
    done = {one.number for one in ended if one.state != "cut"}
    return tuple(slot for slot in slots if slot.number not in done)


def _masked_plan(experiment: Experiment) -> str:
    """The plan as it may be kept: commands and environments can hold keys."""
    plan = masked_json(yaml.safe_load(experiment.text))
    for arm in plan.get("arms", {}).values():
        for key in ("start", "stop", "prepare"):
            if isinstance(arm.get(key), str):
                arm[key] = " ".join(masked(arm[key].split()))
    return str(yaml.safe_dump(plan, sort_keys=False, allow_unicode=True))
