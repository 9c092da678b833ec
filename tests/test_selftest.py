"""The self-test compares what the client recorded with what the server wrote."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loadkit.commands.selftest import app
from loadkit.errors import LoadkitError
from loadkit.record import CaseFacts, Events, Outcome, Record, Slot, Usage
from loadkit.selftest import compare, state_file

MS = 1_000_000


def record(*, late_ns: int = 20_000, events: int = 200, **changes: Any) -> Record:
    at = tuple(100 * MS + place * 10 * MS + late_ns for place in range(events))
    whole = Record(
        id="a", slot=Slot(), case=CaseFacts(scenario="s", case="a", workload="speed"), outcome=Outcome.COMPLETED, due_ns=0,
        sent_ns=0, end_ns=at[-1], events=Events(at_ns=at, kinds="a" * events, tokens=(1,) * events),
        usage=Usage(prompt_tokens=5, completion_tokens=events),
    )  # fmt: skip
    return replace(whole, **changes)


def truth(*, events: int = 200) -> dict[str, Any]:
    at = [100 * MS + place * 10 * MS for place in range(events)]
    usage = {"prompt_tokens": 5, "completion_tokens": events}
    return {"request_id": "a", "at_ns": at, "tokens": [1] * events, "received_ns": 0, "finish_ns": at[-1], "usage": usage}


def test_an_exact_client_is_met():
    """A client that is 20 µs late on every event is within the limits, and its gaps are exact."""
    rung = compare([record()], [truth()], 100.0)
    assert rung.met
    assert (rung.tokens_exact, rung.stamp.p50_ms, rung.gap.max_ms) == (True, 0.02, 0.0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"late_ns": 5 * MS}, "stamp error"),
        ({"usage": Usage(prompt_tokens=5, completion_tokens=199)}, "token counts differ"),
        ({"events": 199}, "token counts differ"),
        ({"outcome": Outcome.STREAM_ERROR}, "did not complete"),
    ],
)
def test_what_is_off_is_named(changes: dict[str, Any], reason: str):
    """Late stamps, wrong counts, lost events and failed requests are each a reason."""
    rung = compare([record(**changes)], [truth()], 100.0)
    assert not rung.met
    assert reason in "; ".join(rung.reasons)


def test_merged_events_are_named():
    """More than one per cent of coalesced gaps is a reason."""
    merged = replace(record().events, coalesced=((5, 0), (6, 0), (7, 0)))
    rung = compare([replace(record(), events=merged)], [truth()], 100.0)
    assert "coalesced" in "; ".join(rung.reasons)


def test_nothing_to_compare_is_an_error():
    """No event at all is no result."""
    with pytest.raises(LoadkitError, match="no event"):
        compare([], [truth()], 100.0)


def test_a_real_run_is_exact_and_the_command_exits_with_its_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Against the real simulator token counts agree; exit 0 or 5, a line that says which, JSON, and a result for reports."""
    from loadkit.summary.doubts import self_test

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "out.json"
    done = CliRunner().invoke(app, ["--streams", "3", "--interval-ms", "40", "--rungs", "1", "--json", str(file)])
    facts = json.loads(file.read_text())
    (rung,) = facts["rungs"]
    assert rung["tokens_exact"]
    assert 290 < rung["events"] <= 300  # a hidden token or two makes no event
    assert facts["exit_code"] in (0, 5)
    assert done.exit_code == facts["exit_code"]
    assert ("MET" in done.output) and (("NOT MET" in done.output) is (facts["exit_code"] == 5))
    assert json.loads(state_file().read_text()) == facts
    found = self_test()
    assert found is not None
    assert found["passed"] is facts["passed"]
