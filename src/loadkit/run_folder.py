"""The layout of a run folder, writing it so that a crash loses nothing, and reading what a crash left behind."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import orjson

from loadkit.errors import FolderError, UsageError
from loadkit.record import AnchorLine, AnswerVerdict, Heartbeat, Record, Sample, Start, from_line

MANIFEST = "manifest.json"
PLAN = "plan.jsonl"
RECORDS = "records"
SAMPLES = "samples.jsonl"
INPUTS = "inputs"
SCENARIOS = "scenarios"
SUMMARY = "summary.json"
REPORT_HTML = "report.html"
REPORT_MD = "report.md"


def new_folder(run_dir: Path, label: str, *, wall_ns: int) -> Path:
    """Create `<run-dir>/<UTC time>-<label>`; a number is added where two runs begin in one second.

    Raises:
        FolderError: the folder can't be made; the message names it and the reason.
    """
    moment = datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"{moment}-{_file_name(label)}" if label else moment
    for number in range(1, 1000):
        folder = run_dir / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as problem:
            raise FolderError(
                f"can't create the run folder {folder}: {problem.strerror}; choose another --run-dir"
            ) from problem
        return folder
    raise FolderError(f"can't find a free name like {name} in {run_dir}")


def records_file(folder: Path, worker: str = "") -> Path:
    """`records.jsonl` for a single process, `records-<worker>.jsonl` for one of several."""
    return folder / (f"{RECORDS}-{_file_name(worker)}.jsonl" if worker else f"{RECORDS}.jsonl")


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replace the manifest atomically: a reader sees the old one or the new one, never half of one."""
    write_atomically(folder / MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def writable(path: Path, *, where: str) -> Path:
    """The path of a file that is to be written at the end: refused now where that can't be.

    Raises:
        UsageError: its folder is not there or can't be written to, or it is a folder itself.
    """
    folder = path.absolute().parent
    if path.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        problem = "is a folder" if path.is_dir() else f"can't be written in {folder}"
        raise UsageError(f"{path} {problem}", where=where, remedy="give the name of a file in a folder that can be written to")
    return path


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside, fsync, rename.

    Raises:
        FolderError: the disk is full or the folder not writable.
    """
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as problem:
        raise FolderError(f"can't write {path}: {problem.strerror}") from problem


class LineFile:
    """An append-only file of JSON lines: each line flushed at once, fsynced by `sync` (at most a second later)."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file: IO[bytes] = path.open("ab", buffering=0)
        except OSError as problem:
            raise FolderError(f"can't open {path}: {problem.strerror}") from problem
        self._dirty = False

    def append(self, line: bytes) -> None:
        """Write one line, newline included, or nothing of it.

        Raises:
            FolderError: the disk is full; the message names the file.
        """
        written = 0
        try:
            while written < len(line):  # a raw write may be partial when the disk runs full
                written += self._file.write(line[written:])
        except OSError as problem:
            if written:
                os.ftruncate(self._file.fileno(), os.fstat(self._file.fileno()).st_size - written)
            raise FolderError(f"can't write {self.path}: {problem.strerror}") from problem
        self._dirty = True

    def sync(self) -> None:
        if self._dirty:
            os.fsync(self._file.fileno())
            self._dirty = False

    def close(self) -> None:
        if not self._file.closed:
            self.sync()
            self._file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run folder read back. `broken_lines` counts lines that can't be read; `lost` are starts without a record."""

    folder: Path
    manifest: dict[str, Any] = field(default_factory=dict)
    plan: tuple[dict[str, Any], ...] = ()
    anchors: tuple[AnchorLine, ...] = ()
    starts: tuple[Start, ...] = ()
    records: tuple[Record, ...] = ()
    checks: tuple[AnswerVerdict, ...] = ()
    heartbeats: tuple[Heartbeat, ...] = ()
    samples: tuple[Sample, ...] = ()
    broken_lines: int = 0

    @property
    def lost(self) -> tuple[Start, ...]:
        ended = {record.id for record in self.records}
        return tuple(start for start in self.starts if start.id not in ended)


def read_run(folder: Path) -> Run:
    """Everything that a run folder holds, also after `kill -9`.

    Raises:
        FolderError: there is no such folder, or it holds neither a manifest nor records.
    """
    if not folder.is_dir():
        raise FolderError(f"there is no run folder {folder}")
    files = sorted(folder.glob(f"{RECORDS}*.jsonl"))
    manifest_file = folder / MANIFEST
    if not files and not manifest_file.exists():
        raise FolderError(f"{folder} holds neither {MANIFEST} nor {RECORDS}*.jsonl: it is no run folder")
    manifest, broken = _manifest(manifest_file)
    kept: dict[type[Any], list[Any]] = {kind: [] for kind in (AnchorLine, Start, Record, AnswerVerdict, Heartbeat, Sample)}
    for path in [*files, folder / SAMPLES]:
        for raw in _lines(path):
            try:
                line = from_line(raw)
            except ValueError:
                line = None
            if line is None:  # cut short, or of a kind that another version wrote: what it held is missing here
                broken += 1
            else:
                kept[type(line)].append(line)
    plan, broken_plan = _plan_lines(folder / PLAN)
    return Run(
        folder=folder,
        manifest=manifest,
        plan=plan,
        anchors=tuple(kept[AnchorLine]),
        starts=tuple(kept[Start]),
        records=tuple(kept[Record]),
        checks=tuple(kept[AnswerVerdict]),
        heartbeats=tuple(kept[Heartbeat]),
        samples=tuple(kept[Sample]),
        broken_lines=broken + broken_plan,
    )


_TEXTS = ("run_id", "label", "loadkit_version", "boot_id", "state", "ended_reason", "headline")
_OBJECTS = ("options", "target", "server", "preflight", "host", "client", "plan", "scenarios", "asked", "clock")
_PARTS: dict[str, Any] = {
    **dict.fromkeys(_TEXTS, str | None),
    **dict.fromkeys(_OBJECTS, dict),
    **dict.fromkeys(("created_wall_ns", "exit_code"), int | None),
    **dict.fromkeys(("argv", "slo"), list),
}
"""What the parts of a manifest are, so that one damaged by hand or by a disk is known before a figure is made from it."""


def _manifest(path: Path) -> tuple[dict[str, Any], int]:
    """The parts that can be used, and how many can't: a damaged manifest takes no record with it."""
    if not path.exists():
        return {}, 0
    try:
        parts = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}, 1
    if not isinstance(parts, dict):
        return {}, 1
    usable = {name: part for name, part in parts.items() if isinstance(part, _PARTS.get(name, object))}
    return usable, len(parts) - len(usable)


