"""The client against a real vLLM: what it records is what the server counted."""

import asyncio
import urllib.request
from collections.abc import Callable

import orjson
import pytest

from conftest import SPECULATIVE
from loadkit.client import Client
from loadkit.record import ErrorPhase, Outcome, Record, Slot
from loadkit.request import Request, Target
from wire_servers import FACTS

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(800)]


def model_of(url: str) -> str:
    with urllib.request.urlopen(f"{url}/v1/models", timeout=10) as answer:
        return orjson.loads(answer.read())["data"][0]["id"]


def generated(url: str) -> float:
    """The server's own count of tokens."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:generation_tokens_total"))


def ask(url: str, id: str = "r-1", *, stream: bool = True, path: str = "/chat/completions", **fields: object) -> Request:  # noqa: A002
    body = {"model": model_of(url), "stream": stream, "temperature": 0, "max_tokens": 24, "ignore_eos": True, **fields}
    if path == "/chat/completions":
        body.setdefault("messages", [{"role": "user", "content": f"Count to a hundred. {id}"}])
    if stream:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    return Request(id=id, slot=Slot(), case=FACTS, body=orjson.dumps(body), stream=stream, path=path)


async def sent(url: str, *requests: Request) -> list[Record]:
    async with Client(Target(base_url=f"{url}/v1", model=model_of(url))) as client:
        return list(await asyncio.gather(*(client.send(request) for request in requests)))


async def test_counts_are_those_of_the_server(vllm_server: Callable[..., str]):
    """Usage, tokens per event and the server's counter agree, over several streams at once."""
    url = vllm_server()
    before = generated(url)
    records = await sent(url, *(ask(url, f"r-{number}") for number in range(4)))
    assert {record.outcome for record in records} == {Outcome.COMPLETED}
    assert [record.usage.completion_tokens for record in records] == [24] * 4
    assert generated(url) - before == 96
    for record in records:
        assert 0 < sum(record.events.tokens) <= 24
        assert record.stamp_source == "kernel"
        assert record.sent_ns < record.headers_ns <= record.events.at_ns[0] <= record.end_ns <= record.closed_ns
        assert record.response_id == f"chatcmpl-{record.id}"
        assert record.system_fingerprint.startswith("vllm-")


@pytest.mark.vllm(*SPECULATIVE)
async def test_speculative_decoding_gives_several_tokens_per_event(vllm_server: Callable[..., str]):
    """Chunks are fewer than tokens; the running usage knows how many each brought."""
    url = vllm_server(*SPECULATIVE)
    (record,) = await sent(url, ask(url, max_tokens=120))
    assert record.usage.completion_tokens == 120
    assert len(record.events.tokens) < 120
    assert sum(record.events.tokens) <= 120
    assert max(record.events.tokens) > 1


async def test_thinking_and_answers_are_told_apart(vllm_server: Callable[..., str]):
    """With thinking off all is answer; the parser takes all for thinking otherwise (a random model never ends it)."""
    url = vllm_server()
    off = ask(url, chat_template_kwargs={"enable_thinking": False})
    on = ask(url, chat_template_kwargs={"enable_thinking": True})
    answered, thought = await sent(url, off, on)
    assert (set(answered.events.kinds), answered.reasoning) == ({"a"}, None)
    assert (set(thought.events.kinds), thought.answer) == ({"r"}, None)
    assert thought.usage.reasoning_tokens > 0


async def test_a_required_tool_call_is_assembled(vllm_server: Callable[..., str]):
    """Name once, arguments in pieces, and the events are of kind tool."""
    url = vllm_server()
    parameters = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Berlin"]}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": parameters}}
    request = ask(
        url,
        tools=[tool],
        tool_choice="required",
        max_tokens=200,
        ignore_eos=False,
        chat_template_kwargs={"enable_thinking": False},
    )
    (record,) = await sent(url, request)
    assert record.outcome is Outcome.COMPLETED
    assert (record.tool_calls[0].name, set(record.events.kinds)) == ("get_weather", {"t"})
    if record.finish_reason != "length":
        assert orjson.loads(record.tool_calls[0].arguments) == {"city": "Berlin"}


async def test_other_ways_to_answer(vllm_server: Callable[..., str]):
    """In one piece, and by /v1/completions."""
    url = vllm_server()
    whole, text = await sent(
        url,
        ask(url, stream=False, chat_template_kwargs={"enable_thinking": False}),
        ask(url, "r-2", path="/completions", prompt="Count to a hundred."),
    )
    assert (whole.outcome, whole.events.at_ns, whole.usage.completion_tokens) == (Outcome.COMPLETED, (), 24)
    assert (text.outcome, sum(text.events.tokens) <= 24, text.usage.completion_tokens) == (Outcome.COMPLETED, True, 24)
    assert set(text.events.kinds) == {"a"}


async def test_refusals_are_outcomes(vllm_server: Callable[..., str]):
    """Unknown model, impossible length: the status and the server's words."""
    url = vllm_server()
    unknown, long = await sent(url, ask(url, model="nobody"), ask(url, max_tokens=10_000_000))
    assert (unknown.outcome, unknown.failure.kind) == (Outcome.HTTP_ERROR, "404")
    assert (long.outcome, long.failure.kind) == (Outcome.HTTP_ERROR, "400")
    assert "max_tokens" in long.failure.message


async def test_cancelling_frees_the_server(vllm_server: Callable[..., str]):
    """The request is gone from the server's running ones soon after."""
    url = vllm_server()

    def running() -> float:
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running"))

    async with Client(Target(base_url=f"{url}/v1", model=model_of(url))) as client:
        task = asyncio.ensure_future(client.attempt(ask(url, max_tokens=50_000)))
        while await asyncio.to_thread(running) < 1:
            await asyncio.sleep(0.05)
        task.cancel()
        record = await task
        assert (record.outcome, record.failure.phase in (ErrorPhase.FIRST_TOKEN, ErrorPhase.STREAM)) == (
            Outcome.CANCELLED,
            True,
        )
        async with asyncio.timeout(60):
            while await asyncio.to_thread(running) > 0:
                await asyncio.sleep(0.1)
