"""Chunks read by their template: the same events and facts as by parsing, whatever comes, and taken where they should be."""

# ruff: noqa: E501 - a wire shape is read in one line

from collections.abc import Callable, Iterable

import hypothesis.strategies as st
import orjson
import pytest
from hypothesis import example, given, settings

from loadkit.stream import LESSONS, Decoder, Event, Token
from wire_servers import DONE, ROLE, delta, event, usage_event

FIRST = delta(content="Hi", usage={"prompt_tokens": 3, "total_tokens": 4, "completion_tokens": 1})


def facts(decoder: Decoder) -> tuple[object, ...]:
    return (
        decoder.answer(),
        decoder.reasoning(),
        decoder.usage,
        decoder.finish_reason,
        decoder.response_id,
        decoder.tool_calls(),
    )


def by_template(decoder: Decoder, data: bytes) -> list[Event]:
    """As a reception decodes: the short way first."""
    usual = decoder.usual(data)
    return decoder.feed(data) if usual is None else [Token(*usual)]


def by_parsing(decoder: Decoder, data: bytes) -> list[Event]:
    """Without templates: what was learned is forgotten before each read."""
    decoder._template = None
    return decoder.feed(data)


def decoded(
    reads: Iterable[bytes], way: Callable[[Decoder, bytes], list[Event]]
) -> tuple[list[list[Event]], tuple[object, ...]]:
    """What a way makes of the reads after a role chunk: the events of each, and the facts at the end."""
    decoder = Decoder()
    events = [way(decoder, data) for data in (ROLE, *reads)]
    return events, facts(decoder)


def raw(text: str, *, usage: int | None = None) -> bytes:
    """An event as vLLM writes it, non-ASCII text as it is."""
    return delta(
        content=text,
        usage=None if usage is None else {"prompt_tokens": 3, "total_tokens": 3 + usage, "completion_tokens": usage},
    )


WORDS = st.text(max_size=8) | st.sampled_from(
    ['"', "\\", "\\n", "é", "长城", "\n", "\u2028", "\x7f", "}", '","x":"', "loadkit"]
)
PIECES = st.one_of(
    st.builds(lambda text: delta(content=text), WORDS),
    st.builds(lambda text: delta(reasoning=text), WORDS),
    st.builds(lambda text, n: raw(text, usage=n), WORDS, st.integers(0, 40)),
    st.builds(lambda text: delta(content=text, reasoning=text), WORDS),
    st.builds(lambda text: delta(finish="stop", content=text), WORDS),
    st.builds(lambda text: event(choices=[{"delta": {"content": text}, "index": 1}]), WORDS),
    st.builds(lambda text: event(content=text, choices=[{"delta": {"content": text}, "index": 0}]), WORDS),
    st.builds(lambda text, later: event(choices=[{"delta": {"content": text}}], echo={"content": later}), WORDS, WORDS),
    st.builds(lambda text: event(usage={"completion_tokens": 1}, choices=[{"delta": {"content": text}}]), WORDS),
    st.builds(lambda text, error: event(choices=[{"delta": {"content": text}}], error=error), WORDS, st.none() | WORDS),
    st.sampled_from([usage_event(3, 4), DONE, b": keep-alive\n\n", b"data: {\n\n", b"event: error\n", b"\r\n", b"data: {}\n\ndata: {}\n\n"]),
)  # fmt: skip


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=14), st.lists(st.integers(0, 400), max_size=5))
@example([delta(content="a"), delta(content="b"), b"data: ", delta(content="c")], [])
@example([delta(content="a"), delta(content="b"), b"data: ", delta(content="c")], [0])
@example([raw("a", usage=1), raw("b", usage=2).replace(b'"completion_tokens":', b'"completion_tokens":\n')], [])
def test_both_ways_give_the_same(pieces: list[bytes], sizes: list[int]):
    """Any order of shapes, so that templates meet what is nearly their own: in reads of one, of some and of many."""
    reads, rest = [], list(pieces)
    for size in sizes:
        reads.append(b"".join(rest[: size % 5]))
        rest = rest[size % 5 :]
    reads += rest
    assert decoded(reads, by_template) == decoded(reads, by_parsing)


