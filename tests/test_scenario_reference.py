import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "make_scenario_reference.py"


def test_the_reference_page_is_what_the_code_says():
    """docs/reference/scenarios.md is made from the models; run the script after changing them."""
    spec = importlib.util.spec_from_file_location("make_scenario_reference", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.page() == (ROOT / "docs" / "reference" / "scenarios.md").read_text(encoding="utf-8")


def test_every_key_has_a_meaning():
    """A key without a description would be a blank in the page."""
    page = (ROOT / "docs" / "reference" / "scenarios.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.endswith("|  |")] == []
