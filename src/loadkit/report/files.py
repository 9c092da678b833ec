"""Writing what is derived from a run into its folder; all of it can be deleted and made again."""

from __future__ import annotations

from pathlib import Path

from loadkit.language import Language
from loadkit.report import exported, markdown
from loadkit.report.html import render, section
from loadkit.run_folder import REPORT_HTML, REPORT_MD, SUMMARY, Run, write_atomically
from loadkit.summary import Summary
from loadkit.verdict import Verdict

SECTION_HTML = "report-section.html"
"""The part for Locust's own HTML report, which the front inserts."""


def write(run: Run, summary: Summary, verdict: Verdict, *, language: Language | None = None) -> tuple[Path, ...]:
    """Write `summary.json`, `report.md`, `report.html` and the section for Locust's report; the files written.

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
    return tuple(run.folder / name for name in contents)
