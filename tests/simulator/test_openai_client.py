"""The plain OpenAI client against the simulator: typed objects, streams, tools and errors, without complaint."""

import warnings
from collections.abc import Iterator

import openai
import pytest

from simulator_process import Simulator, simulator

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with simulator() as running:
        yield running


@pytest.fixture
def client(sim: Simulator) -> Iterator[openai.OpenAI]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with openai.OpenAI(base_url=sim.base_url, api_key="none", max_retries=0) as opened:
            yield opened


def test_models(client: openai.OpenAI, sim: Simulator):
    """The model that is served is listed."""
    assert [model.id for model in client.models.list()] == [sim.model]


def test_an_answer(client: openai.OpenAI, sim: Simulator):
    """A whole answer is right, and has usage."""
    question = "What is 17 * 23? Answer with the number alone."
    answer = client.chat.completions.create(model=sim.model, messages=[{"role": "user", "content": question}])
    assert answer.choices[0].message.content == "391"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream(client: openai.OpenAI, sim: Simulator):
    """A stream's deltas make the same answer; the last chunk has the usage."""
    stream = client.chat.completions.create(
        model=sim.model, messages=[{"role": "user", "content": "What is 12 + 30? Answer with the number alone."}],
        stream=True, stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "42"
    assert chunks[-1].usage is not None


def test_a_tool_call(client: openai.OpenAI, sim: Simulator):
    """A typed tool call with arguments from the text."""
    answer = client.chat.completions.create(
        model=sim.model, messages=[{"role": "user", "content": "What is the weather in Lisbon?"}], tools=[TOOL],  # type: ignore[list-item]
    )  # fmt: skip
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.arguments == '{"city":"Lisbon"}'  # type: ignore[union-attr]


def test_text_completion(client: openai.OpenAI, sim: Simulator):
    """The older completions route, too."""
    answer = client.completions.create(
        model=sim.model, prompt="Once upon a time", max_tokens=5, extra_body={"ignore_eos": True}
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


def test_an_error(client: openai.OpenAI):
    """A wrong model is the SDK's NotFoundError, with vLLM's message."""
    with pytest.raises(openai.NotFoundError, match="The model `nope` does not exist"):
        client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "hi"}])
