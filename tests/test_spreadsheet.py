"""CSV files for spreadsheets."""

import csv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.errors import FolderError
from loadkit.spreadsheet import cell, written


def test_a_file_begins_with_the_mark_that_excel_looks_for(tmp_path):
    """Chinese opens as Chinese."""
    with written(tmp_path / "a.csv", ["场景", "n"]) as rows:
        rows.add(["短答", 3])
    assert (tmp_path / "a.csv").read_bytes() == "\ufeff场景,n\r\n短答,3\r\n".encode()


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_text_is_taken_for_a_formula(text):
    """A cell of text either is a number or begins with a harmless character."""
    shown = str(cell(text))
    assert not shown.startswith(("=", "+", "-", "@", "\t", "\r")) or float(shown) is not None
    assert shown.removeprefix("'") == text.removeprefix("'") or shown == text


@pytest.mark.parametrize("value", [-3, 1.5, None, "-3.5", "+2"])
def test_numbers_are_left_alone(value):
    """A negative number is no formula."""
    assert cell(value) is value


def test_cells_with_commas_quotes_and_lines_come_back(tmp_path):
    """What was written is what a CSV reader reads."""
    row = ['say "hi", please', "two\nlines", "'=HYPERLINK(1)"]
    with written(tmp_path / "a.csv", ["a", "b", "c"]) as rows:
        rows.add([*row[:2], "=HYPERLINK(1)"])
    with (tmp_path / "a.csv").open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file)) == [["a", "b", "c"], row]


def test_a_file_that_can_t_be_written_is_named(tmp_path):
    """One line that names the file, no traceback."""
    with pytest.raises(FolderError, match=r"no/such/a\.csv"), written(tmp_path / "no/such/a.csv", ["a"]):
        pass
