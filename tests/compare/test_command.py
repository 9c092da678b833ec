"""`loadkit compare` as it is typed: sides, exit codes, JSON, HTML, and mistakes."""

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from command_line import Done, loadkit
from compare.generated import Asked, Made, write

EAGER = {"server": {"version": "0.32.0", "arguments": ["--max-num-seqs", "4", "--enforce-eager"], "image_digest": "sha256:aa"}}


def made(label: str, number: int, *, tpot_s: float, **changes) -> Made:
    asked = [Asked(case=f"c{n}", round=n, tpot_s=tpot_s * (1 + 0.002 * number)) for n in (1, 2, 3)]
    return replace(Made(started_s=100.0 * number + len(label), asked=asked, label=label), **changes)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number in range(3):
        write(tmp_path / f"e{number}", made("eager", number, tpot_s=0.0209, manifest=EAGER))
        write(tmp_path / f"g{number}", made("graph", number, tpot_s=0.0200))
    return tmp_path


def compare(runs: Path, *words: str, process: bool = False) -> Done:
    return loadkit("compare", *words, cwd=runs, process=process)


def test_labels_name_sides(runs: Path):
    """All runs of a label; the table has both medians, the interval and the word."""
    result = compare(runs, "eager", "graph", "--run-dir", ".", "--factor", "enforce_eager", process=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("graph is FASTER: decode rate (1 way)")
    assert "3 and 3 launches, unpaired" in result.stdout


def test_several_folders_follow_against(runs: Path):
    """As one writes it: A1 A2 A3 --against B1 B2 B3, options before or after."""
    result = compare(runs, "--factor", "server", "e0", "e1", "e2", "--against", "g0", "g1", "g2", "--json", "-")
    found = orjson.loads(result.stdout)
    assert [len(side["launches"]) for side in found["sides"]] == [3, 3]
    assert found["primary"]["word"] == "better"
    assert "FASTER" in result.stderr


def test_json_and_page_agree_with_the_table(runs: Path):
    """One comparison, three forms; the page loads nothing from elsewhere."""
    result = compare(runs, "eager", "graph", "--run-dir", ".", "--factor", "server", "--json", "c.json", "--html", "c.html")
    found = orjson.loads((runs / "c.json").read_bytes())
    page = (runs / "c.html").read_text()
    assert result.stdout.splitlines()[0] == found["headline"]
    assert found["headline"] in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("eager", "graph"), 5, "server.arguments.enforce_eager"),
        (("eager", "graph", "--factor", "server", "--fail-if-slower", "5%"), 0, "FASTER"),
        (("graph", "eager", "--factor", "server", "--fail-if-slower", "1%"), 1, "SLOWER"),
        (("e0", "g0", "--factor", "server", "--fail-if-slower", "5%"), 6, "INDICATIVE ONLY"),
        (("e0", "g0", "--allow"), 0, "more than the declared factor differs"),
        (("e0",), 2, "needs two sides"),
        (("e0", "e0"), 2, "stands on both sides"),
        (("eager", "grph"), 2, "no label 'grph'"),
        (("eager", "graph", "--factor", "server", "--primary", "tpt"), 2, "did you mean 'tpot'"),
        (("eager", "graph", "--fail-if-slower", "fast"), 2, "write 5% or 0.05"),
        (("eager", "graph", "--no-such"), 2, "--no-such"),
        (("eager", "graph", "--html", "/nowhere/page.html"), 2, "--html: /nowhere/page.html can't be written in /nowhere"),
        (("eager", "graph", "--json", "/"), 2, "--json: / is a folder"),
    ],
)
def test_exit_codes_and_mistakes(runs: Path, words, code, says):
    """0, 1, 2, 5 and 6 as documented; a mistake is one line and no traceback."""
    result = compare(runs, *words, "--run-dir", ".")
    output = result.stdout + result.stderr
    assert result.returncode == code, output
    assert says in output
    assert "Traceback" not in output


def test_a_mistake_ends_the_process_in_one_line(tmp_path: Path):
    """As a shell sees it: exit code 2, nothing on stdout."""
    result = compare(tmp_path, "e0", process=True)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr


def test_what_is_in_a_run_can_not_break_the_page(tmp_path: Path):
    """Names of stages and labels are escaped."""
    asked = [Asked(stage="<script>alert(1)</script>")]
    write(tmp_path / "a", Made(started_s=1.0, asked=[*asked, Asked()], label="<b>"))
    write(tmp_path / "b", Made(started_s=2.0, asked=[*asked, Asked()], label="<i>"))
    assert compare(tmp_path, "a", "b", "--html", "c.html").returncode == 0
    page = (tmp_path / "c.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
