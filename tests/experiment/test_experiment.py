"""Whole experiments between simulators, by the command: finished, refused, killed, interrupted, resumed, restored."""

import os
import signal

import orjson
import pytest

from conftest import ROOT
from experiment.conftest import Bed, kill_hard
from loadkit.experiment.server import answers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


def test_two_pairs_are_run_compared_and_left_as_found(bed: Bed):
    """Every launch has a run folder with its facts, the comparison is written, and nothing runs afterwards."""
    code, output = bed.run(bed.plan())
    assert bed.states() == [(number, "finished") for number in (1, 2, 3, 4)], output
    assert code in (0, 5, 6), output  # a busy machine makes the measurement invalid, which is said
    for line in bed.lines("ended"):
        facts = orjson.loads((bed.out / "runs" / line["run"] / "launch.json").read_bytes())
        assert (facts["arm"], facts["pair"]) == (line["arm"], line["pair"])
        assert facts["experiment"]["primary"] == "decode_rate@1 way"
        assert "--preset" in facts["arguments"]
    found = orjson.loads((bed.out / "comparison.json").read_bytes())
    assert (found["primary"]["metric"], found["primary"]["pairing"], found["exploratory"]) == ("decode_rate", "paired", False)
    assert [len(side["launches"]) for side in found["sides"]] == [2, 2]
    assert bed.proved()["nothing runs"] == "ok"
    assert not answers(bed.url, "/health")
    again, output = bed.run(bed.plan())
    assert (again, "is finished" in output) == (code, True)
    assert len(bed.lines("begun")) == 4


def test_a_primary_that_no_run_has_ends_it_after_the_first_launch(bed: Bed):
    """Hours of launches would come to nothing: it says what there is, and brings the default back."""
    code, output = bed.run(bed.plan(primary="decode_rate@4 ways"))
    assert code == 3, output
    assert "primary: 'decode_rate@4 ways' was not measured on both sides; there is: decode_rate@1 way" in output
    assert (len(bed.lines("ended")), bed.proved()["nothing runs"]) == (1, "ok")


def test_a_dry_run_starts_nothing(bed: Bed):
    """Schedule, commands and time are printed; no folder is made."""
    code, output = bed.run(bed.plan(), "--dry-run")
    assert code == 0
    assert "pair 2: " in output
    assert "estimated time" in output
    assert not bed.out.exists()


def test_an_arm_that_can_not_start_ends_the_experiment_and_the_default_is_back(bed: Bed):
    """Aborted with the end of its log, given up after two, and A runs and passes smoke."""
    broken = bed.arm("--preset fast --no-such-flag")
    plan = bed.plan(arms={"a": bed.arm(), "b": broken}, default="a", pairs=3, smoke=str(ROOT / "locustfiles" / "smoke.py"))
    code, output = bed.run(plan)
    assert code == 3, output
    aborted = [line for line in bed.lines("ended") if line["state"] == "aborted"]
    assert [line["arm"] for line in aborted] == ["b", "b"]
    assert "no-such-flag" in aborted[0]["reason"]
    assert "was aborted 2 times in a row" in output
    proved = bed.proved()
    assert (proved["default a running and healthy"], proved["smoke passed"]) == ("ok", "ok")
    assert answers(bed.url, "/health")


def test_a_flag_that_is_not_in_force_aborts_the_launch(bed: Bed):
    """A server that came up with another configuration is not measured."""
    arms = {"a": bed.arm(), "b": bed.arm(proof={"argument": "--max-num-seqs"})}
    _, output = bed.run(bed.plan(arms=arms, pairs=1, give_up_after=1))
    assert "the flag is not in force: --max-num-seqs is not among the server's arguments" in output
    assert bed.proved()["nothing runs"] == "ok"


def test_killed_in_the_middle_it_goes_on_without_repeating(bed: Bed):
    """kill -9 during the second launch: its leftovers are ended, it is done again, the first is not."""
    plan = bed.plan(default="a")
    process = bed.start(plan)
    bed.wait_for("process", 2, what="locust")
    kill_hard(process)
    assert bed.states() == [(1, "finished")]
    code, output = bed.run(plan)
    assert code in (0, 3, 5, 6), output
    assert "ended what a killed experiment had left running" in output
    assert bed.states() == [(1, "finished"), (2, "cut"), (2, "finished"), (3, "finished"), (4, "finished")]
    assert [line["number"] for line in bed.lines("begun")].count(1) == 1
    assert bed.proved()["default a running and healthy"] == "ok"
    assert answers(bed.url, "/health")


@pytest.mark.usefixtures("hangups_heard")
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_twice_brings_the_default_back_all_the_same(bed: Bed, first: signal.Signals):
    """The run ends in order, a second signal is answered and changes nothing, exit code 130; a lost ssh counts as one."""
    plan = bed.plan(default="a", options="--rounds 50 --ways 1 --max-tokens 64")
    process = bed.start(plan)
    bed.wait_for("process", 1, what="locust")
    os.kill(process.pid, first)
    bed.wait_for("ended", 1)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert bed.states() == [(1, "cut")]
    assert "still ending in order" in output
    assert bed.proved()["default a running and healthy"] == "ok"
    assert answers(bed.url, "/health")


def test_a_server_of_somebody_else_is_not_touched(bed: Bed):
    """A port that answers already is a mistake that is said before anything is started."""
    process = bed.start(bed.plan(default="a", pairs=1))
    bed.wait_for("restored", 1, limit_s=200)
    process.communicate(timeout=120)
    (bed.folder / "other").mkdir()
    other = Bed(bed.folder / "other", bed.port)
    code, output = other.run(other.plan())
    assert code == 2
    assert "already" in output
    assert answers(bed.url, "/health")
    assert not other.lines("begun")


def test_servers_that_run_already_are_measured_as_they_are(bed: Bed):
    """By base_url alone nothing is started or stopped, and with one launch a side the verdict is indicative."""
    process = bed.start(bed.plan(default="a", pairs=1))
    bed.wait_for("restored", 1, limit_s=200)
    process.communicate(timeout=120)
    (bed.folder / "running").mkdir()
    running = Bed(bed.folder / "running", bed.port)
    arms = {"a": {"base_url": bed.url}, "b": {"base_url": bed.url}}
    _, output = running.run(running.plan(arms=arms, factors=[], pairs=2))
    assert [state for _, state in running.states()] == ["finished"] * 4, output
    assert "INDICATIVE ONLY" in output
    assert answers(bed.url, "/health")
