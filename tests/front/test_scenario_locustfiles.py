"""The locustfiles of the scenarios, run as a user runs them, on a simulator that is sound or is not."""

import re
from pathlib import Path

import pytest
from locust_process import ROOT, Locust, ran

from simulator_process import simulator

pytestmark = pytest.mark.slow

TABLES = {
    "retest": ("short answer, decode rate (tokens/s)", "long retrieval, correct", "prefix reuse, correct"),
    "context": ("Answers by length", "Latency by length"),
}


def ran_file(home: Path, name: str, url: str, *options: str) -> Locust:
    return ran(home, "--host", url, *options, file=ROOT / "locustfiles" / f"{name}.py")


@pytest.mark.parametrize(
    ("name", "options", "requests"),
    [
        ("smoke", (), 3),
        ("ask", ("--scenario", "tools", "--rounds", "2"), 8),
        ("prefix", (), 6),
        ("chat", ("--ways", "1,2"), 20),
        ("retrieval", ("--rungs", "8"), 16),
        ("retest", ("--rungs", "8", "--rounds", "2"), 2 * (3 + 1 + 2 + 4 + 2) + 6 + 3),
        ("context", ("--rungs", "8,16"), 16),
    ],
)
def test_a_sound_server_is_found_so(tmp_path, name, options, requests):
    """All requests complete, all answers are right, planned and actual tokens agree, cold and warm are verified."""
    with simulator(preset="fast") as sim:
        done = ran_file(tmp_path, name, sim.url, *options)
    assert f"COMPLETED {requests}/{requests}" in done.output
    assert f"CORRECT {requests}/{requests}" in done.output
    assert not any(word in done.output for word in ("tokens_mismatch", "cache_unverified", "Traceback"))
    assert all(words in done.output for words in TABLES.get(name, ()))


@pytest.mark.parametrize(
    ("behaviour", "word", "codes"),
    [
        (("--wrong", "1"), "wrong", (1, 5)),
        (("--hedged", "1"), "hedged", (1, 5)),
        (("--refused", "1"), "refused", (1, 5)),
        (("--overthinking", "1"), "truncated", (1, 5)),
        (("--fault", "miscount:prompt=7,skip=2"), "tokens_mismatch", (5,)),
        (("--no-prefix-caching",), "cache_unverified", (5,)),
    ],
)
def test_a_server_that_misbehaves_is_found_out(tmp_path, behaviour, word, codes):
    """The right word in the headline, and an exit code that is no pass (5 where the busy client can't be believed either)."""
    with simulator(*behaviour, preset="fast") as sim:
        done = ran_file(tmp_path, "prefix", sim.url, "--long-max-tokens", "400")
    headline = next(line for line in done.output.splitlines() if line.startswith("COMPLETED"))
    assert word in done.output
    assert done.process.returncode in codes, headline


def test_hits_in_the_exports_are_those_of_all_requests(tmp_path):
    """Also in a run of a second or two, of which the sampler's last regular look sees only a part."""
    with simulator(preset="fast") as sim:
        done = ran_file(tmp_path, "prefix", sim.url, "--rungs", "2", "--long-max-tokens", "16")
    cached = sum(record.usage.cached_tokens for record in done.run.records)
    counted = [float(row["prefix_hit_tokens"]) for row in done.csv("sidecar") if row.get("prefix_hit_tokens")]
    assert counted[-1] - counted[0] == cached > 0
    assert float(done.csv("stats_history")[-1]["prefix_hit_tokens"]) == cached


def test_a_budget_that_would_be_clamped_ends_before_the_run(tmp_path):
    """vLLM 0.32 clamps in silence; loadkit says so and exits 2."""
    with simulator("--max-model-len", "600", preset="fast") as sim:
        done = ran_file(tmp_path, "ask", sim.url, "--scenario", "short", "--max-tokens", "560")
    assert "over the server's limit of 600" in done.output
    assert done.process.returncode == 2


