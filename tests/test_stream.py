"""The stream decoder against the wire shapes of vLLM, SGLang, llama.cpp and OpenAI."""

# ruff: noqa: E501 - a wire shape is read in one line

import hashlib
from itertools import pairwise

import hypothesis.strategies as st
import orjson
import pytest
from hypothesis import given, settings

from loadkit.record import ToolCall, Usage
from loadkit.stream import DONE, Decoder, Done, Event, Finished, Problem, Token
from wire_servers import DONE as DONE_LINE
from wire_servers import ROLE, delta, event, usage_event

TEXTS = st.text(max_size=6)
CHUNKS = st.one_of(
    st.builds(lambda text: delta(content=text), TEXTS),
    st.builds(lambda text: delta(reasoning=text), TEXTS),
    st.builds(lambda text, n: delta(content=text, usage={"completion_tokens": n}), TEXTS, st.integers(0, 9)),
    st.builds(lambda text: delta(reasoning=text, reasoning_content=text, content=None), TEXTS),
    st.builds(lambda i, text: delta(tool_calls=[{"index": i, "function": {"arguments": text}}]), st.integers(0, 2), TEXTS),
    st.sampled_from(
        [
            ROLE,
            delta(),
            delta(finish="stop"),
            usage_event(3, 4),
            DONE_LINE,
            b": keep-alive\n\n",
            event(error="boom"),
            b"data: {\n\n",
        ]
    ),
)


def played(*events: bytes) -> tuple[list[Event], Decoder]:
    decoder = Decoder()
    found = decoder.feed(b"".join(events)) + decoder.close()
    return found, decoder


def facts(decoder: Decoder) -> tuple[object, ...]:
    return (
        decoder.answer(), decoder.reasoning(), decoder.tool_calls(), decoder.usage, decoder.finish_reason, decoder.response_id,
        decoder.system_fingerprint, decoder.server_metrics, decoder.answer_sha256(),
    )  # fmt: skip


@settings(max_examples=300)
@given(st.lists(CHUNKS, max_size=12), st.lists(st.integers(0, 100_000), max_size=10))
def test_what_comes_out_does_not_depend_on_the_cuts(chunks: list[bytes], cuts: list[int]):
    """Events, texts and counts are the same however the bytes are cut, also inside a character."""
    stream = b"".join(chunks)
    marks = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    pieces = Decoder()
    found = [one for a, b in pairwise(marks) for one in pieces.feed(stream[a:b])] + pieces.close()
    expected, at_once = played(stream)
    assert (expected, facts(at_once)) == (found, facts(pieces))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["choices", "delta", "index", "content", "reasoning", "reasoning_content", "tool_calls", "function", "arguments", "name",
         "id", "usage", "completion_tokens", "prompt_tokens_details", "cached_tokens", "finish_reason", "error", "message", "text",
         "refusal", "object", "metrics", "system_fingerprint"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
DELTAS = st.dictionaries(
    st.sampled_from(["content", "reasoning", "reasoning_content", "refusal", "role", "tool_calls"]), TEXTS | JSON
)
SHAPED = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries({"delta": DELTAS | JSON}, optional={"index": JSON, "finish_reason": JSON}), max_size=2
        )
    },
    optional={
        "usage": st.fixed_dictionaries({"completion_tokens": st.integers(0, 9) | JSON}) | JSON,
        "error": JSON,
        "id": JSON,
    },
)


@settings(max_examples=400)
@given(st.lists(SHAPED | JSON, max_size=4))
def test_the_short_way_gives_what_the_whole_way_gives(chunks: list[object]):
    """For any JSON whatever, plain text chunks are taken as the general decoding takes them, and nothing raises."""
    short, whole = Decoder(), Decoder()
    found: list[Event] = []
    expected: list[Event] = []
    for chunk in [{"id": "x", "choices": []}, *chunks]:
        if not short._plain_text(chunk, orjson.dumps(chunk), found):
            short._chunk(chunk, b"", found)
        whole._chunk(chunk, b"", expected)
    assert (expected, facts(whole)) == (found, facts(short))


