"""Framing of server-sent events: any cut, any line end, bounded."""

# ruff: noqa: E501
from itertools import pairwise

import hypothesis.strategies as st
import orjson
from hypothesis import example, given, settings

from loadkit.sse import Frames

PIECES = st.sampled_from(
    [
        b"\n", b"\r", b"\r\n", b"\n\n", b"data: ", b"data:", b"data", b": keep-alive\n\n", b"event: error\n", b"event: x\n", b"id: 7\n",
        b"retry: 1\n", "\u2028".encode(), "\u0085".encode(), "你好".encode(), b"\xef\xbb\xbf", b"data: {\"a\":1}\n\n", b"data: [DONE]\n\n",
        b"x", b":", b" ", b"\xff", b"\x00", b"\x0b", b"\x0c", b"\x1c", b"\x85",
    ]
)  # fmt: skip
STREAMS = st.lists(PIECES | st.binary(max_size=5), max_size=30).map(b"".join)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    return [stream[a:b] for a, b in pairwise(marks)]


def framed(pieces: list[bytes], bound: int = 1 << 20) -> tuple[list[bytes], bool]:
    frames = Frames(bound)
    found = [data for piece in pieces for data in frames.feed(piece)]
    return found + frames.close(), frames.oversized


def by_the_standard(stream: bytes) -> list[bytes]:
    """The HTML standard's algorithm, written down plainly: the reference that speed is measured against."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found, data, kind = [], [], b""
    for line in [*text.split(b"\n"), b""]:  # the end of the body counts as a blank line
        if not line:
            if data:
                joined = b"\n".join(data)
                found.append((kind.strip() == b"error", joined))
            data, kind = [], b""
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event" and b":" in line:
            kind = line[6:]
    return found


@settings(max_examples=500)
@given(STREAMS, st.lists(st.integers(0, 10_000), max_size=12))
def test_events_do_not_depend_on_the_cuts(stream: bytes, cuts: list[int]):
    """Whatever a stream holds and however it is cut, the same events come out."""
    assert framed(cut(stream, cuts)) == framed([stream])


@settings(max_examples=500)
@given(STREAMS)
@example(b"data: a\n\ndata: b\n\n")
@example(b"data: a\n\n\ndata: b\n\n")
@example(b"\xef\xbb\xbfdata: a\n\n")
def test_events_are_those_of_the_standard(stream: bytes):
    """The short cuts for regular streams give what the plain algorithm gives."""
    expected = by_the_standard(stream)
    found, _ = framed([stream])
    assert [data for is_error, data in expected if not is_error] == [
        data for (is_error, _), data in zip(expected, found, strict=True) if not is_error
    ]


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=40), max_size=12), st.lists(st.integers(0, 10_000), max_size=8), st.integers(1, 60))
def test_the_bound_does_not_depend_on_the_cuts(lines: list[bytes], cuts: list[int], bound: int):
    """A stream is oversized, or not, wherever it is cut."""
    stream = b"\n".join(b"data: " + line for line in lines)
    pieces = cut(stream, cuts)
    assert framed(pieces, bound)[1] == framed([stream], bound)[1]


def test_unicode_line_separators_do_not_split():
    """U+2028 and U+0085 inside JSON are part of the line."""
    data = '{"a":"x\u2028y\u0085z\x0b\x0c"}'.encode()
    assert framed([b"data: " + data + b"\n\n"])[0] == [data]


def test_several_data_lines_are_one_event():
    """Lines of one event are joined by LF, whatever ends them."""
    assert framed([b"data: {\r\ndata: }\r\n\r\n"])[0] == [b"{\n}"]


def test_an_event_comes_with_the_line_end_that_completes_it():
    """A CR is enough; the LF of a CRLF that comes later is not a second blank line."""
    frames = Frames()
    assert [frames.feed(piece) for piece in (b"data: a\r", b"\n\r", b"\ndata: b\n\n")] == [[], [b"a"], [b"b"]]


def test_an_error_event_becomes_an_error_object():
    """`event: error` counts whatever its data looks like."""
    assert orjson.loads(framed([b"event: error\ndata: boom\n\n"])[0][0]) == {"error": "boom"}


def test_a_line_beyond_the_bound_ends_the_decoding():
    """Memory is bounded: nothing comes out after an oversized line, complete or not."""
    frames = Frames(100)
    assert [frames.feed(b"data: " + b"x" * 60), frames.feed(b"x" * 60), frames.feed(b"\n\ndata: a\n\n")] == [[], [], []]
    assert frames.oversized