def test_inputs_of_an_earlier_run_are_asked_again(tmp_path):
    """The same documents, byte for byte, in a folder that holds what was asked."""
    with simulator(preset="fast") as sim:
        first = ran_file(tmp_path / "one", "context", sim.url, "--rungs", "8", "--label", "one")
        second = ran_file(tmp_path / "two", "context", sim.url, "--inputs", str(first.folder), "--label", "two")

    def documents(run: Locust) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (run.folder / "inputs").glob("*.txt")}

    assert documents(first) == documents(second)
    assert first.run.manifest["plan"]["hash"] == second.run.manifest["plan"]["hash"]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ask", ("--scenario", "shrt"), "did you mean 'short'?"),
        ("context", ("--inputs", "nowhere"), "write the path of a folder that exists"),
        ("context", ("--inputs", "/"), "holds no context.json"),
        ("retrieval", ("--rungs", "0.5"), "--rungs"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(tmp_path, name, options, says):
    """Before the first request."""
    with simulator(preset="fast") as sim:
        done = ran_file(tmp_path, name, sim.url, *options)
    assert says in done.output
    assert "Traceback" not in done.output
    assert done.process.returncode == 2


def block(start: str) -> str:
    """The block of the page about checks that begins with `start`."""
    page = (ROOT / "docs" / "how-to" / "write-a-check.md").read_text(encoding="utf-8")
    return next(found for found in re.findall(r"```\w+\n(.*?)```", page, re.DOTALL) if found.startswith(start))


def test_the_locustfile_of_the_page_about_checks_runs_as_it_stands(tmp_path):
    """The simulator writes no poems of three lines, so its answers are judged wrong, by the page's own check."""
    (tmp_path / "poet.py").write_text(block("from loadkit.front"))
    (tmp_path / "my-scenarios").mkdir()
    (tmp_path / "my-scenarios" / "poems.yaml").write_text(block("name: poems"))
    options = ("--scenarios", str(tmp_path / "my-scenarios"), "--scenario", "poems")
    with simulator(preset="fast") as sim:
        done = ran(tmp_path, "--host", sim.url, *options, file=tmp_path / "poet.py")
    assert "COMPLETED 3/3" in done.output
    assert "lines, not 3" in done.output


def test_users_without_tasks_or_plan_are_refused(tmp_path):
    """Nothing would be asked, for ever."""
    (tmp_path / "idle.py").write_text("from loadkit.front import LLMUser\n\n\nclass Idle(LLMUser):\n    pass\n")
    with simulator(preset="fast") as sim:
        done = ran(tmp_path, "--host", sim.url, file=tmp_path / "idle.py")
    assert "loadkit: Idle: no tasks, and the locustfile has no PlanShape: nothing would be asked; add" in done.output
    assert done.process.returncode == 2
    assert not done.folders


@pytest.mark.parametrize(
    "method",
    ["def on_start(self):", "def idle(self, wait):"],
    ids=["before its task", "in its task"],
)
def test_a_user_of_the_plan_that_raises_ends_the_run(tmp_path, method):
    """Locust would go on without it, and the plan would wait for it for ever."""
    (tmp_path / "own.py").write_text(
        "from loadkit.front import LLMUser, PlanShape\nfrom loadkit.plan import sequence\n\n\n"
        f"class Own(LLMUser):\n    {method}\n        raise ValueError('no such table')\n\n\n"
        "class Shape(PlanShape):\n    def plan(self, job):\n        return sequence(job.cases(), name='own', asked={})\n"
    )
    with simulator(preset="fast") as sim:
        done = ran(tmp_path, "--host", sim.url, "--scenario", "short", file=tmp_path / "own.py")
    assert "loadkit: Own raised ValueError: no such table; its traceback is above" in done.output
    assert done.run.manifest["ended_reason"].startswith("a user of the plan failed: ")
    assert done.process.returncode == 3


def asked_with_check(tmp_path, body: str) -> Locust:
    """A run of two questions about a drawn number, each judged by a check of its own whose last lines are `body`."""
    (tmp_path / "own.py").write_text(
        "from loadkit.front import LLMUser, PlanShape\nfrom loadkit.plan import sequence\n\n\n"
        f"class Own(LLMUser):\n    def check(self, case, record):\n        {body}\n\n\n"
        "class Shape(PlanShape):\n    def plan(self, job):\n"
        '        return sequence(job.cases(), name="own", asked={"answers": True})\n'
    )
    (tmp_path / "own.yaml").write_text(
        "name: own\ncount: 2\nvariables: {n: {range: [12, 40]}, twice: {formula: 2 * n}}\n"
        "prompts: [{text: 'What is {n} times 2? Answer with the number alone.'}]\n"
    )
    with simulator(preset="fast") as sim:
        return ran(tmp_path, "--host", sim.url, "--scenarios", str(tmp_path), "--scenario", "own", file=tmp_path / "own.py")


def test_a_check_of_ones_own_knows_what_was_drawn(tmp_path):
    """The case carries its variables, so that no text has to be taken apart."""
    done = asked_with_check(tmp_path, 'return str(case.variables["twice"]) in record.answer')
    assert "CORRECT 2/2" in done.output


@pytest.mark.parametrize(
    ("body", "why"),
    [('return case.n["x"]', "AttributeError"), ("return 1.5", "1.5 is no opinion"), ("return 7, 'x'", "no opinion")],
)
def test_a_check_that_fails_leaves_its_answer_unverified(tmp_path, body, why):
    """The run goes on to its end, and says where the check failed; it used to wait for ever."""
    done = asked_with_check(tmp_path, body)
    assert "COMPLETED 2/2 · CORRECT 0/2 (2 unverified)" in done.output
    assert why in done.output
    assert done.process.returncode in (5, 6)


def test_a_scenario_without_checks_is_not_asked_for_right_answers(tmp_path):
    """It can pass, and the report says that nobody knows whether they are right."""
    (tmp_path / "plain.yaml").write_text("name: plain\nprompts: [{text: hi}]\n")
    with simulator(preset="fast") as sim:
        done = ran_file(tmp_path, "ask", sim.url, "--scenarios", str(tmp_path), "--scenario", "plain")
    assert "no check is declared" in done.output
    assert done.process.returncode in (0, 5)
    assert done.run.manifest["asked"]["answers"] is False
