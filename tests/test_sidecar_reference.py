import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "make_sidecar_reference.py"
PAGE = ROOT / "docs" / "reference" / "sidecar.md"


def test_the_reference_page_is_what_the_code_says():
    """docs/reference/sidecar.md is made from options, routes and keys; run the script after changing them."""
    spec = importlib.util.spec_from_file_location("make_sidecar_reference", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.page() == PAGE.read_text(encoding="utf-8")


def test_every_option_has_a_meaning():
    """An option without help would be a blank in the page."""
    assert [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.endswith("|  |")] == []
