"""Kernel log lines taken after a run (`dmesg`, `journalctl -k`) become samples of the run, charged like those of a sidecar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from loadkit.errors import UsageError
from loadkit.kernel_log import KernelEvent, parse
from loadkit.record import Sample, to_line
from loadkit.run_folder import SAMPLES, LineFile, Run

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The run with the lines of a file: how many say something, and how many of them have no time that can be placed."""

    run: Run
    added: tuple[Sample, ...]
    unplaced: int


def with_kernel_log(run: Run, file: Path) -> Taken:
    """The run and the kernel events of `file`, placed on the run's clock.

    A line's date is placed by the run's anchor of wall time; its stamp since boot by the clock offset of the sidecar, or as it
    is where the server runs on this host.

    Raises:
        UsageError: the file can't be read.
    """
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError as problem:
        raise UsageError(f"can't read {file}: {problem.strerror}", where="--kernel-log") from problem
    near = run.anchors[0].wall_ns if run.anchors else run.manifest.get("created_wall_ns")
    events = [event for line in lines if (event := parse(line, near_wall_ns=near)) is not None]
    placed = [(event, at) for event in events if (at := _placed(run, event)) is not None]
    known = {_identity(sample) for sample in run.samples if sample.source == "kernel"}
    added = [sample for event, at in placed if _identity(sample := _sample(run, event, at)) not in known]
    begin = min((start.due_ns for start in run.starts), default=0)
    if not any(sample.source == "kernel" and sample.missing is None for sample in run.samples):
        watching = {"event": "watching", "how": file.name, "later": True}
        added.insert(
            0, Sample(source="kernel", monotonic_ns=begin, wall_ns=_wall(run, begin), boot_id=_boot(run), data=watching)
        )
    return Taken(run=replace(run, samples=(*run.samples, *added)), added=tuple(added), unplaced=len(events) - len(placed))


def keep(run: Run, added: Sequence[Sample]) -> None:
    """Append the samples to the run's file, so that the next report knows them too.

    Raises:
        FolderError: the folder can't be written.
    """
    file = LineFile(run.folder / SAMPLES)
    for sample in added:
        file.append(to_line(sample))
    file.close()


def _placed(run: Run, event: KernelEvent) -> int | None:
    """When it happened on the run's clock (ns); `None` where the line's time can't be related to it."""
    if event.wall_ns is not None and run.anchors:
        return run.anchors[0].monotonic_ns + event.wall_ns - run.anchors[0].wall_ns
    if event.boot_us is None:
        return None
    clock = run.manifest.get("clock", {})
    if "offset_ns" in clock:
        return event.boot_us * 1000 + int(clock["offset_ns"])
    host = urlsplit(str(run.manifest.get("target", {}).get("base_url", ""))).hostname
    return event.boot_us * 1000 if host in _LOOPBACK else None


def _sample(run: Run, event: KernelEvent, at_ns: int) -> Sample:
    data = {key: value for key, value in asdict(event).items() if value is not None and key not in ("boot_us", "wall_ns")}
    wall_ns = event.wall_ns if event.wall_ns is not None else _wall(run, at_ns)
    return Sample(source="kernel", monotonic_ns=at_ns, wall_ns=wall_ns, boot_id=_boot(run), data={**data, "later": True})


def _identity(sample: Sample) -> tuple[object, ...]:
    """The same line seen live and read later is one event: printers differ in their stamps, not in text and process."""
    return (sample.data.get("event"), sample.data.get("pid"), sample.data.get("text"))


def _wall(run: Run, at_ns: int) -> int:
    return run.anchors[0].wall_ns + at_ns - run.anchors[0].monotonic_ns if run.anchors else 0


def _boot(run: Run) -> str:
    """The boot that the sidecar saw; without one, no claim."""
    return next((sample.boot_id for sample in run.samples if sample.boot_id), "")
