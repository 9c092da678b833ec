"""The rules of docs/explanation/architecture.md that a machine can check."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "loadkit"

# Imports point up this list: a module may import what stands above it, and inside its own package.
ORDER = [
    "errors", "platforms", "hangup", "clock", "secrets", "language", "spreadsheet", "assets", "record", "kernel_log", "gauges",
    "incidents", "sidecar_client", "dialect", "case", "request", "questions", "plan", "encoding", "schema", "checks",
    "scenario", "prefix_cache", "transport", "server", "tokens", "documents", "run_folder", "sse", "assembly", "lenient",
    "template",
    "stream", "deadlines", "reception", "outcome", "client", "pacing", "probes", "preflight", "provenance", "engine", "metrics",
    "statistics", "slo", "summary", "export", "verdict", "compare", "report", "simulator", "selftest", "sidecar",
    "experiment", "live", "front", "commands", "cli", "__main__",
]  # fmt: skip
STRANGERS = ("front", "sidecar", "simulator")
SIMULATOR_MAY_NOT_KNOW = {"scenario", "documents", "checks", "case", "generators"}


def module_of(path: Path) -> str:
    top = path.relative_to(SOURCE).parts[0]
    return top.removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> set[str]:
    """First-level modules of loadkit that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "loadkit":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("loadkit.")}
    return found


def sources() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]


def test_every_module_has_its_place_in_the_order():
    """A new module is put into ORDER where the data passes it."""
    assert {module_of(path) for path in sources()} - set(ORDER) == set()


def test_imports_point_up_the_order():
    """No module imports one that stands below it."""
    down = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sources()
        for name in imports_of(path)
        if name in ORDER and ORDER.index(name) > ORDER.index(module_of(path))
    ]
    assert down == []


def test_front_sidecar_and_simulator_are_strangers():
    """The three outer parts are started by each other as processes, never imported."""
    known = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in sources()
        for name in imports_of(path)
        if module_of(path) in STRANGERS and name in STRANGERS and name != module_of(path)
    ]
    assert known == []


def test_the_simulator_knows_nothing_of_right_answers():
    """It has to find the answer in the text, or it would be right by construction."""
    known = {name for path in (SOURCE / "simulator").rglob("*.py") for name in imports_of(path)}
    assert known & SIMULATOR_MAY_NOT_KNOW == set()


def test_import_loadkit_does_not_import_locust():
    """Importing locust patches the process."""
    code = "import sys, loadkit; sys.exit('locust' in sys.modules or 'gevent' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_only_the_front_imports_locust():
    """A module that imports locust can't be used from asyncio code."""
    guilty = [
        str(path.relative_to(SOURCE))
        for path in sources()
        if module_of(path) != "front"
        and any(
            (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("locust", "gevent"))
            or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] in ("locust", "gevent") for alias in node.names))
            for node in ast.walk(parsed(path))
        )
    ]
    assert guilty == []
