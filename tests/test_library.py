"""The library as its users have it: names of `loadkit` against a simulator."""

import subprocess
import sys

import orjson
import pytest

from loadkit import Client, Closed, Outcome, Target, cases, chat, closed_loop, find_scenario, judge, requests_of, summary_of
from loadkit.checks import judge as judge_answer
from loadkit.errors import UsageError
from simulator_process import simulator

TARGET = Target(base_url="http://127.0.0.1:1/v1", model="m")


@pytest.fixture(scope="module")
def target():
    with simulator(preset="instant") as sim:
        yield Target(base_url=sim.base_url, model=sim.model)


def test_import_is_light():
    """No package that takes time or patches the process comes with `import loadkit`."""
    heavy = ["locust", "gevent", "openai", "httpx2", "pydantic", "numpy", "scipy", "yaml", "rich", "tiktoken"]
    code = f"import sys, loadkit; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error():
    """As in any module."""
    import loadkit

    with pytest.raises(AttributeError, match="frobnicate"):
        loadkit.frobnicate  # noqa: B018


def test_a_question_is_a_user_message():
    """Text becomes one message; further fields of the body stand beside it."""
    body = orjson.loads(chat("Hello", target=TARGET, max_tokens=9, temperature=0).body)
    assert body["messages"] == [{"role": "user", "content": "Hello"}]
    assert (body["max_tokens"], body["temperature"], body["stream"]) == (9, 0, True)


def test_messages_are_taken_as_they_are():
    """A conversation of one's own."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    assert orjson.loads(chat(messages, target=TARGET).body)["messages"] == messages


def test_two_questions_never_share_an_id_or_a_salt():
    """The same words asked twice are two cold requests."""
    one, two = chat("Hello", target=TARGET), chat("Hello", target=TARGET)
    assert one.id != two.id
    assert orjson.loads(one.body)["cache_salt"] != orjson.loads(two.body)["cache_salt"]


def test_what_a_server_does_not_know_is_left_out():
    """The dialect counts here as it does in a run."""
    plain = Target(base_url="http://127.0.0.1:1/v1", model="m", dialect="plain")
    assert "cache_salt" not in orjson.loads(chat("Hello", target=plain).body)


def test_requests_of_cases_differ_between_calls_and_repeat_by_run_id():
    """Salts are fresh, unless the run id says that it is the same run."""
    drawn = cases(find_scenario("short"))
    assert [r.body for r in requests_of(drawn, target=TARGET)] != [r.body for r in requests_of(drawn, target=TARGET)]
    again = [requests_of(drawn, target=TARGET, run_id="r") for _ in range(2)]
    assert again[0] == again[1]


async def test_a_loop_becomes_a_summary(target):
    """Records of a closed loop over cases, with verdicts on their answers: all right, and counted."""
    requests = requests_of(cases(find_scenario("short"), count=6), target=target)
    async with Client(target) as client:
        records = await closed_loop(client, Closed(requests=requests, users=3))
    specs = {request.id: request.checks for request in requests}
    verdicts = [judge_answer(record, spec) for record in records for spec in specs[record.id]]
    found = summary_of(records, verdicts=verdicts, slo=["failed=1%"], name="six")
    assert (found.whole.completed, found.whole.correct, len(found.whole.distribution("ttft"))) == (6, 6, 6)
    assert "COMPLETED 6/6 · CORRECT 6/6" in judge(found).headline


async def test_a_server_that_is_not_there_is_an_outcome(target):
    """No exception: the record says what happened, and the summary counts it."""
    async with Client(TARGET) as client:
        record = await client.send(chat("Hello", target=TARGET))
    assert (record.outcome, record.failure.kind) == (Outcome.CONNECTION, "refused")
    assert summary_of([record]).whole.failed == 1


def test_an_objective_that_is_none_is_a_usage_error():
    """Said before anything is computed."""
    with pytest.raises(UsageError):
        summary_of([], slo=["fast"])
