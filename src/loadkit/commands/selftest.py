"""`loadkit selftest`: can this machine's figures be believed, and up to which event rate?

Exit codes: 0 met at twice the planned event rate; 5 not met; 2 for a wrong option.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from loadkit.errors import LoadkitError
from loadkit.report.terminal import console_for
from loadkit.selftest import Error, Load, Result, Rung, run, state_file, store

app = typer.Typer(add_completion=False)


@app.command()
def main(
    streams: Annotated[int, typer.Option(min=1, help="streams at a time in the load that is planned")] = 64,
    interval_ms: Annotated[float, typer.Option(min=0.1, help="milliseconds between two events of a stream")] = 20.0,
    rungs: Annotated[int, typer.Option(min=1, max=10, help="how often the event rate is doubled at most")] = 5,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="write the result as JSON (- is stdout)")] = None,
    keep: Annotated[bool, typer.Option("--store/--no-store", help="remember the result, so that reports cite it")] = True,
) -> None:
    """Prove on this machine that the client's figures can be believed."""
    result = run(Load(streams=streams, interval_ms=interval_ms), most=rungs)
    data = orjson.dumps(asdict(result), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if str(json) == "-":
        sys.stdout.buffer.write(data)
    else:
        show(result, console_for(sys.stdout))
    if json is not None and str(json) != "-":
        json.write_bytes(data)
    if keep:
        try:
            store(result, state_file())
        except OSError as problem:
            raise LoadkitError(f"can't remember the self-test in {state_file()}: {problem.strerror}") from problem
    raise typer.Exit(result.exit_code)


def show(result: Result, console: Console) -> None:
    """The rungs as a table, and the verdict in one line."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("events/s", justify="right")
    for name in ("tokens exact", "coalesced", "stamp error", "gap error", "TTFT error", "e2e error", "met"):
        table.add_column(name, justify="right" if "error" in name else "left")
    for rung in result.rungs:
        table.add_row(*_cells(rung))
    note = "errors in milliseconds: p50 / p99 / max; those of TTFT and e2e with the way of the request to the server"
    console.print(note, style="dim")
    console.print(table)
    for rung in result.rungs:
        for reason in rung.reasons:
            console.print(f"{rung.events_per_s:,.0f} events/s ({rung.asked_events_per_s:,.0f} asked): {reason}")
    if not result.passed:
        console.print(
            f"NOT MET at {2 * result.planned.events_per_s:,.0f} events/s: figures of such a load here are not to be trusted "
            f"(load average {result.load_average:.1f} on {result.cpu_count} CPUs)"
        )
        return
    console.print(
        f"MET: figures can be trusted up to {result.trusted_events_per_s:,.0f} events/s on this machine "
        f"({result.stamp_source} stamps; planned {result.planned.events_per_s:,.0f})"
    )


def _cells(rung: Rung) -> list[str]:
    return [
        f"{rung.events_per_s:,.0f}",
        "yes" if rung.tokens_exact else "no",
        f"{100 * rung.coalesced_share:.2f} %",
        *(_shown(error) for error in (rung.stamp, rung.gap, rung.ttft, rung.e2e)),
        "yes" if rung.met else "no",
    ]


def _shown(error: Error) -> str:
    return f"{error.p50_ms:.3f} / {error.p99_ms:.2f} / {error.max_ms:.2f}"
