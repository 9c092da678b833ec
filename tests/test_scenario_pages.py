"""The how-to pages about scenarios and checks: their YAML loads, their Python runs."""

import re
from pathlib import Path

import pytest
import yaml

from loadkit import scenario
from loadkit.scenario.schema import Scenario
from loadkit.schema import parse

PAGES = Path(__file__).parents[1] / "docs" / "how-to"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", ["write-a-scenario.md", "write-a-check.md"])
def test_the_scenarios_of_the_pages_are_sound(page, tmp_path):
    """Each block of YAML is a whole scenario whose cases can be drawn."""
    found = [yaml.safe_load(block) for block in blocks(page, "yaml")]
    assert found
    for data in found:
        checked = parse(Scenario, data, where=page)
        if checked.file is None:
            assert scenario.cases(checked)


def test_the_python_of_the_check_page_runs():
    """The last block is the one that needs no server."""
    exec(blocks("write-a-check.md", "python")[-1], {})  # the page's own code is what is under test
