"""The experiment's memory over crashes."""

import pytest

from experiment.test_plan import written
from loadkit.clock import SystemClock
from loadkit.errors import UsageError
from loadkit.experiment.ledger import LEDGER, PLAN, Ended, Ledger, left, open_ledger
from loadkit.experiment.plan import load
from loadkit.experiment.schedule import schedule


def ended(number: int, state: str = "finished") -> Ended:
    return Ended(number=number, pair=(number + 1) // 2, arm="a", state=state, reason="because")  # type: ignore[arg-type]


def test_what_was_written_is_read_back(tmp_path):
    """Launches that ended survive the process."""
    first = Ledger(tmp_path, SystemClock())
    first.finish(ended(1))
    first.close()
    assert Ledger(tmp_path, SystemClock()).ended() == (ended(1),)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_cut_by_a_power_failure_loses_only_itself(tmp_path, cut):
    """The lines before it and after it are read."""
    ledger = Ledger(tmp_path, SystemClock())
    ledger.finish(ended(1))
    ledger.finish(ended(2))
    ledger.close()
    content = (tmp_path / LEDGER).read_bytes()
    (tmp_path / LEDGER).write_bytes(content[:-cut])
    again = Ledger(tmp_path, SystemClock())
    again.finish(ended(3))
    assert [one.number for one in again.ended()][-1] == 3
    assert again.ended()[0] == ended(1)


def test_only_what_is_done_is_not_done_again():
    """Finished, aborted and skipped slots are done; a launch that was cut short is not."""
    slots = schedule(("a", "b"), 2, seed=0)
    states = (ended(1), ended(2, "cut"), ended(3, "aborted"))
    assert [slot.number for slot in left(slots, states)] == [2, 4]
    assert [slot.number for slot in left(slots, (*states, ended(2)))] == [4]


def test_a_launch_without_an_end_is_known(tmp_path):
    """What was begun when the power went."""
    ledger = Ledger(tmp_path, SystemClock())
    ledger.note("begun", number=1, pair=1, arm="a")
    ledger.finish(ended(1))
    assert ledger.unfinished() is None
    ledger.note("begun", number=2, pair=1, arm="b")
    assert ledger.unfinished()["number"] == 2


def test_a_changed_plan_is_not_resumed(tmp_path):
    """Half an experiment of one plan and half of another is none."""
    folder = tmp_path / "out"
    plan = load(written(tmp_path))
    ledger = open_ledger(plan, folder, SystemClock())
    ledger.note("planned", hash=plan.hash)
    ledger.close()
    open_ledger(plan, folder, SystemClock()).close()
    with pytest.raises(UsageError, match="plan has changed"):
        open_ledger(load(written(tmp_path, pairs=7)), folder, SystemClock())


def test_keys_do_not_enter_the_copy_of_the_plan(tmp_path):
    """Commands and environments are masked where the plan is kept."""
    arm = {
        "start": "serve --api-key sk-very-secret-1234",
        "base_url": "http://127.0.0.1:1",
        "environment": {"HF_TOKEN": "hf_abcdefghijk"},
    }
    path = written(tmp_path, arms={"a": arm, "b": {"base_url": "http://127.0.0.1:2"}})
    open_ledger(load(path), tmp_path / "out", SystemClock()).close()
    kept = (tmp_path / "out" / PLAN).read_text()
    assert "very-secret" not in kept
    assert "abcdefghijk" not in kept
    assert "serve --api-key" in kept
