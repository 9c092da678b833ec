"""Refusals with the bodies that a real vLLM 0.32.0 gave (recorded word for word)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator_process import Simulator, simulator

from .asking import HELLO, chat, get, post, request

RECORDED = json.loads((Path(__file__).parents[1] / "fixtures" / "vllm" / "refusals-0.32.0.json").read_text())


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with simulator("--model", "qwen-tiny") as running:
        yield running


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["fields"])[:40])
def test_refusals_are_worded_as_recorded(sim: Simulator, recorded: dict[str, Any]):
    """Status and body are those of the real server."""
    fields = recorded["fields"]
    if "words" in fields:
        fields = {"messages": [{"role": "user", "content": "word " * fields["words"]}]}
    answer = post(sim, "/v1/chat/completions", {"model": "qwen-tiny", "messages": HELLO, **fields})
    error = {"message": recorded["message"], "type": recorded["type"], "param": recorded["param"], "code": recorded["status"]}
    assert (answer.status, answer.json) == (recorded["status"], {"error": error})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            b"{bad",
            "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.1', 'msg': 'JSON decode error', "
            "'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting property name enclosed in double quotes'}}",
        ),
        (b"", "1 validation error:\n  {'type': 'missing', 'loc': 'body', 'msg': 'Field required', 'input': 'None'}"),
    ],
)  # fmt: skip
def test_bodies_that_are_no_json(sim: Simulator, raw: bytes, message: str):
    """A body that is no JSON is refused with the place of the mistake."""
    assert post(sim, "/v1/chat/completions", raw).json["error"]["message"] == message


def test_other_media_types_are_refused(sim: Simulator):
    """Only application/json is taken."""
    answer = request(sim, "POST", "/v1/chat/completions", b"{}", {"Content-Type": "text/plain"})
    expected = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    assert (answer.status, answer.json["error"]["message"]) == (400, expected)


def test_unknown_routes_and_methods(sim: Simulator):
    """404 and 405 with FastAPI's bodies, 403 for the scale-out route."""
    assert (get(sim, "/nope").status, get(sim, "/nope").json) == (404, {"detail": "Not Found"})
    wrong = get(sim, "/v1/chat/completions")
    assert (wrong.status, wrong.json, wrong.headers["allow"]) == (405, {"detail": "Method Not Allowed"}, "POST")
    assert post(sim, "/v1/chat/completions/render", {"messages": HELLO}).status == 403
    assert post(sim, "/reset_prefix_cache", b"").status == 404  # only in dev mode


def test_unknown_fields_are_ignored(sim: Simulator):
    """A typo in a field's name is no error, as with the real server."""
    assert chat(sim, max_tokens=1, guided_jsonn="x", temperatur=3).status == 200


def test_max_tokens_is_clamped_in_silence():
    """A prompt that fits with a budget that does not gets what is left; with the switch it is refused, as up to 0.29."""
    with simulator("--max-model-len", "60") as sim:
        answer = chat(sim, max_tokens=55, ignore_eos=True)
        assert answer.usage["total_tokens"] == 60
    with simulator("--max-model-len", "60", "--no-clamp-max-tokens") as sim:
        assert "maximum context length is 60 tokens" in chat(sim, max_tokens=55).json["error"]["message"]


def test_the_key_is_asked_for():
    """With a key only /v1 is guarded, and the body is a plain string, as vLLM's."""
    with simulator("--api-key", "open") as sim:
        refused = get(sim, "/v1/models")
        assert (refused.status, refused.json) == (401, {"error": "Unauthorized"})
        assert get(sim, "/v1/models", Authorization="Bearer open").status == 200
        assert get(sim, "/health").status == 200


def test_a_path_prefix():
    """With --root-path every route is found below it."""
    with simulator("--root-path", "/proxy/llm") as sim:
        assert sim.url.endswith("/proxy/llm")
        assert get(sim, "/v1/models").status == 200


def test_the_queue_limit_rejects_with_503():
    """Waiting and running requests over the limit get 503, counted in admission_rejections."""
    from concurrent.futures import ThreadPoolExecutor

    from .asking import metrics

    with simulator("--max-num-queued-reqs", "2", preset="fast") as sim:
        with ThreadPoolExecutor(5) as pool:
            answers = list(pool.map(lambda _: chat(sim, max_tokens=40, ignore_eos=True), range(5)))
        rejected = [answer for answer in answers if answer.status == 503]
        assert len(rejected) == 3
        assert rejected[0].json["error"]["type"] == "Service Unavailable"
        assert metrics(sim)["vllm:admission_rejections_total{reason=max_num_queued_reqs}"] == 3
