"""`loadkit report RUN`: everything that is known about a run, from its files alone.

The exit code is the run's (`loadkit.verdict.EXIT_CODES`); 2 if there is no such run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from loadkit import verdict
from loadkit.compare.launch import find
from loadkit.errors import UsageError
from loadkit.language import language_of, say
from loadkit.report import exported, files, junit, kernel_lines, streams, terminal
from loadkit.run_folder import Run, read_run, write_atomically
from loadkit.summary import summarise

app = typer.Typer(add_completion=False)


@app.command()
def main(
    run: Annotated[str, typer.Argument(metavar="RUN", help="a run folder, or a label (then its newest run)")],
    run_dir: Annotated[Path, typer.Option(envvar="LOADKIT_RUN_DIR", help="where labels are looked up")] = Path("runs"),
    kernel_log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="kernel log lines taken afterwards (dmesg, journalctl -k): the host is judged again"),
    ] = None,
    csv: Annotated[str | None, typer.Option(metavar="PREFIX", help="write PREFIX_requests.csv and PREFIX_stages.csv")] = None,
    junit_file: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="write JUnit XML for CI")] = None,
    json: Annotated[bool, typer.Option("--json", help="print summary.json to stdout, and the tables to stderr")] = False,
    exact_gaps: Annotated[
        bool, typer.Option("--exact-gaps", help="also print the exact percentiles of all gaps between chunks")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="print the headline only")] = False,
) -> None:
    """Print a run again from its files alone: tables, verdict; write summary.json, report.md and report.html."""
    read = _with_kernel_log(read_run(find(run, run_dir)[-1]), kernel_log)
    summary = summarise(read)
    judged = verdict.judge(summary)
    to_people = sys.stderr if json else sys.stdout
    if quiet:
        to_people.write(f"{judged.headline}\n")
    else:
        terminal.show(summary, judged, terminal.console_for(to_people))
    if exact_gaps and (table := streams.exact_gaps(summary, language_of())) is not None:
        terminal.show_table(table, terminal.console_for(to_people))
    written = files.write(read, summary, judged)
    if not quiet:
        to_people.write(
            f"{say('written')}: {', '.join(str(path) for path in written if path.suffix not in ('.json', '.csv'))}\n"
        )
    if json:
        sys.stdout.buffer.write(exported.to_bytes(exported.exported(summary, judged)))
        sys.stdout.flush()
    if csv is not None:  # last, as these go where the run folder's own disk and rights say nothing
        from loadkit import export

        export.write(read, summary, csv)
    if junit_file is not None:
        write_atomically(junit_file, junit.render(summary, judged))
    raise typer.Exit(judged.exit_code)


def _with_kernel_log(run: Run, file: Path | None) -> Run:
    if file is None:
        return run
    taken = kernel_lines.with_kernel_log(run, file)
    if taken.unplaced:
        raise UsageError(
            f"{taken.unplaced} lines have no time that can be placed on the run's clock",
            where=str(file),
            remedy="print them with a date: journalctl -k -o short-iso, or dmesg --time-format iso",
        )
    kernel_lines.keep(run, taken.added)
    return taken.run