def test_a_role_chunk_an_empty_delta_and_the_usage_chunk_are_no_tokens():
    """Only text, thinking and tool deltas are events."""
    found, _ = played(ROLE, delta(), delta(content=""), usage_event(1, 1), b": keep-alive\n\n", DONE_LINE)
    assert found == [DONE]


def test_the_last_token_may_carry_the_finish_reason():
    """Token first, then the end, from one chunk."""
    found, decoder = played(delta(content="a"), delta(finish="length", content="b"), DONE_LINE)
    assert (found, decoder.answer()) == ([Token("a", None), Token("a", None), Finished("length"), Done()], "ab")


@pytest.mark.parametrize(
    "fields", [{"reasoning": "x"}, {"reasoning_content": "x"}, {"reasoning": "x", "reasoning_content": "x"}]
)
def test_thinking_is_read_from_either_field_and_never_added_up(fields: dict[str, str]):
    """vLLM 0.12 to 0.15 sent the same thought in both."""
    found, decoder = played(delta(**fields), delta(**fields))
    assert (found, decoder.reasoning(), decoder.answer()) == ([Token("r", None)] * 2, "xx", None)


def test_running_usage_gives_the_tokens_of_each_event():
    """k is the rise of completion_tokens; hidden ones (here `</think>`) go to the next event that can be seen."""
    found, decoder = played(
        delta(usage={"completion_tokens": 0}, role="assistant", content=""),
        delta(usage={"completion_tokens": 1}, reasoning="a"),
        delta(usage={"completion_tokens": 2}),
        delta(usage={"completion_tokens": 5}, content="b"),
        delta(usage={"completion_tokens": 6}, finish="stop"),
        usage_event(9, 6, prompt_tokens_details={"cached_tokens": 8}, completion_tokens_details={"reasoning_tokens": 1}),
    )
    assert found == [Token("r", 1), Token("a", 4), Finished("stop")]
    assert decoder.usage == Usage(prompt_tokens=9, completion_tokens=6, reasoning_tokens=1, cached_tokens=8)


def test_usage_that_is_absent_is_unknown_and_never_zero():
    """No usage at all, and details that a server leaves out or sets to null."""
    assert played(delta(content="a"))[1].usage == Usage()
    assert played(usage_event(3, 2, prompt_tokens_details=None))[1].usage == Usage(prompt_tokens=3, completion_tokens=2)


