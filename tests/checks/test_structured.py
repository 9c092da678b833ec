import pytest

from loadkit.checks import judge
from loadkit.record import Answer, Outcome

from .answers import answered

PERSON = {
    "check": "json_schema",
    "schema": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]},
    "equals": {"age": 41},
}
WEATHER = {
    "check": "tool_call",
    "name": "get_weather",
    "arguments": {"city": "Utrecht", "days": 2},
    "schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('{"age": 41}', Answer.CORRECT),
        ('```json\n{"age": 41}\n```', Answer.CORRECT),
        ('{"age": 40}', Answer.WRONG),
        ('{"age": "41"}', Answer.MALFORMED),
        ("{age: 41}", Answer.MALFORMED),
        ("I can't help with that", Answer.REFUSED),
        ("", Answer.NO_ANSWER),
    ],
)
def test_json_is_valid_and_equal(said, expected):
    """JSON that breaks the schema is malformed, JSON with another value is wrong."""
    assert expected == judge(answered(said), PERSON).answer


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ((("a", "get_weather", '{"city": " utrecht", "days": 2}'),), Answer.CORRECT),
        ((("a", "get_weather", '{"city": "Lima", "days": 2}'),), Answer.WRONG),
        ((("a", "get_time", '{"city": "Utrecht"}'),), Answer.WRONG),
        ((("a", "get_weather", '{"city": "Utrecht", "days": 2'),), Answer.MALFORMED),
        ((("a", "get_weather", '"Utrecht"'),), Answer.MALFORMED),
        ((("a", "get_weather", '{"city": "Utrecht"}'),), Answer.MALFORMED),
        ((("a", "get_weather", '{"city": "Utrecht", "days": 2, "x": 1}'),), Answer.MALFORMED),
        (((None, "get_weather", '{"city": "Utrecht", "days": 2}'),), Answer.MALFORMED),
        ((("a", "get_weather", '{"city": "Utrecht", "days": 2}'), ("a", "get_time", "{}")), Answer.MALFORMED),
        ((("a", "get_weather", '{"city": "Utrecht", "days": 2}'), ("b", "get_time", "{}")), Answer.HEDGED),
        ((), Answer.NO_ANSWER),
    ],
)
def test_a_tool_call_is_judged_by_name_ids_count_schema_and_values(calls, expected):
    """Each way to call the wrong thing has its word."""
    finish = "tool_calls" if calls else "stop"
    assert expected == judge(answered("It is sunny." if not calls else None, calls=calls, finish_reason=finish), WEATHER).answer


def test_a_tool_call_that_the_budget_cut_is_malformed():
    """vLLM streams partial arguments when the length runs out."""
    record = answered(None, calls=(("a", "get_weather", '{"city": "Utr'),), finish_reason="length")
    assert "budget" in judge(record, WEATHER).detail


def test_a_request_that_did_not_complete_has_no_answer():
    """Whatever text had arrived before a stream broke is not judged."""
    verdict = judge(answered('{"age": 41}', outcome=Outcome.STREAM_ERROR), PERSON)
    assert (verdict.answer, verdict.detail) == (Answer.NO_ANSWER, "the request ended as stream_error")
