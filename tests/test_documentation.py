"""The documentation does what it says: its Python runs, its commands and options exist, its links lead somewhere."""

import ast
import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import typer

import loadkit
from loadkit.cli import COMMANDS
from loadkit.front.options import ENTRIES
from simulator_process import simulator

ROOT = Path(__file__).parents[1]
PYTHON_PAGE = ROOT / "docs" / "how-to" / "use-it-from-python.md"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts),
]
ALONE = "<!-- in a process of its own -->\n"
BLOCK = re.compile(rf"({ALONE})?```(\w*)\n(.*?)```", re.DOTALL)
PROMPT = re.compile(r"^(?:[a-z-]+)?\$ +")
SERVER = "http://127.0.0.1:8000"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str
    alone: bool


def blocks(page: Path, *languages: str) -> list[Block]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(page, kind, text, bool(alone)) for alone, kind, text in found if kind in languages]


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command in a page's shell blocks; in `console` blocks only what follows a prompt."""
    for block in blocks(page, "sh", "console", "bash"):
        lines = block.text.replace("\\\n", " ").splitlines()
        typed = [PROMPT.sub("", line) for line in lines if block.language != "console" or PROMPT.match(line)]
        for line in typed:
            for part in re.split(r"&&|\|\||;| \| ", line):
                words = shlex.split(part, comments=True)
                while words and re.match(r"\w+=|export$", words[0]):
                    words.pop(0)
                if words:
                    yield words


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run_python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False, timeout=100)


def test_the_python_of_the_how_to_runs(tmp_path):
    """All blocks of one page are one program, against a simulator."""
    code = "\n".join(block.text for block in blocks(PYTHON_PAGE, "python") if not block.alone)
    with simulator() as sim:
        ended = run_python(code.replace(SERVER, sim.url), tmp_path)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "completed stop 42" in ended.stdout
    assert "COMPLETED 6/6 · CORRECT 6/6" in ended.stdout


def test_the_python_of_the_readme_runs(tmp_path):
    """What a reader copies first."""
    (block,) = blocks(ROOT / "README.md", "python")
    with simulator() as sim:
        ended = run_python(block.text.replace(SERVER, sim.url), tmp_path)
    assert "COMPLETED 12/12" in ended.stdout, ended.stderr[-2000:]


@pytest.mark.slow
def test_locust_as_a_library_runs(tmp_path):
    """The block that needs a process of its own."""
    (tmp_path / "locustfiles").symlink_to(ROOT / "locustfiles")
    (block,) = [block for block in blocks(PYTHON_PAGE, "python") if block.alone]
    with simulator(preset="fast") as sim:
        ended = run_python(block.text.replace(SERVER, sim.url), tmp_path)
    assert "3 requests" in ended.stdout, ended.stderr[-2000:]


def test_every_exported_name_is_used_in_the_how_to():
    """An example for each, and it runs (above)."""
    code = "\n".join(block.text for block in blocks(PYTHON_PAGE, "python"))
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    assert set(loadkit.__all__) - used == set()


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_python_blocks_are_python(page):
    """Also those that need a server or Locust."""
    for block in blocks(page, "python"):
        ast.parse(block.text)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_commands_in_shell_blocks_exist(page):
    """Scripts, locustfiles, subcommands, and each of their options."""
    wrong = [" ".join(words) + f": {problem}" for words in commands(page) for problem in problems(words)]
    assert wrong == []


def problems(words: list[str]) -> Iterator[str]:
    name = Path(words[0]).name
    options = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    if name == "locust":
        yield from (f"no option {option}" for option in options - locust_options())
        yield from missing_files(words)
    elif name == "loadkit" or words[1:3] == ["-m", "loadkit"]:
        yield from loadkit_problems(words[words.index("loadkit") + 1 :] if "loadkit" in words else words[1:], options)
    elif words[0].startswith(("scripts/", "benchmarks/")) or (name.startswith("python") and len(words) > 1 and "/" in words[1]):
        script = words[0] if "/" in words[0] and not name.startswith("python") else words[1]
        if not (ROOT / script).exists():
            yield f"there is no {script}"


def loadkit_problems(words: list[str], options: set[str]) -> Iterator[str]:
    if not words or words[0].startswith("-") or words[0].isupper():
        return
    if words[0] not in COMMANDS:
        yield f"no command {words[0]}"
        return
    known = command_options(words[0])
    yield from (f"no option {option}" for option in options - known - {"--help"})


def missing_files(words: list[str]) -> Iterator[str]:
    for flag, value in itertools.pairwise(words):
        if flag == "-f" and value.startswith("locustfiles/") and not (ROOT / value).exists():
            yield f"there is no {value}"


@cache
def locust_options() -> frozenset[str]:
    """Locust's own, as its help prints them, and ours."""
    command = [sys.executable, "-m", "locust", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd="/").stdout
    return frozenset(re.findall(r"--[a-z][a-z-]*", shown)) | {entry.flag for entry in ENTRIES}


@cache
def command_options(name: str) -> frozenset[str]:
    found = typer.main.get_command(import_module(f"loadkit.commands.{name}").app)
    several = getattr(found, "commands", {name: found}).values()
    return frozenset(opt for one in several for part in one.params for opt in (*part.opts, *part.secondary_opts))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_files_that_a_page_links_to_exist(page):
    """Relative links and pictures; Sphinx checks anchors."""
    links = re.findall(
        r"\]\((?!https?:|#|mailto:)([^)#\s]+)", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    )
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_is_short():
    """It is read in a minute."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize(
    "typed",
    [
        "locust -f locustfiles/nope.py",
        "locust -f locustfiles/ask.py --bogus",
        "loadkit nope",
        "loadkit report RUN --bogus",
        "scripts/nope",
        "python benchmarks/nope.py",
    ],
)
def test_a_wrong_command_is_found(typed):
    """The checks above can fail."""
    assert list(problems(shlex.split(typed)))
