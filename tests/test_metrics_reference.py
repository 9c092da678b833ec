"""The reference pages of figures, exit codes and summary.json are made from the code."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from make_metrics_reference import REFERENCE, pages  # noqa: E402

from loadkit.metrics import METRICS  # noqa: E402
from loadkit.verdict import _RULES, INVALID_REASONS  # noqa: E402


@pytest.mark.parametrize("name", pages())
def test_a_reference_page_is_what_the_code_says(name):
    """After a change: python scripts/make_metrics_reference.py."""
    assert (REFERENCE / name).read_text() == pages()[name]


def test_every_metric_has_its_row():
    """Name and formula."""
    page = (REFERENCE / "metrics.md").read_text()
    assert [metric.name for metric in METRICS if f"`{metric.name}`" not in page or metric.formula not in page] == []


def test_every_reason_for_an_invalid_measurement_is_documented():
    """The rules of the verdict, one to one."""
    assert [name for name, _ in _RULES] == list(INVALID_REASONS)