def test_tool_calls_are_assembled_by_index():
    """Name and id once, arguments in pieces, calls interleaved (vLLM's hermes parser)."""
    found, decoder = played(
        delta(content=None, tool_calls=[{"id": "c0", "type": "function", "index": 0, "function": {"name": "f"}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a'}}]),
        delta(tool_calls=[{"id": "c1", "index": 1, "function": {"name": "g", "arguments": ""}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '":1}'}}, {"index": 1, "function": {"arguments": "{}"}}]),
        delta(finish="tool_calls"),
    )
    assert [one.kind for one in found if isinstance(one, Token)] == ["t"] * 4
    assert decoder.tool_calls() == (
        ToolCall(index=0, id="c0", name="f", arguments='{"a":1}'),
        ToolCall(index=1, id="c1", name="g", arguments="{}"),
    )


def test_tool_calls_without_an_index_follow_their_ids():
    """A new id is a new call; deltas without one go to the last."""
    _, decoder = played(
        delta(tool_calls=[{"id": "a", "function": {"name": "f", "arguments": "1"}}]),
        delta(tool_calls=[{"function": {"arguments": "2"}}]),
        delta(tool_calls=[{"id": "b", "function": {"name": "g", "arguments": "3"}}]),
    )
    assert [(call.id, call.arguments) for call in decoder.tool_calls()] == [("a", "12"), ("b", "3")]


@pytest.mark.parametrize(
    "error", [{"message": "EngineCore encountered an issue", "code": 500}, "EngineCore encountered an issue", {"detail": 1}]
)
def test_an_error_after_http_200_is_a_problem(error: object):
    """As an object or a string, and although `[DONE]` follows."""
    found, _ = played(delta(content="a"), event(error=error), DONE_LINE)
    assert [type(one) for one in found] == [Token, Problem, Done]
    assert found[1].kind == "error_object"


def test_error_null_is_no_error():
    """Some servers send the key in every chunk."""
    assert played(event(error=None, choices=[{"delta": {"content": "a"}}]))[0] == [Token("a", None)]


@pytest.mark.parametrize(
    "data", [b"data: {broken\n\n", b"data: [1]\n\n", b'data: {"choices":[7]}\n\n', b'data: {"usage":3}\n\n']
)
def test_what_is_no_chunk_is_malformed(data: bytes):
    """A payload that can't be read is said, not skipped."""
    assert [one.kind for one in played(data)[0]] == ["malformed"]


def test_json_that_only_python_accepts_is_read():
    """NaN in logprobs and lone surrogates come from servers that use json.dumps; text stays valid UTF-8."""
    found, decoder = played(b'data: {"choices":[{"delta":{"content":"a\\ud83d"},"logprobs":NaN}]}\n\n')
    assert (found, decoder.answer()) == ([Token("a", None)], "a?")


def test_the_end_counts_without_its_blank_line():
    """A body that ends properly right after `[DONE]` is complete."""
    assert played(delta(content="a"), b"data: [DONE]")[0] == [Token("a", None), DONE]


def test_completions_have_their_text_in_the_choice():
    """/v1/completions has no deltas and no role chunk."""
    found, decoder = played(
        event(choices=[{"index": 0, "text": "a"}]), event(choices=[{"index": 0, "text": "", "finish_reason": "stop"}])
    )
    assert (found, decoder.answer()) == ([Token("a", None), Finished("stop")], "a")


def test_of_several_choices_the_first_is_kept_and_tokens_are_unknown():
    """With n > 1 servers disagree on whose count a running usage is."""
    choice = lambda index, text: {"index": index, "delta": {"content": text}, "finish_reason": None}  # noqa: E731
    found, decoder = played(
        event(choices=[choice(0, "a")], usage={"completion_tokens": 1}),
        event(choices=[choice(1, "x")], usage={"completion_tokens": 1}),
        event(choices=[choice(0, "b"), choice(1, "y")], usage={"completion_tokens": 2}),
    )
    assert (found, decoder.answer()) == ([Token("a", 1), Token("a", None), Token("a", None)], "ab")


def test_an_answer_in_one_piece_has_no_events():
    """stream: false: text, tools and usage, but no times."""
    body = orjson.dumps(
        {
            "id": "x", "object": "chat.completion",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": None, "reasoning": "hm",
                "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "g", "arguments": "{}"}}],
            }}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 5},
        }
    )  # fmt: skip
    decoder = Decoder()
    assert decoder.whole(body) == [Finished("tool_calls")]
    assert (decoder.reasoning(), decoder.answer(), [call.name for call in decoder.tool_calls()]) == ("hm", None, ["f", "g"])
    assert decoder.usage == Usage(prompt_tokens=3, completion_tokens=5)


def test_a_finish_reason_error_is_a_problem():
    """vLLM ends a stream so when its engine failed."""
    assert played(delta(finish="error"))[0] == [Problem("finish_error", "finish_reason is error")]


def test_an_event_beyond_the_bound_is_said_once():
    """What came before it still counts; what comes after does not."""
    decoder = Decoder(max_event_bytes=200)
    found = decoder.feed(delta(content="a") + b"data: " + b"x" * 300 + b"\n\n" + delta(content="b")) + decoder.feed(DONE_LINE)
    assert [type(one) for one in found] == [Token, Problem]


@given(st.lists(TEXTS, max_size=1200))
def test_text_that_is_not_kept_leaves_its_hash(texts: list[str]):
    """`keep_text=False` keeps no text, and the same hash."""
    kept, dropped = Decoder(), Decoder(keep_text=False)
    for text in texts:
        kept.feed(delta(content=text, reasoning=text))
        dropped.feed(delta(content=text, reasoning=text))
    joined = "".join(texts)
    assert (dropped.answer(), dropped.reasoning()) == (None, None)
    assert hashlib.sha256(joined.encode()).hexdigest() == kept.answer_sha256() == dropped.answer_sha256()
