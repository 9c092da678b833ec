"""What passes between Locust and its engine comes out as it went in."""

from dataclasses import replace
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st

from loadkit.case import Case, Turn
from loadkit.engine.protocol import (
    ended_line,
    ended_record,
    items_message,
    items_of,
    line,
    record_of,
    request_line,
    request_of,
    verdict_of,
)
from loadkit.metrics import first_event_tokens, tpot_ns, ttfat_ns, ttft_ns
from loadkit.plan import Item
from loadkit.record import (
    Answer,
    AnswerVerdict,
    CaseFacts,
    ErrorPhase,
    Events,
    Failure,
    Outcome,
    Phase,
    Record,
    Slot,
    ToolCall,
    Usage,
)
from loadkit.request import Request, Timeouts

FACTS = CaseFacts(scenario="short", case="c", workload="speed", tags={"depth": 0.5})
SLOT = Slot(phase=Phase.WARMUP, stage="2 ways", ways=2, round=0, way=1, user="U 1")


def test_a_request_comes_out_as_it_went_in():
    """Body bytes, document, timeouts and slot included."""
    request = Request(
        id="r1", slot=SLOT, case=FACTS, body='{"a": "é 长"}'.encode(), body_file=Path("/x/doc.txt"), body_tail=b"}",
        headers={"X-Request-Id": "r1"}, timeouts=Timeouts(first_token_s=7), checks=({"kind": "exact"},), due_ns=5,
    )  # fmt: skip
    message = orjson.loads(request_line("send", request))
    assert ("send", request) == (message["op"], request_of(message["request"]))


def test_an_item_comes_out_as_it_went_in():
    """A case with turns, tool results and a document."""
    turns = (Turn(messages=({"role": "user", "content": "?"},)), Turn(tool_results={"f": "{}"}, max_tokens=3))
    case = Case(facts=FACTS, turns=turns, body={"tools": []}, salt_group="g{round}", document=Path("/d"))
    items = (Item(id="i", case=case, slot=SLOT),)
    assert items == items_of(items_message(items))


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Records with consistent event columns."""
    count = draw(st.integers(0, 12))
    at = sorted(draw(st.lists(st.integers(10, 10_000), min_size=count, max_size=count)))
    kinds = "".join(draw(st.lists(st.sampled_from("rat"), min_size=count, max_size=count)))
    tokens = draw(st.none() | st.lists(st.integers(1, 4), min_size=count, max_size=count).map(tuple))
    total = draw(st.none() | st.integers(0, 60))
    outcome = draw(st.sampled_from(Outcome))
    return Record(
        id="r", slot=SLOT, case=FACTS, outcome=outcome, due_ns=1, sent_ns=5,
        end_ns=at[-1] if at else None, closed_ns=20_000, events=Events(at_ns=tuple(at), kinds=kinds, tokens=tokens),
        usage=Usage(completion_tokens=total),
        failure=None if outcome is Outcome.COMPLETED else Failure(kind="reset", message="m", phase=ErrorPhase.STREAM),
        tool_calls=(ToolCall(index=0, id=None, name="f", arguments="{}"),),
    )  # fmt: skip


def told(record: Record) -> Record:
    """The record as the other side has it."""
    return ended_record(orjson.loads(ended_line(record, [])), record.slot, record.case)


@given(records())
def test_the_figures_of_rows_are_the_same_from_what_is_told(record: Record):
    """TTFT, TTFAT, TPOT and k1 need the first event, the first that is not thinking, and the end."""
    short = told(record)
    for figure in (ttft_ns, ttfat_ns, tpot_ns, first_event_tokens):
        assert figure(record) == figure(short), figure.__name__
    assert len(short.events.at_ns) <= 3


@given(records())
def test_a_record_is_told_whole_but_for_its_columns(record: Record):
    """Enums, tuples and nested facts; on the way to a master too, where the columns go as they are."""
    short = told(record)
    assert short == replace(record, events=short.events)
    assert short == record_of(orjson.loads(line("x", record=short))["record"])


def test_stamps_of_coalesced_events_are_not_told():
    """Rows need none of them."""
    record = Record(
        id="r", slot=SLOT, case=FACTS, outcome=Outcome.COMPLETED, due_ns=1,
        events=Events(at_ns=(2, 3), kinds="aa", late_ns=(1, 1), coalesced=((0, 1),)),
    )  # fmt: skip
    assert told(record) == replace(record, events=Events(at_ns=(2, 3), kinds="aa"))


def test_verdicts_come_with_the_record():
    """What the checks found in it."""
    verdict = AnswerVerdict(id="r", check="exact", answer=Answer.WRONG, detail="said 2", tags={"x": 1})
    record = Record(id="r", slot=SLOT, case=FACTS, outcome=Outcome.COMPLETED, due_ns=1)
    (data,) = orjson.loads(ended_line(record, [verdict]))["verdicts"]
    assert verdict_of(data) == verdict
