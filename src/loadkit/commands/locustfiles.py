"""`loadkit locustfiles`: the locustfiles that come with the package. Exit codes: 0, 2 for a mistake."""

from __future__ import annotations

import ast
import shutil
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from loadkit.errors import UsageError
from loadkit.schema import did_you_mean

app = typer.Typer(add_completion=False)


@app.command()
def main(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="print the path of this one only")] = None,
    copy: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="copy all of them into this folder, to change them")
    ] = None,
) -> None:
    """List the bundled locustfiles, print the path of one (`locust -f "$(loadkit locustfiles smoke)"`), or copy them."""
    found = {path.stem: path for path in sorted(folder().glob("*.py"))}
    if copy is not None:
        _copy(list(found.values()), copy)
        return
    if name is not None:
        stem = name.removesuffix(".py")
        if stem not in found:
            remedy = did_you_mean(stem, list(found), else_say="there are {known}")
            raise UsageError(f"there is no locustfile {stem!r}", where="locustfiles", remedy=remedy)
        typer.echo(found[stem])
        return
    for stem, path in found.items():
        typer.echo(f"{stem:<12}{_title(path)}")
    typer.echo(f"\nin {folder()}")


def folder() -> Path:
    """Where they lie: inside the installed package, or in the checkout that is installed from."""
    package = Path(str(resources.files("loadkit")))
    places = (package / "locustfiles_bundled", package.parents[1] / "locustfiles")
    return next((place for place in places if place.is_dir()), places[0])


def _copy(files: list[Path], to: Path) -> None:
    """What is there already is never overwritten."""
    there = [file.name for file in files if (to / file.name).exists()]
    if there:
        raise UsageError(f"{', '.join(there)} is there already", where=str(to), remedy="name an empty folder")
    try:
        to.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copyfile(file, to / file.name)
    except OSError as problem:
        raise UsageError(
            problem.strerror or str(problem), where=str(to), remedy="name a folder that can be written to"
        ) from None
    typer.echo(f"{len(files)} locustfiles in {to}")


def _title(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
