"""Refusals with the bodies that a real vLLM 0.32.0 gave (recorded word for word)."""

from collections.abc import Iterator
from typing import Any

import pytest
from simulator_process import Simulator, simulator

from .asking import HELLO, chat, get, post, request

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
RECORDED: list[tuple[dict[str, Any], int, str, str, str | None]] = [
    ({"model": "x"}, 404, "The model `x` does not exist. Valid aliases: qwen-tiny.", "NotFoundError", "model"),
    ({"messages": []}, 400, "Cannot apply chat template to an empty conversation. Provide at least one message.", "BadRequestError", None),
    ({"max_tokens": 0}, 400, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "BadRequestError", "max_tokens"),
    ({"max_tokens": -1}, 400, "max_tokens must be at least 1, got -1. (parameter=max_tokens, value=-1)", "BadRequestError", "max_tokens"),
    ({"max_tokens": 200000}, 400, "max_tokens=200000 cannot be greater than max_model_len=131072. Please request fewer output tokens. (parameter=max_tokens, value=200000)", "BadRequestError", "max_tokens"),
    ({"temperature": -1}, 400, "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)", "BadRequestError", "temperature"),
    ({"top_p": 2}, 400, "top_p must be in (0, 1], got 2.0. (parameter=top_p, value=2.0)", "BadRequestError", "top_p"),
    ({"max_tokens": 2, "min_tokens": 3}, 400, "min_tokens must be less than or equal to max_tokens=2, got 3.", "BadRequestError", None),
    ({"cache_salt": ""}, 400, "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)", "BadRequestError", "cache_salt"),
    ({"stream": False, "stream_options": {"include_usage": True}}, 400, "Stream options can only be defined when `stream=True`. (parameter=stream_options)", "BadRequestError", "stream_options"),
    ({"tool_choice": "required"}, 400, "When using `tool_choice`, `tools` must be set. (parameter=tool_choice)", "BadRequestError", "tool_choice"),
    ({"tools": []}, 400, "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely. (parameter=tools)", "BadRequestError", "tools"),
    ({"tools": [TOOL], "tool_choice": "foo"}, 400, 'Invalid value for `tool_choice`: foo! Only named tools, "none", "auto" or "required" are supported. (parameter=tool_choice)', "BadRequestError", "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "zzz"}}}, 400, "The tool specified in `tool_choice` does not match any of the specified `tools` (parameter=tool_choice)", "BadRequestError", "tool_choice"),
    ({"reasoning_effort": "huge"}, 400, "1 validation error:\n  {'type': 'literal_error', 'loc': 'body.reasoning_effort', 'msg': \"Input should be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'\", 'input': 'huge', 'ctx': {'expected': \"'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'\"}}", "Bad Request", "body.reasoning_effort"),
    ({"messages": "hi"}, 400, "1 validation error:\n  {'type': 'list_type', 'loc': 'body.messages', 'msg': 'Input should be a valid list', 'input': 'hi'}", "Bad Request", "body.messages"),
    ({"max_tokens": "abc"}, 400, "1 validation error:\n  {'type': 'int_parsing', 'loc': 'body.max_tokens', 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'abc'}", "Bad Request", "body.max_tokens"),
    ({"n": 0}, 400, "n must be at least 1, got 0.", "BadRequestError", None),
    ({"seed": "x"}, 400, "1 validation error:\n  {'type': 'int_parsing', 'loc': 'body.seed', 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'x'}", "Bad Request", "body.seed"),
    ({"top_logprobs": 3}, 400, "when using `top_logprobs`, `logprobs` must be set to true. (parameter=top_logprobs)", "BadRequestError", "top_logprobs"),
    ({"stream_interval": 0}, 400, "1 validation error:\n  {'type': 'greater_than_equal', 'loc': 'body.stream_interval', 'msg': 'Input should be greater than or equal to 1', 'input': '0', 'ctx': {'ge': 1}}", "Bad Request", "body.stream_interval"),
    ({"messages": [{"role": "user", "content": "word " * 140_000}]}, 400, "This model's maximum context length is 131072 tokens. However, your prompt contains at least 131073 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=131073)", "BadRequestError", "input_tokens"),
]  # fmt: skip  # noqa: E501


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with simulator("--model", "qwen-tiny") as running:
        yield running


@pytest.mark.parametrize(("fields", "status", "message", "kind", "param"), RECORDED, ids=lambda value: str(value)[:30])
def test_refusals_are_worded_as_recorded(
    sim: Simulator, fields: dict[str, Any], status: int, message: str, kind: str, param: str | None
):
    """Status and body are those of the real server."""
    answer = post(sim, "/v1/chat/completions", {"model": "qwen-tiny", "messages": HELLO, **fields})
    expected = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    assert (answer.status, answer.json) == (status, expected)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{bad", "1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.1', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting property name enclosed in double quotes'}}"),
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
