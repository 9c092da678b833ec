"""`loadkit runs`: the run folders, newest last, with label, verdict and headline."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table
from rich.text import Text

from loadkit.errors import UsageError
from loadkit.language import gloss, say
from loadkit.report.figures import DASH
from loadkit.report.terminal import console_for
from loadkit.run_folder import MANIFEST, RECORDS, SUMMARY

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One run folder: what its summary says, or its manifest where no report was made yet."""

    folder: str
    label: str
    state: str
    exit_code: int | None
    headline: str


@app.command()
def main(
    run_dir: Annotated[
        Path, typer.Argument(metavar="[RUN-DIR]", envvar="LOADKIT_RUN_DIR", help="folder of run folders")
    ] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="one JSON object a line on stdout")] = False,
    label: Annotated[str | None, typer.Option(help="only runs with this label")] = None,
) -> None:
    """List run folders with label, verdict and headline."""
    if not run_dir.is_dir():
        raise UsageError(f"there is no folder {run_dir}", where="runs", remedy="name the folder that --run-dir of Locust named")
    found = [listed for listed in runs(run_dir) if label is None or listed.label == label]
    if json:
        for listed in found:
            sys.stdout.buffer.write(orjson.dumps(listed, option=orjson.OPT_APPEND_NEWLINE))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("run", "label", "state", "exit code", "headline"):
        table.add_column(say(name), overflow="fold")
    for listed in found:
        code = DASH if listed.exit_code is None else str(listed.exit_code)
        cells = (listed.folder, listed.label or DASH, say(listed.state), code, gloss(listed.headline))
        table.add_row(*(Text(cell) for cell in cells))
    console_for(sys.stdout).print(table)


def runs(run_dir: Path) -> Iterator[Listed]:
    """Every run folder in `run_dir`, oldest first; a folder that holds neither manifest nor records is none."""
    for folder in sorted(path for path in run_dir.iterdir() if path.is_dir()):
        if not (folder / MANIFEST).exists() and not any(folder.glob(f"{RECORDS}*.jsonl")):
            continue
        manifest, summary = _json(folder / MANIFEST), _json(folder / SUMMARY)
        code = summary.get("exit_code", manifest.get("exit_code"))
        headline = summary.get("headline") or manifest.get("headline") or say("no report yet: loadkit report {run}", run=folder)
        yield Listed(
            folder=folder.name,
            label=str(manifest.get("label") or ""),
            state=str(manifest.get("state") or "running"),
            exit_code=code if isinstance(code, int) else None,
            headline=str(headline),
        )


def _json(path: Path) -> dict[str, Any]:
    """A file of the folder; an absent or broken one says nothing."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
