"""The files of the last run that the tab links to: they are made when a run has ended, by `loadkit report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loadkit.live import Live


@dataclass(frozen=True, slots=True)
class Export:
    """One file of the run folder, by its name there."""

    title: str
    file: str
    kind: str


EXPORTS = {
    "report.html": Export("HTML report", "report.html", "text/html"),
    "requests.csv": Export("Requests as CSV", "run_requests.csv", "text/csv"),
    "stages.csv": Export("Stages as CSV", "run_stages.csv", "text/csv"),
    "sidecar.csv": Export("Host samples as CSV", "run_sidecar.csv", "text/csv"),
    "summary.json": Export("Summary as JSON", "summary.json", "application/json"),
}


@dataclass(frozen=True, slots=True)
class Exports:
    """Looks into the folder of the run that `live` tells of."""

    live: Live

    def file(self, name: str) -> tuple[Path, str] | None:
        """Path and content type; `None` where the name is unknown or the file is not there yet."""
        export, folder = EXPORTS.get(name), self.live.folder
        if export is None or folder is None:
            return None
        path = folder / export.file
        return (path.resolve(), export.kind) if path.exists() else None

    def ready(self) -> list[dict[str, str]]:
        """What can be linked to now. Addresses are relative: they survive a base path."""
        if self.live.ended_as is None:
            return []
        return [{"href": f"./loadkit/{name}", "title": export.title} for name, export in EXPORTS.items() if self.file(name)]
