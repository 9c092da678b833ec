import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).parents[1]


def script():
    loader = SourceFileLoader("changelog_script", str(ROOT / "scripts" / "changelog"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_a_fragment_is_text_or_bullets():
    """Either way one entry a thought, on one line."""
    assert script().entries("One thing\nin two lines.\n") == ["One thing in two lines."]
    assert script().entries("- one\n  thing\n- another\n") == ["one thing", "another"]


def test_entries_go_to_the_end_of_what_is_not_released():
    """Older releases stay as they are, and collecting twice adds nothing."""
    before = "# Changelog\n\n## Unreleased\n\n- old\n\n## 0.1.0\n\n- older\n"
    after = script().collected(before, ["new"])
    assert after == "# Changelog\n\n## Unreleased\n\n- old\n- new\n\n## 0.1.0\n\n- older\n"
    assert script().collected(after, ["new"]) == after
