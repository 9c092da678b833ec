"""The reference pages are made from the code."""

import sys
from pathlib import Path

import pytest

import loadkit

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from make_api_reference import unlisted  # noqa: E402
from make_records_reference import KINDS as RECORD_KINDS  # noqa: E402
from make_references import pages  # noqa: E402
from reference_page import REFERENCE  # noqa: E402

from loadkit.record import KINDS  # noqa: E402

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_what_the_code_says(name):
    """After a change: scripts/make_references."""
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name]


def test_every_reference_page_is_made_from_the_code():
    """No page is written by hand, so none can say what the code does not do."""
    assert {path.name for path in REFERENCE.glob("*")} == set(PAGES)


def test_every_exported_name_is_documented():
    """The library page has all of them, and no other."""
    assert unlisted() == set()


def test_every_exported_name_can_be_had():
    """Lazily, each from its module."""
    assert [name for name in loadkit.__all__ if getattr(loadkit, name, None) is None] == []


def test_every_kind_of_line_is_documented():
    """A line that a run folder may hold has its table."""
    assert set(KINDS.values()) <= set(RECORD_KINDS)


def test_no_option_is_without_a_meaning():
    """A blank in the last column would be an option without help."""
    for name in ("options.md", "commands.md", "simulator.md"):
        assert [line for line in PAGES[name].splitlines() if line.startswith("| `-") and line.endswith("|  |")] == []
