import hashlib
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from loadkit import scenario
from loadkit.case import DOCUMENT_MARK, Case, Turn
from loadkit.record import CaseFacts, Outcome, Phase, Record, Slot, ToolCall
from loadkit.request import Target, Timeouts, first_request, has_next, next_request, salt, wire_body

TARGET = Target(base_url="http://127.0.0.1:1/v1", model="m", api_key="sk-secret")
FACTS = CaseFacts(scenario="s", case="c", workload="quality", cache="cold")


def body_of(case: Case, *, target: Target = TARGET, **arguments):
    return orjson.loads(wire_body(first_request(case, id="q", target=target, slot=Slot(round=1), run_id="run", **arguments)))


def answer(**facts) -> Record:
    return Record(id="q", slot=Slot(), case=FACTS, due_ns=0, **{"outcome": Outcome.COMPLETED, **facts})


def test_a_body_has_what_the_method_asks_for():
    """Model, a salt, usage with running counts, template arguments; no top-level effort."""
    body = body_of(scenario.cases(scenario.find("short"))[0])
    assert (body["model"], body["stream"]) == ("m", True)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert len(body["cache_salt"]) == 32


def test_token_times_off_leaves_running_usage_out():
    """Both sides of a comparison then do without."""
    body = body_of(scenario.cases(scenario.find("short"))[0], token_times=False)
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("name", ["vllm", "sglang", "llama.cpp", "plain"])
def test_what_a_dialect_lacks_is_left_out(name):
    """A plain OpenAI server gets nothing that it could refuse."""
    case = scenario.cases(scenario.find("short"), scenario.Drawing(speed=True), count=1)[0]
    body = body_of(case, target=replace(TARGET, dialect=name))
    extensions = {"cache_salt", "chat_template_kwargs", "ignore_eos"} & set(body)
    assert {"vllm": 3, "sglang": 3, "llama.cpp": 2, "plain": 0}[name] == len(extensions)
    assert (name in ("vllm", "sglang")) == ("continuous_usage_stats" in body["stream_options"])


def test_a_document_is_spliced_in_as_json(tmp_path):
    """Quotes, newlines and Chinese survive, and the hash is that of the whole text in its place."""
    text = 'Line "one"\n第二行 \\ end\n'
    document = tmp_path / "d.txt"
    document.write_text(text, encoding="utf-8")
    turn = Turn(messages=({"role": "user", "content": f"{DOCUMENT_MARK}What is in line one?"},))
    body = body_of(Case(facts=FACTS, turns=(turn,), document=document))
    assert text + "What is in line one?" == body["messages"][0]["content"]


def test_a_salt_is_the_requests_own():
    """Any of run, case, round, way, attempt and phase makes another; the same place makes the same again."""
    case = Case(facts=FACTS, turns=(Turn(),))
    slots = [
        Slot(round=1, way=0),
        Slot(round=2, way=0),
        Slot(round=1, way=1),
        Slot(round=1, way=0, attempt=2),
        Slot(round=1, way=0, phase=Phase.WARMUP),
    ]
    salts = {salt(case, slot, "run") for slot in slots} | {salt(case, slots[0], "other run")}
    assert len(salts) == 6
    assert salt(case, slots[0], "run") == salt(case, Slot(round=1, way=0), "run")


def test_a_group_shares_a_salt_within_its_round():
    """First and repeated share; the next round is cold again."""
    first = Case(facts=FACTS, turns=(Turn(),), salt_group="doc-1/{round}")
    repeated = replace(first, facts=replace(FACTS, case="again"))
    assert salt(first, Slot(round=1), "run") == salt(repeated, Slot(round=1, way=3), "run")
    assert salt(first, Slot(round=1), "run") != salt(first, Slot(round=2), "run")


def test_the_policy_none_sends_no_salt():
    """Whatever the server has cached is then used."""
    case = Case(facts=replace(FACTS, cache="none"), turns=(Turn(messages=({"role": "user", "content": "x"},)),))
    assert "cache_salt" not in body_of(case)


def test_a_tool_result_answers_the_call_by_its_id():
    """The call goes back into the conversation, then the result; thinking does not."""
    case = scenario.cases(scenario.find("tools"))[2]
    called = answer(
        answer=None,
        reasoning="I should look",
        tool_calls=(ToolCall(index=0, id="call-7", name="get_weather", arguments='{"city": "Utrecht"}'),),
    )
    assert has_next(case, [called])
    request = next_request(case, [called], id="q2", target=TARGET, slot=Slot(round=1), run_id="run")
    messages = orjson.loads(request.body)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert "call-7" == messages[1]["tool_calls"][0]["id"] == messages[2]["tool_call_id"]
    assert "I should look" not in request.body.decode()
    assert (request.slot.turn, request.case.cache) == (1, "warm")


def test_a_conversation_grows_under_one_salt():
    """Each turn sends what was said before, and shares the cache with it."""
    case = scenario.cases(scenario.find("chat"))[0]
    requests = [first_request(case, id="q", target=TARGET, slot=Slot(round=1), run_id="run")]
    answers: list[Record] = []
    while len(answers) < len(case.turns) - 1:
        answers.append(answer(answer=f"answer {len(answers)}"))
        assert has_next(case, answers)
        requests.append(next_request(case, answers, id="q", target=TARGET, slot=Slot(round=1), run_id="run"))
    assert not has_next(case, [*answers, answer(answer="last")])
    assert len({request.case.cache_salt for request in requests}) == 1
    assert [len(orjson.loads(request.body)["messages"]) for request in requests] == [1, 3, 5, 7, 9]


def test_a_failed_turn_ends_a_conversation():
    """There is nothing to go on from."""
    case = scenario.cases(scenario.find("chat"))[0]
    assert not has_next(case, [answer(outcome=Outcome.STREAM_ERROR)])
    assert not has_next(scenario.cases(scenario.find("tools"))[2], [answer(answer="It is warm.")])


def test_the_first_token_limit_grows_with_the_prompt():
    """max(600 s, tokens / 300 per s)."""
    assert 600 == Timeouts.for_prompt(None).first_token_s == Timeouts.for_prompt(180_000).first_token_s
    assert Timeouts.for_prompt(262_144).first_token_s == 262_144 / 300


def test_the_key_is_never_shown():
    """Not in a traceback or a log of a target."""
    assert "sk-secret" not in repr(TARGET)


def test_bodies_are_the_same_bytes_each_time():
    """Hashes of bodies can be compared between runs of one id."""
    case = scenario.cases(scenario.find("tools"))[0]

    def digest() -> str:
        request = first_request(case, id="q", target=TARGET, slot=Slot(round=1), run_id="run")
        return hashlib.sha256(request.body).hexdigest()

    assert digest() == digest()


def test_a_missing_document_is_an_os_error():
    """The engine turns it into an outcome."""
    turn = Turn(messages=({"role": "user", "content": DOCUMENT_MARK},))
    case = Case(facts=FACTS, turns=(turn,), document=Path("/nowhere/d.txt"))
    with pytest.raises(OSError, match="nowhere"):
        wire_body(first_request(case, id="q", target=TARGET, slot=Slot(), run_id="run"))
