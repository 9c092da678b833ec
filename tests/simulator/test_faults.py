"""Every fault, on the bytes; and what the client makes of each of them."""

import asyncio
import gzip
import json
import socket
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.client import Client
from loadkit.errors import UsageError
from loadkit.record import CaseFacts, Outcome, Record, Slot
from loadkit.request import Request, Target, Timeouts
from loadkit.simulator.faults.choice import Faults
from loadkit.simulator.faults.table import KINDS, parse
from simulator_process import Simulator, simulator

from .asking import chat, get

SUM = "What is 17 * 23? Answer with the number alone."


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with simulator("--enable-faults") as running:
        yield running


def send(sim: Simulator, *faults: str | None, stream: bool = True, question: str = SUM, **fields: Any) -> list[Record]:
    """One request after another through loadkit's client, each with a fault."""

    async def ask() -> list[Record]:
        target = Target(base_url=sim.base_url, model=sim.model)
        async with Client(target) as client:
            return [
                await client.send(_request(target, number, fault, stream, question, fields))
                for number, fault in enumerate(faults)
            ]

    return asyncio.run(ask())


def _request(target: Target, number: int, fault: str | None, stream: bool, question: str, fields: dict[str, Any]) -> Request:
    body: dict[str, Any] = {
        "model": target.model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": 300,
        **fields,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    return Request(
        id=f"r{number}",
        slot=Slot(),
        case=CaseFacts(scenario="faults", case=str(number), workload="quality"),
        body=json.dumps(body).encode(),
        stream=stream,
        headers={"X-Loadkit-Fault": fault} if fault else {},
        timeouts=Timeouts(headers_s=5, first_token_s=5, between_tokens_s=1),
    )


HARMLESS = ["crlf", "crlf:ending=cr", "comments", "multi-line-data", "one-in-many:size=7,ms=0", "many-in-one", "split-utf8",
            "huge-line:bytes=300000", "role-first", "reasoning-field", "reasoning-field:name=old", "early-close"]  # fmt: skip


@pytest.mark.parametrize("fault", HARMLESS)
def test_harmless_faults_change_nothing_for_the_client(sim: Simulator, fault: str):
    """However the bytes are cut and dressed, the record is complete, exact and right."""
    (plain,) = send(sim, None)
    (record,) = send(sim, fault)
    assert record.outcome is Outcome.COMPLETED
    assert (record.answer, record.reasoning, record.usage) == (plain.answer, plain.reasoning, record.usage)
    assert sum(record.events.tokens or ()) <= (record.usage.completion_tokens or 0)
    assert record.answer == "391"


def test_characters_cut_between_two_packets(sim: Simulator):
    """A Chinese answer arrives whole although its characters are cut."""
    plain, cut = send(sim, None, "split-utf8", question="请用中文写两句话，介绍一下长城。")
    assert cut.outcome is Outcome.COMPLETED
    assert cut.answer == plain.answer


FAILING = {
    "cut:after=2": Outcome.STREAM_ERROR,
    "reset:after=2": Outcome.STREAM_ERROR,
    "error-object:after=2": Outcome.STREAM_ERROR,
    "no-done": Outcome.STREAM_ERROR,
    "no-finish": Outcome.STREAM_ERROR,
    "garbage:after=2": Outcome.STREAM_ERROR,
    "stall:after=2,s=3": Outcome.TIMEOUT,
    "status:code=503": Outcome.HTTP_ERROR,
    "status:code=429": Outcome.HTTP_ERROR,
    "html": Outcome.HTTP_ERROR,
}


@pytest.mark.parametrize(("fault", "outcome"), FAILING.items(), ids=list(FAILING))
def test_failing_faults_end_in_their_outcome(sim: Simulator, fault: str, outcome: Outcome):
    """Nothing that died is counted as completed, whatever the status line said."""
    (record,) = send(sim, fault)
    assert record.outcome is outcome


def test_usage_that_is_missing_is_unknown(sim: Simulator):
    """Without usage a request is completed, and its tokens unknown, not zero."""
    (record,) = send(sim, "no-usage")
    assert record.outcome is Outcome.COMPLETED
    assert record.usage.completion_tokens is None
    assert record.events.tokens is None


def test_an_empty_answer_has_no_events(sim: Simulator):
    """A model that ends at once shows no token, although one was counted."""
    (record,) = send(sim, "empty")
    assert (record.outcome, record.events.at_ns, record.usage.completion_tokens) == (Outcome.COMPLETED, (), 1)


def test_thinking_only_and_tool_only(sim: Simulator):
    """Thinking is not an answer; a call without text is a tool event."""
    thinking, tool = send(sim, "reasoning-only", "tool-only")
    assert set(thinking.events.kinds) == {"r"}
    assert not thinking.answer
    assert set(tool.events.kinds) == {"t"}
    assert tool.tool_calls[0].arguments == "{}"


def test_a_stale_connection_is_told_apart(sim: Simulator):
    """The request after a stale keep-alive fails before the first response byte, on a reused connection."""
    first, second = send(sim, "stale-keep-alive", None)
    assert first.outcome is Outcome.COMPLETED
    assert second.outcome is Outcome.CONNECTION
    assert second.failure is not None
    assert second.failure.reused_connection


def test_a_wrong_count_is_passed_on(sim: Simulator):
    """miscount changes usage and nothing else."""
    plain, off = send(sim, None, "miscount:completion=3,prompt=2")
    assert off.usage.completion_tokens == (plain.usage.completion_tokens or 0) + 3
    assert off.usage.prompt_tokens == (plain.usage.prompt_tokens or 0) + 2


def test_gzip_that_nobody_asked_for(sim: Simulator):
    """The body is gzip; unpacked it is the same stream."""
    answer = chat(sim, SUM, fault="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body).endswith(b"data: [DONE]\n\n")


def test_separators_that_are_no_line_ends(sim: Simulator):
    """U+2028 and U+0085 stand unescaped in the JSON, inside one line of SSE."""
    answer = chat(sim, SUM, fault="u2028")
    assert "\u2028" in answer.text()
    assert "\u0085" in answer.body.decode()


def test_a_wrong_content_type(sim: Simulator):
    """The stream is labelled as asked."""
    assert chat(sim, SUM, fault="content-type:type=text/plain").headers["content-type"] == "text/plain"


def test_cut_answers_that_are_not_streamed(sim: Simulator):
    """A whole answer is cut in its middle, which its content-length gives away."""
    (record,) = send(sim, "cut", stream=False)
    assert record.outcome in (Outcome.STREAM_ERROR, Outcome.CONNECTION)


def test_an_unknown_fault_in_the_header_is_refused(sim: Simulator):
    """A slip in the header is a 400, so that a test does not pass by accident."""
    answer = chat(sim, SUM, fault="cutt:after=2")
    assert answer.status == 400
    assert "did you mean cut?" in answer.json["error"]["message"]


def test_the_header_is_off_unless_enabled():
    """Without --enable-faults the header does nothing."""
    with simulator() as sim:
        assert chat(sim, SUM, fault="html").status == 200


def test_engine_death_fails_streams_then_health_then_connections():
    """The stream that was under way gets an error object, new requests 500, and then nobody listens."""
    with simulator("--fault", "engine-death:after=3,s=1,first=1") as sim:
        dying = chat(sim, "Tell me about the sea.", ignore_eos=True, max_tokens=100_000)
        assert dying.chunks[-1]["error"]["code"] == 500
        assert dying.events[-1] == "[DONE]"
        assert get(sim, "/health").status == 503
        assert chat(sim, SUM).status == 500
        parts = urllib.parse.urlsplit(sim.url)
        assert _refused(parts.hostname or "", parts.port or 0)


def _refused(host: str, port: int) -> bool:
    import time

    for _ in range(100):
        try:
            socket.create_connection((host, port), timeout=1).close()
        except ConnectionRefusedError:
            return True
        time.sleep(0.1)
    return False


def test_faults_of_the_options_are_spared_and_spent(tmp_path: Path):
    """`skip` spares the first requests, `first` limits how many get it; a file holds one fault a line."""
    file = tmp_path / "faults.txt"
    file.write_text("# a burst\nstatus:code=503,skip=1,first=2\n")
    with simulator("--fault-file", str(file)) as sim:
        assert [chat(sim, SUM).status for _ in range(5)] == [200, 503, 503, 200, 200]


def test_other_routes_can_be_spoiled():
    """A fault with a path concerns that route alone."""
    with simulator("--fault", "html:code=500,path=/metrics") as sim:
        assert get(sim, "/metrics").status == 500
        assert chat(sim, SUM).status == 200


@pytest.mark.parametrize(
    ("written", "remedy"),
    [("cutt", "did you mean cut?"), ("cut:afte=3", "it has after"), ("cut:after=x", "give a number")],
)
def test_mistakes_name_the_remedy(written: str, remedy: str):
    """A fault that is written wrongly says what would be right."""
    with pytest.raises(UsageError, match=remedy.replace("?", r"\?")):
        parse(written)


@given(rate=st.floats(0, 1), count=st.integers(1, 200))
def test_rates_are_shares(rate: float, count: int):
    """No fault is played more often than there are requests; at 0 never, at 1 always."""
    faults = Faults((f"cut:rate={rate}",), header=False)
    played = sum(faults.for_request("/v1/completions", {}) is not None for _ in range(count))
    assert played == {0.0: 0, 1.0: count}.get(rate, played)


def test_every_fault_can_be_asked_for(sim: Simulator):
    """Each name in the table is understood as it stands in the table."""
    assert {parse(name).name for name in KINDS} == set(KINDS)
