"""One run from the side of the master or the single process: its folder, its manifest, its conductor, and how it ends."""

from __future__ import annotations

import hashlib
import shutil
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from gevent.event import Event

from loadkit.engine.protocol import JSON
from loadkit.errors import FolderError
from loadkit.front.conductor import Conductor
from loadkit.front.options import Options
from loadkit.front.watching import Watch
from loadkit.plan import Plan
from loadkit.request import Target
from loadkit.run_folder import INPUTS, PLAN, SCENARIOS, LineFile, write_manifest


@dataclass
class Run:
    """`over` is set when nothing more is to be sent, `finished` when every file is written."""

    folder: Path
    options: Options
    target: Target
    manifest: JSON
    plan: Plan | None = None
    conductor: Conductor | None = None
    watch: Watch | None = None
    over: Event = field(default_factory=Event)
    finished: Event = field(default_factory=Event)
    finishing: bool = False
    state: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        self._notes = Patient(self.folder / PLAN)
        self._others: dict[str, Patient] = {}
        self.save()

    @property
    def run_id(self) -> str:
        return self.folder.name

    def end(self, state: str, reason: str) -> None:
        """How the run ends; the first one to say so is right. What is planned is not sent any more."""
        if self.over.is_set() and self.state:
            return
        self.state, self.reason = self.state or state, self.reason or reason
        if self.conductor is not None:
            self.conductor.stop(reason)
        self.over.set()

    def note(self, line: JSON) -> None:
        """One line of plan.jsonl."""
        self._notes.append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def lines_of(self, worker: str, data: bytes) -> None:
        """Lines of a worker on another host, as it wrote them into its own file."""
        if worker not in self._others:
            self._others[worker] = Patient(self.folder / f"records-{worker}.jsonl")
        self._others[worker].append(data)

    def document(self, path: str) -> bytes:
        """A document of the plan, for a worker that can't read it itself; nothing else is given away.

        Raises:
            FolderError: the plan has no such document, or it can't be read.
        """
        stages = () if self.plan is None else self.plan.stages
        if not any(str(item.case.document) == path for stage in stages for item in stage.items):
            raise FolderError(f"the plan has no document {path}")
        try:
            return Path(path).read_bytes()
        except OSError as problem:
            raise FolderError(f"can't read {path}: {problem.strerror}") from problem

    def snapshot(self, scenario_files: dict[str, str]) -> None:
        """The scenario files as they were when the run began."""
        (self.folder / SCENARIOS).mkdir(exist_ok=True)
        (self.folder / INPUTS).mkdir(exist_ok=True)
        for name, path in scenario_files.items():
            shutil.copy(path, self.folder / SCENARIOS)
            self.manifest["scenarios"][name] = hashlib.sha256(Path(path).read_bytes()).hexdigest()

    def save(self) -> None:
        """The manifest as it is now."""
        write_manifest(self.folder, self.manifest)

    def close(self) -> None:
        for file in (self._notes, *self._others.values()):
            file.close()

    def discard(self) -> None:
        """Nothing was sent: leave no folder and nobody behind."""
        self.close()
        if self.watch is not None:
            self.watch.end(None)
        shutil.rmtree(self.folder, ignore_errors=True)


class Patient:
    """A file of lines that keeps what a full disk refuses, and writes it with the next line: a run ends in order all the same.

    Whoever writes records says that the disk is full; what is still kept at the end is lost.
    """

    def __init__(self, path: Path):
        self._file = LineFile(path)
        self._kept: deque[bytes] = deque()

    def append(self, lines: bytes) -> None:
        """Write them now, or later."""
        self._kept.append(lines)
        with suppress(FolderError):
            while self._kept:
                self._file.append(self._kept[0])
                self._kept.popleft()

    def close(self) -> None:
        self.append(b"")
        self._file.close()


def usable(run_dir: Path) -> None:
    """See that runs can be written there, and are named in JSON, before anything else is done.

    Raises:
        FolderError: the folder can't be made or written to.
    """
    probe = run_dir / ".loadkit-probe"
    try:
        str(run_dir.absolute()).encode()  # manifest and messages are JSON, whose text is UTF-8
    except UnicodeEncodeError:
        raise FolderError(f"can't use {str(run_dir.absolute())!r}: its name is not UTF-8; choose another --run-dir") from None
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as problem:
        raise FolderError(f"can't write to {run_dir}: {problem.strerror}; choose another --run-dir") from problem