def _plan_lines(path: Path) -> tuple[tuple[dict[str, Any], ...], int]:
    """The lines that can be read, and how many can't."""
    kept: list[dict[str, Any]] = []
    broken = 0
    for raw in _lines(path):
        try:
            line = orjson.loads(raw)
        except ValueError:
            line = None
        if isinstance(line, dict) and _placed(line):
            kept.append(line)
        else:
            broken += 1
    return tuple(kept), broken


def _placed(line: dict[str, Any]) -> bool:
    """Whether a line of the plan has the time and the stage that its kind has."""
    of_stage = line.get("kind") in ("stage_begin", "stage_end")
    timed = isinstance(line.get("at_ns"), int) or not (of_stage or line.get("kind") == "stop")
    return timed and (not of_stage or (isinstance(line.get("stage"), str) and isinstance(line.get("round"), int)))


def _lines(path: Path) -> Iterable[bytes]:
    """Lines that hold anything.

    Raises:
        FolderError: the file can't be read.
    """
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            for raw in file:
                if raw.strip():
                    yield raw
    except OSError as problem:
        raise FolderError(f"can't read {path}: {problem.strerror}") from problem


def _file_name(text: str) -> str:
    """Letters, digits, dot, dash and underscore stay; anything else becomes a dash."""
    return "".join(char if char.isalnum() or char in "._-" else "-" for char in text)[:80]
