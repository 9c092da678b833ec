"""The shapes of vLLM 0.32's responses, over a socket."""

import itertools
from collections.abc import Iterator

import pytest

from simulator_process import Simulator, simulator

from .asking import HELLO, chat, get, post

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with simulator("--block-size", "16", "--dev-mode") as running:
        yield running


def test_a_stream_has_role_deltas_finish_usage_and_done(sim: Simulator):
    """The order of chunks is role, deltas, finish, usage, [DONE]."""
    answer = chat(sim, max_tokens=5)
    deltas = [chunk["choices"][0]["delta"] for chunk in answer.chunks[:-1]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert all(set(delta) == {"reasoning"} for delta in deltas[1:])
    assert answer.finish == ["length"]
    assert answer.chunks[-1]["choices"] == []
    assert answer.events[-1] == "[DONE]"


def test_running_usage_rises_to_the_final_one(sim: Simulator):
    """Each chunk carries the completion tokens so far, the last one the details of the prompt too."""
    answer = chat(sim, max_tokens=7)
    running = [chunk["usage"]["completion_tokens"] for chunk in answer.chunks]
    assert running == [0, 1, 2, 3, 4, 5, 6, 7, 7]
    assert answer.usage["prompt_tokens_details"]["cached_tokens"] >= 0
    assert answer.usage["total_tokens"] == answer.usage["prompt_tokens"] + 7


def test_no_usage_without_asking(sim: Simulator):
    """Without stream_options no chunk carries usage, and the finish chunk carries the fingerprint."""
    answer = chat(sim, max_tokens=3, stream_options=None)
    assert all("usage" not in chunk for chunk in answer.chunks)
    assert answer.chunks[-1]["system_fingerprint"].startswith("vllm-0.32.0-")


def test_running_usage_needs_include_usage(sim: Simulator):
    """continuous_usage_stats alone is ignored."""
    answer = chat(sim, max_tokens=3, stream_options={"continuous_usage_stats": True})
    assert all("usage" not in chunk for chunk in answer.chunks)


def test_thinking_comes_before_the_answer(sim: Simulator):
    """All reasoning deltas stand before all content deltas, and `</think>` is a token without a chunk."""
    answer = chat(sim, "What is 6 * 7? Answer with the number alone.", max_tokens=400)
    kinds = ["r" if chunk["choices"][0]["delta"].get("reasoning") else "a" for chunk in answer.chunks[1:-2]]
    assert "".join(kinds) == "r" * kinds.count("r") + "a" * kinds.count("a")
    assert answer.text() == "42"
    hidden = answer.usage["completion_tokens"] - len(kinds)
    assert hidden == 2  # </think> and the end of the sequence


def test_thinking_can_be_switched_off(sim: Simulator):
    """enable_thinking=false gives content only, and zero reasoning tokens."""
    answer = chat(sim, "What is 6 * 7? Answer with the number alone.", chat_template_kwargs={"enable_thinking": False})
    assert answer.text("reasoning") == ""
    assert answer.usage["completion_tokens_details"] == {"reasoning_tokens": 0}


def test_streamed_and_whole_answers_say_the_same(sim: Simulator):
    """The same question gives the same text, usage and finish_reason either way."""
    question = "What is 12 * 12? Explain in a sentence."
    streamed, whole = chat(sim, question, max_tokens=300), chat(sim, question, max_tokens=300, stream=False)
    message = whole.json["choices"][0]["message"]
    assert streamed.text() == message["content"]
    assert streamed.text("reasoning") == message["reasoning"]
    assert streamed.usage["completion_tokens"] == whole.json["usage"]["completion_tokens"]
    assert streamed.finish == [whole.json["choices"][0]["finish_reason"]] == ["stop"]


def test_ignore_eos_fills_the_budget(sim: Simulator):
    """With ignore_eos the output has exactly max_tokens tokens and ends with `length`."""
    answer = chat(sim, "Say hello.", max_tokens=777, ignore_eos=True)
    assert answer.usage["completion_tokens"] == 777
    assert answer.finish == ["length"]


def test_min_tokens_are_made(sim: Simulator):
    """The end of the sequence comes no earlier than min_tokens."""
    answer = chat(sim, "What is 2 + 2?", min_tokens=500, max_tokens=900)
    assert answer.usage["completion_tokens"] >= 500
    assert answer.finish == ["stop"]


def test_a_stop_string_ends_the_output_and_is_not_shown(sim: Simulator):
    """finish_reason is stop, stop_reason is the string, and neither it nor what follows is in the text."""
    answer = chat(
        sim, "What is 12 * 12? Explain.", stop=["= 1"], max_tokens=300, chat_template_kwargs={"enable_thinking": False}
    )
    finish = next(chunk["choices"][0] for chunk in answer.chunks if chunk["choices"] and chunk["choices"][0]["finish_reason"])
    assert (finish["finish_reason"], finish["stop_reason"]) == ("stop", "= 1")
    assert "= 1" not in answer.text()
    assert answer.text().startswith("12 * 12")


def test_stream_interval_batches_tokens(sim: Simulator):
    """The first chunk has one token, the middle ones four, the last what is left."""
    answer = chat(sim, max_tokens=12, ignore_eos=True, stream_interval=4)
    running = [chunk["usage"]["completion_tokens"] for chunk in answer.chunks[:-1]]
    assert running == [0, 1, 5, 9, 12]


def test_token_ids_and_prompt_text(sim: Simulator):
    """return_token_ids gives the prompt's ids once and each chunk's ids, hidden tokens included."""
    answer = chat(sim, "What is 1 + 1?", max_tokens=300, return_token_ids=True, return_prompt_text=True)
    assert len(answer.chunks[0]["prompt_token_ids"]) == answer.usage["prompt_tokens"]
    assert answer.chunks[0]["prompt_text"].startswith("<|im_start|>user\nWhat is 1 + 1?<|im_end|>")
    ids = [token for chunk in answer.chunks[1:-1] for token in chunk["choices"][0]["token_ids"]]
    assert len(ids) == answer.usage["completion_tokens"]


def test_several_choices(sim: Simulator):
    """n=2 gives two role chunks, two finishes, and usage as the sum."""
    answer = chat(sim, max_tokens=3, n=2, temperature=1)
    assert [chunk["choices"][0]["index"] for chunk in answer.chunks[:2]] == [0, 1]
    assert answer.finish == ["length", "length"]
    assert answer.usage["completion_tokens"] == 6


@pytest.mark.parametrize(
    ("choice", "finish"),
    [("required", "tool_calls"), ("auto", "tool_calls"), ({"type": "function", "function": {"name": "get_weather"}}, "stop")],
)
def test_tool_calls(sim: Simulator, choice: object, finish: str):
    """Name and id come once, arguments follow in pieces; a named tool ends with `stop`, the others with `tool_calls`."""
    answer = chat(sim, "What is the weather in Lisbon right now?", tools=[WEATHER], tool_choice=choice, max_tokens=500)
    calls = [call for chunk in answer.chunks if chunk["choices"] for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert calls[0]["function"] == {"name": "get_weather"}
    assert calls[0]["id"].startswith("chatcmpl-tool-")
    assert "".join(call["function"]["arguments"] for call in calls[1:]) == '{"city":"Lisbon"}'
    assert answer.finish == [finish]


def test_no_tool_is_called_where_none_may_be(sim: Simulator):
    """tool_choice none gives text."""
    answer = chat(sim, "What is the weather in Lisbon?", tools=[WEATHER], tool_choice="none", max_tokens=500)
    assert answer.text() != ""
    assert answer.finish == ["stop"]


def test_a_budget_that_ends_inside_a_call(sim: Simulator):
    """Streamed: partial arguments and `length`; whole: the raw text of the call, no tool_calls (as vLLM 0.32 does)."""
    fields = {
        "tools": [WEATHER], "tool_choice": "required", "max_tokens": 18, "chat_template_kwargs": {"enable_thinking": False},
    }  # fmt: skip
    streamed = chat(sim, "What is the weather in Thessaloniki?", **fields)
    whole = chat(sim, "What is the weather in Thessaloniki?", stream=False, **fields).json["choices"][0]
    assert streamed.finish == ["length"] == [whole["finish_reason"]]
    assert whole["message"]["content"].startswith('<tool_call>\n{"name": "get_weather", "arguments": {')
    assert "tool_calls" not in whole["message"]


def test_usage_equals_tokenize(sim: Simulator):
    """prompt_tokens is what /tokenize counts for the same messages and template arguments."""
    arguments = {"reasoning_effort": "low", "enable_thinking": True}
    counted = post(sim, "/tokenize", {"messages": HELLO, "chat_template_kwargs": arguments}).json
    answer = chat(sim, HELLO, max_tokens=1, chat_template_kwargs=arguments)
    assert counted["count"] == len(counted["tokens"]) == answer.usage["prompt_tokens"]


def test_the_template_trap(sim: Simulator):
    """A top-level reasoning_effort changes the prompt of a chat, and /tokenize ignores it."""
    plain = post(sim, "/tokenize", {"messages": HELLO}).json["count"]
    ignored = post(sim, "/tokenize", {"messages": HELLO, "reasoning_effort": "low"}).json["count"]
    chatted = chat(sim, HELLO, max_tokens=1, reasoning_effort="low").usage["prompt_tokens"]
    assert plain == ignored < chatted


def test_cache_hits_follow_the_formula(sim: Simulator):
    """A repeated prompt hits floor((prompt − 1) / block) blocks; another salt hits nothing."""
    text = "A long story about a lighthouse. " * 40
    cold = chat(sim, text, max_tokens=1, cache_salt="one").usage
    warm = chat(sim, text, max_tokens=1, cache_salt="one").usage
    other = chat(sim, text, max_tokens=1, cache_salt="two").usage
    expected = (cold["prompt_tokens"] - 1) // 16 * 16
    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in (cold, warm, other)] == [0, expected, 0]
    assert cold["prompt_tokens_details"]["created_cache_tokens"] == cold["prompt_tokens"] // 16 * 16


def test_the_cache_can_be_reset(sim: Simulator):
    """After /reset_prefix_cache the same prompt is cold again."""
    text = "Another long story about a bridge. " * 40
    chat(sim, text, max_tokens=1)
    assert post(sim, "/reset_prefix_cache", b"").json == {"success": True}
    assert chat(sim, text, max_tokens=1).usage["prompt_tokens_details"]["cached_tokens"] == 0


def test_the_request_id_becomes_the_response_id(sim: Simulator):
    """X-Request-Id wins over the body's request_id."""
    body = {"messages": HELLO, "max_tokens": 1, "request_id": "from-body"}
    assert post(sim, "/v1/chat/completions", body).json["id"] == "chatcmpl-from-body"
    assert post(sim, "/v1/chat/completions", body, X_Request_Id="from-header").json["id"] == "chatcmpl-from-header"


def test_text_completions(sim: Simulator):
    """POST /v1/completions has text chunks, no role chunk, and usage with cached_tokens only."""
    body = {
        "prompt": "Once upon a time", "max_tokens": 4, "stream": True, "ignore_eos": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    answer = post(sim, "/v1/completions", body)
    assert [set(chunk["choices"][0]) for chunk in answer.chunks[:-1]] == [
        {"index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids", "token_ids"}
    ] * 4
    assert set(answer.usage["prompt_tokens_details"]) == {"cached_tokens"}


@pytest.mark.parametrize("path", ["/health", "/ping", "/version", "/load", "/v1/models", "/metrics"])
def test_plain_routes_answer(sim: Simulator, path: str):
    """The routes that clients and monitors ask are there."""
    assert get(sim, path).status == 200


def test_temperature_zero_is_repeatable(sim: Simulator):
    """At temperature 0 the same request has the same output; another seed thinks differently."""
    texts = [chat(sim, "Tell me about the sea.", seed=seed, max_tokens=200).text("reasoning") for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_speculative_decoding_puts_several_tokens_into_a_chunk():
    """With two drafts a chunk has one to three tokens, and their sum is the usage."""
    with simulator("--drafts", "2", "--acceptance", "0.7") as sim:
        answer = chat(sim, max_tokens=200, ignore_eos=True)
    running = [chunk["usage"]["completion_tokens"] for chunk in answer.chunks[:-1]]
    steps = {after - before for before, after in itertools.pairwise(running)}
    assert steps == {1, 2, 3}
    assert running[1] == 1
    assert running[-1] == 200


def test_keep_alive_comments_fill_the_silence():
    """With --sse-keep-alive-interval a comment goes out before the first data of a slow request."""
    with simulator("--sse-keep-alive-interval", "0.1", preset="fast") as sim:
        answer = chat(sim, "word " * 10_000, max_tokens=1)
    assert answer.body.startswith(b": keep-alive\n\n")
