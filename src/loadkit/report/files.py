"""Writing what is derived from a run into its folder; all of it can be deleted and made again."""

from __future__ import annotations

from pathlib import Path

from loadkit import export, gauges
from loadkit.errors import FolderError
from loadkit.language import Language
from loadkit.report import exported, markdown
from loadkit.report.html import render, section
from loadkit.run_folder import REPORT_HTML, REPORT_MD, SAMPLES, SUMMARY, Run, write_atomically
from loadkit.summary import Summary
from loadkit.verdict import Verdict

SECTION_HTML = "report-section.html"
"""The part for Locust's own HTML report, which the front inserts."""
IN_FOLDER = "run"
"""Prefix of the CSV files in the run folder; `--csv` writes them elsewhere as well."""


def write(run: Run, summary: Summary, verdict: Verdict, *, language: Language | None = None) -> tuple[Path, ...]:
    """Write `summary.json`, `report.md`, `report.html`, the section for Locust's report and the tables; the files written.

    Raises:
        FolderError: the folder can't be written.
    """
    contents = {
        SUMMARY: exported.to_bytes(exported.exported(summary, verdict)),
        REPORT_MD: markdown.render(summary, verdict, language=language).encode(),
        REPORT_HTML: render(run, summary, verdict, language=language).encode(),
        SECTION_HTML: section(run, summary, verdict, language=language).encode(),
    }
    for name, content in contents.items():
        write_atomically(run.folder / name, content)
    return (*(run.folder / name for name in contents), *tables(run, summary, str(run.folder / IN_FOLDER)))


def tables(run: Run, summary: Summary, prefix: str) -> tuple[Path, ...]:
    """Write `<prefix>_requests.csv`, `<prefix>_stages.csv` and, where the host was watched, `<prefix>_sidecar.csv`.

    Raises:
        FolderError: a file can't be written.
    """
    written: tuple[Path, ...] = export.write(run, summary, prefix)
    samples, sidecar = run.folder / SAMPLES, Path(f"{prefix}_sidecar.csv")
    if not samples.exists():
        return written
    try:
        gauges.write_csv(samples, sidecar)
    except OSError as problem:
        raise FolderError(f"can't write {sidecar}: {problem.strerror}") from problem
    return (*written, sidecar)
