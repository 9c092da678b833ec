"""Finding and reading scenario files."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from loadkit.errors import UsageError
from loadkit.scenario.schema import Scenario
from loadkit.schema import did_you_mean, parse, read_yaml


def load(path: Path) -> Scenario:
    """The scenario in a YAML file, checked whole.

    Raises:
        UsageError: the file can't be read, or holds a mistake; file, key and remedy are named.
    """
    scenario = parse(Scenario, read_yaml(path), where=str(path)).read_from(str(path))
    if scenario.name != path.stem:
        raise UsageError(
            f"is {scenario.name!r}, but the file is called {path.name}",
            where=str(path), key="name", remedy=f"write `name: {path.stem}` or rename the file",
        )  # fmt: skip
    if scenario.file is not None:
        beside = scenario.file.model_copy(update={"path": str(path.parent / scenario.file.path)})
        return scenario.model_copy(update={"file": beside})
    return scenario


def find(name: str, folder: Path | None = None) -> Scenario:
    """The scenario `name` in `folder`, else among those that come with the package; a path to a file works too.

    Raises:
        UsageError: there is none of that name (the closest one is named), or its file holds a mistake.
    """
    return load(locate(name, folder))


def locate(name: str, folder: Path | None = None) -> Path:
    """The file of the scenario `name`.

    Raises:
        UsageError: there is none of that name; the closest one is named.
    """
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if folder is not None and not folder.is_dir():
        raise UsageError("is no folder", where=str(folder), remedy="name a folder of scenario files")
    for place in _folders(folder):
        if os.path.isfile(file := place / f"{name}.yaml"):  # noqa: PTH113 - Path's own raises for names that are too long
            return file
    where = str(folder) if folder is not None else "scenarios"
    remedy = did_you_mean(name, names(folder), else_say="there are {known}")
    raise UsageError(f"there is no scenario {name!r}", where=where, remedy=remedy)


def names(folder: Path | None = None) -> list[str]:
    """The names of the scenarios that `find` knows."""
    return sorted({path.stem for place in _folders(folder) for path in place.glob("*.yaml")})


def _folders(folder: Path | None) -> list[Path]:
    """The user's folder first, then the bundled one (in a checkout: the repository's)."""
    package = Path(str(resources.files("loadkit")))
    bundled = [package / "scenarios_bundled", package.parents[1] / "scenarios"]
    return [place for place in (folder, *bundled) if place is not None and place.is_dir()]
