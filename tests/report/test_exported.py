"""summary.json: the published schema, and the same figures as the summary."""

import json
import math
from pathlib import Path

import jsonschema
import pytest
from made_run import Shape, make

from loadkit import verdict
from loadkit.record import Outcome
from loadkit.report import exported
from loadkit.run_folder import read_run
from loadkit.summary import summarise
from recorded import record, run

PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "summary.schema.json"


def written(summary):
    return json.loads(exported.to_bytes(exported.exported(summary, verdict.judge(summary))))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "made"
    make(folder, Shape())
    return summarise(read_run(folder), selftest=None)


@pytest.fixture(scope="module")
def failed():
    """Sixty requests, five of them without an answer, and an objective that they break."""
    records = [record(f"r{n}") for n in range(60)] + [record(f"f{n}", outcome=Outcome.TIMEOUT, events=()) for n in range(5)]
    return summarise(run(records, manifest={"slo": ["ttft_p95=2s"]}), selftest=None)


def test_the_published_schema_is_the_one_in_the_code():
    """docs/reference/summary.schema.json is made by `python scripts/reference`."""
    assert json.loads(PUBLISHED.read_text()) == exported.schema()


@pytest.mark.parametrize("which", ["made", "failed"])
def test_a_summary_is_valid_under_the_published_schema(which, request):
    """Also where percentiles are infinite and parts are missing."""
    jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text())).validate(written(request.getfixturevalue(which)))


def test_an_empty_run_is_valid_too():
    """Nothing was measured."""
    jsonschema.validate(written(summarise(run([]), selftest=None)), exported.schema())


def test_figures_are_those_of_the_summary_in_milliseconds(made):
    """Durations are converted only here."""
    stage, row = made.stages[0], written(made)["stages"][0]
    assert row["requests"]["figures"]["ttft"]["median"] == pytest.approx(stage.group.distribution("ttft").median / 1e6)
    assert row["makespan_tok_s"]["median"] == pytest.approx(stage.makespan_tok_s.median)
    assert row["rounds"][0]["output_tokens"] == stage.rounds[0].group.tokens


def test_a_percentile_that_failures_reach_is_the_word_inf(failed):
    """JSON has no infinity: p95 of 65 requests, five of which failed."""
    row = written(failed)["requests"]["figures"]["ttft"]
    assert (row["p95"], row["p95_with_failures"], row["median_with_failures"]) == (100.0, "inf", 100.0)
    assert written(failed)["slos"][0]["value"] == "inf"
    assert failed.slos[0].value == math.inf


def test_headline_and_exit_code_stand_at_the_top(failed):
    """What the front and `loadkit runs` read."""
    row = written(failed)
    assert (row["exit_code"], row["verdict"], row["schema_version"]) == (3, "fail", exported.VERSION)
    assert row["headline"] == verdict.judge(failed).headline
