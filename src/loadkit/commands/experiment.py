"""`loadkit experiment plan.yaml`: a whole A/B, resumable, with the default configuration brought back.

Exit codes: the worst of its launches (4 host unstable, 130 interrupted, 3 aborted, or the default is not back, 5, 1, 6), else
the comparison's; 2 usage.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import click
import typer

from loadkit.clock import SystemClock
from loadkit.commands.compare import publish
from loadkit.experiment.conduct import conduct
from loadkit.experiment.dry_run import dry_run
from loadkit.experiment.outcome import Outcome
from loadkit.experiment.plan import load
from loadkit.experiment.waiting import Orders

app = typer.Typer(add_completion=False)


@app.command()
def main(
    plan: Annotated[Path, typer.Argument(metavar="plan.yaml", help="the experiment's file")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder that gets one folder for each experiment")] = Path(
        "experiments"
    ),
    only_show: Annotated[
        bool, typer.Option("--dry-run", help="print schedule, commands and estimated time, and do nothing")
    ] = False,
) -> None:
    """Run a whole A/B: launches in an order drawn by coin, the comparison, the default configuration back.

    The same command resumes an experiment that was interrupted or killed; finished launches are not repeated.
    """
    experiment = load(plan)
    if only_show:
        for line in dry_run(experiment):
            typer.echo(line)
        return
    folder = out / experiment.file.name
    outcome = conduct(experiment, folder, clock=SystemClock(), orders=Orders(_say), say=_say)
    if outcome.comparison is not None:
        publish(outcome.comparison, json=folder / "comparison.json", html=folder / "comparison.html")
    _say(_summary(outcome, folder))
    raise typer.Exit(outcome.exit_code)


def _say(line: str) -> None:
    click.echo(f"loadkit experiment: {line}", err=True)
    sys.stderr.flush()


def _summary(outcome: Outcome, folder: Path) -> str:
    counts = {state: sum(one.state == state for one in outcome.launches) for state in ("finished", "aborted", "cut", "skipped")}
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"
    return f"launches: {told}; everything is in {folder} (exit code {outcome.exit_code})"
