"""Our section in Locust's own HTML report: in the file of `--html`, and in the page that the web UI makes on request.

The section was made by `loadkit report` (`report-section.html` in the run folder); here it is only put in its place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from loadkit.run_folder import write_atomically

SECTION = "report-section.html"
_END = "</body>"


def add_to_file(environment: Any, folder: Path | None) -> None:
    """Put the section of the run in `folder` into Locust's `--html` file; call at `quitting`, when Locust has written it.

    Raises:
        FolderError: the file can't be written.
    """
    name = getattr(environment.parsed_options, "html_file", None)
    section = section_of(folder)
    if not name or not section:
        return
    file = Path(name)
    if not file.exists():
        sys.stderr.write(f"loadkit: Locust wrote no {file}; the report of this run is {folder}/report.html\n")
        return
    page = file.read_text(encoding="utf-8")
    if section not in page:  # `quitting` may come twice
        write_atomically(file, with_section(page, section).encode())


def section_of(folder: Path | None) -> str:
    """The section of a run; empty before it has ended."""
    file = None if folder is None else folder / SECTION
    return file.read_text(encoding="utf-8") if file is not None and file.exists() else ""


def with_section(page: str, section: str) -> str:
    """The page with the section before its end; scripts in it may hold the same end tag as text, so the last one counts."""
    before, end, after = page.rpartition(_END)
    return f"{before}{section}{end}{after}" if end else page + section
