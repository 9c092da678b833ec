"""`loadkit compare A B`: two configurations side by side.

Exit codes: 0, 1 slower than allowed, 2 usage, 5 refused, 6 undecided where a gate was set.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from loadkit.compare.comparison import Comparison, Question, compare
from loadkit.compare.launch import Side, find, side
from loadkit.errors import UsageError
from loadkit.report.comparison import document, page, terminal
from loadkit.report.terminal import console_for
from loadkit.run_folder import writable, write_atomically

app = typer.Typer(add_completion=False)


class ManyAgainst(TyperCommand):
    """Lets `--against B1 B2 B3` take all the words up to the next option, as one writes it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spread: list[str] = []
        within = False
        for word in args:
            within = word == "--against" or (within and not word.startswith("-"))
            if word != "--against":
                spread += ["--against", word] if within else [word]
        parsed: list[str] = super().parse_args(ctx, spread)
        return parsed


@app.command(cls=ManyAgainst)
def main(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="A B | A1 A2 …", help="run folders or labels: one of each side, or with --against all of A"),
    ],
    against: Annotated[list[str] | None, typer.Option("--against", metavar="B", help="the runs of side B")] = None,
    run_dir: Annotated[Path, typer.Option(envvar="LOADKIT_RUN_DIR", help="where labels are looked up")] = Path("runs"),
    name_a: Annotated[str | None, typer.Option(help="name of side A in tables")] = None,
    name_b: Annotated[str | None, typer.Option(help="name of side B in tables")] = None,
    primary: Annotated[
        str | None,
        typer.Option(metavar="METRIC[@GROUP]", help="the metric that the verdict is about; named now it is exploratory"),
    ] = None,
    margin: Annotated[str | None, typer.Option(help="differences smaller than this are negligible (default 2%)")] = None,
    alpha: Annotated[float | None, typer.Option(min=0.0001, max=0.5, help="1 − confidence of intervals (default 0.05)")] = None,
    factor: Annotated[
        list[str] | None, typer.Option(help="what is meant to differ, such as image or enforce_eager (repeatable)")
    ] = None,
    allow: Annotated[
        bool, typer.Option("--allow", help="go on where more differs; the verdict is then indicative only")
    ] = False,
    fail_if_slower: Annotated[
        str | None, typer.Option(metavar="5%", help="exit 1 if B is slower than A by more than this")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="write everything as JSON (- is stdout)")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="write a page that opens offline")] = None,
) -> None:
    """Compare two configurations, launch by launch, with intervals and a verdict in words."""
    for file, option in ((json, "--json"), (html, "--html")):
        if file is not None and file != Path("-"):
            writable(file, where=option)
    a, b = _sides(runs, against or [], run_dir, names=(name_a, name_b))
    question = Question(
        primary=primary,
        margin=_share(margin, "--margin"),
        alpha=alpha,
        factors=tuple(factor or ()),
        allow=allow,
        slower_at_most=_share(fail_if_slower, "--fail-if-slower"),
    )
    found = compare(a, b, question)
    publish(found, json=json, html=html)
    raise typer.Exit(found.exit_code)


def publish(found: Comparison, *, json: Path | None, html: Path | None) -> None:
    """Print the tables (to stderr where stdout is for JSON) and write what was asked for."""
    to_people = sys.stderr if json == Path("-") else sys.stdout
    terminal.show(found, console_for(to_people))
    if json == Path("-"):
        sys.stdout.buffer.write(document.dumps(found))
        sys.stdout.flush()
    elif json is not None:
        write_atomically(json, document.dumps(found))
    if html is not None:
        write_atomically(html, page.page(found).encode())


def _sides(runs: list[str], against: list[str], run_dir: Path, *, names: tuple[str | None, str | None]) -> tuple[Side, Side]:
    if not against:
        if len(runs) != 2:
            raise UsageError(f"needs two sides, got {len(runs)}", where="compare", remedy="write A B, or A1 A2 --against B1 B2")
        runs, against = runs[:1], runs[1:]
    folders = [[folder for one in side for folder in find(one, run_dir)] for side in (runs, against)]
    twice = set(folders[0]) & set(folders[1])
    if twice:
        raise UsageError(f"{min(twice)} stands on both sides", where="compare", remedy="name each run once")
    return _side(names[0], "A", runs, folders[0]), _side(names[1], "B", against, folders[1])


def _side(name: str | None, letter: str, typed: list[str], folders: list[Path]) -> Side:
    read = side(letter, folders)
    labels = {str(run.manifest.get("label") or "") for run in read.runs}
    told = name or (labels.pop() if len(labels) == 1 else "") or (Path(typed[0]).name if len(typed) == 1 else letter)
    return Side(name=told, launches=read.launches)


def _share(text: str | None, option: str) -> float | None:
    """ "5%" or "0.05" as 0.05."""
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UsageError(f"{text!r} is no share between 0 and 100 %", where=option, remedy="write 5% or 0.05")
    return value