@settings(max_examples=400)
@given(st.data(), st.booleans(), st.booleans())
def test_damage_is_seen(data: st.DataObject, counted: bool, together: bool):
    """A chunk with any one byte changed, left out or doubled is judged as parsing judges it, alone or amid others in a read."""
    one = bytearray(raw("word", usage=2 if counted else None))
    place = data.draw(st.integers(0, len(one) - 1))
    new = data.draw(st.binary(max_size=2))
    one[place : place + 1] = new
    first, *later = [raw("a", usage=1 if counted else None), bytes(one), raw("b", usage=3 if counted else None)]
    reads = [first, b"".join([first, *later])] if together else [first, *later]
    assert decoded(reads, by_template) == decoded(reads, by_parsing)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("name", ["content", "reasoning", "reasoning_content"])
def test_the_usual_chunk_goes_the_short_way(name: str, counted: bool):
    """From the second chunk of a kind on; what has to be escaped is parsed, and changes nothing for those after it."""
    decoder = Decoder()
    decoder.feed(ROLE)
    kind = "a" if name == "content" else "r"
    texts = ["Hi", " there", ", 长城 é", " 'x' {}", "\n", "…"]
    taken = []
    for place, text in enumerate(texts, 1):
        usage = {"prompt_tokens": 3, "total_tokens": 3 + place, "completion_tokens": place} if counted else None
        data = delta(**{name: text}, usage=usage)
        token = decoder.usual(data)
        taken.append(token)
        if token is None:
            decoder.feed(data)
    short = (kind, 1 if counted else None)
    assert taken == [None, short, short, short, None, short]
    assert (decoder.answer() if kind == "a" else decoder.reasoning()) == "".join(texts)


@pytest.mark.parametrize("counted", [False, True])
def test_several_in_a_read_go_the_short_way_too(counted: bool, monkeypatch: pytest.MonkeyPatch):
    """All but those that are no usual ones are taken without a look at the rest of them."""
    decoder = Decoder()
    decoder.feed(ROLE + raw("a", usage=1 if counted else None))
    parsed = []
    monkeypatch.setattr("loadkit.stream.Frames.feed", lambda _, data: parsed.append(data) or [])
    usual = [raw(text, usage=place if counted else None) for place, text in enumerate(("b", "c", "长"), 2)]
    found = decoder.feed(b"".join(usual) + DONE)
    assert (found, decoder.answer(), parsed) == ([Token("a", 1 if counted else None)] * 3, "abc长", [DONE])


def test_a_pretty_printed_chunk_has_a_template_too():
    """Servers in other languages put spaces after colons and commas."""
    decoder = Decoder()
    decoder.feed(ROLE)
    shape = b'data: {"id": "x", "choices": [{"index": 0, "delta": {"content": "%s"}, "finish_reason": null}], "usage": {"completion_tokens": %d}}\n\n'
    assert decoder.usual(shape % (b"a", 1)) is None
    decoder.feed(shape % (b"a", 1))
    assert decoder.usual(shape % (b"b", 3)) == ("a", 2)


def test_a_form_that_changes_now_and_then_is_learned_again():
    """llama.cpp writes the time of each chunk: its form holds for a second."""
    decoder = Decoder()
    decoder.feed(ROLE)
    taken = 0
    for second in range(4 * LESSONS):
        for text in "abcdefghijklmnopqrst":
            data = event(created=second, choices=[{"index": 0, "delta": {"content": text}}])
            if decoder.usual(data) is None:
                decoder.feed(data)
            else:
                taken += 1
    assert taken > 4 * LESSONS * 20 * 0.6
    assert decoder.answer() == "abcdefghijklmnopqrst" * 4 * LESSONS


def test_a_text_beyond_the_bound_is_left_to_the_parser():
    """Which says when an event is too long."""
    decoder = Decoder(max_event_bytes=100_000)
    decoder.feed(ROLE + FIRST)
    assert decoder.usual(raw("x" * 99_000, usage=2)) is None


def test_what_follows_a_cut_event_is_not_taken_for_one():
    """`data: …` that continues an unfinished line is text of that line."""
    decoder = Decoder()
    decoder.feed(ROLE + delta(content="a") + b'data: {"x": "')
    assert decoder.usual(delta(content="b")) is None


def test_the_proof_finds_out_a_field_of_the_same_name():
    """Two places with the same text: the one that is found first is not the delta's."""
    first = b'data: {"id":"1","note":{"content":"a"},"choices":[{"delta":{"content":"a"}}]}\n\n'
    decoder = Decoder()
    decoder.feed(ROLE)
    decoder.feed(first)
    assert decoder.usual(first.replace(b'"note":{"content":"a"}', b'"note":{"content":"b"}')) is None
    assert orjson.loads(first[6:])["note"] == {"content": "a"}
