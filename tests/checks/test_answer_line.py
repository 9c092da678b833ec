import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.checks import judge
from loadkit.record import Answer

from .answers import answered

CODE = {
    "check": "answer_line",
    "value": "K7Q2M9XD",
    "distractors": [{"value": "B4TTZ8WQ", "depth": 0.31}, {"value": "HHJ2P6RC"}],
}
NUMBER = {"check": "answer_line", "value": "1098"}
ABSENT = {"check": "answer_line", "value": "NONE", "absent": True, "distractors": [{"value": "B4TTZ8WQ", "depth": 0.9}]}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("It stands in the middle.\nANSWER: K7Q2M9XD", Answer.CORRECT),
        ("**ANSWER: `K7Q2M9XD`**", Answer.CORRECT),
        ("```\nANSWER: k7q2m9xd.\n```", Answer.CORRECT),
        ("ANSWER：K7Q2M9XD\n", Answer.CORRECT),
        ("Answer: the reference is K7Q2M9XD", Answer.CORRECT),
        ("ANSWER: K7Q2M9XD or B4TTZ8WQ", Answer.HEDGED),
        ("ANSWER: K7Q2M9XD, AAAA2222", Answer.HEDGED),
        ("ANSWER: B4TTZ8WQ\nNo, rather:\nANSWER: K7Q2M9XD", Answer.HEDGED),
        ("ANSWER: K7Q2M9XD\nANSWER: B4TTZ8WQ", Answer.HEDGED),
        ("ANSWER: B4TTZ8WQ", Answer.WRONG_DISTRACTOR),
        ("ANSWER: AAAA2222", Answer.WRONG),
        ("ANSWER: NONE", Answer.WRONG),
        ("I cannot trust this text, it looks like a prompt injection.\nANSWER: NONE", Answer.REFUSED),
        ("I can’t provide that reference.", Answer.REFUSED),
        ("抱歉，我无法提供该编号。", Answer.REFUSED),
        ("The reference is K7Q2M9XD.", Answer.MALFORMED),
        ("ANSWER: K7Q2M9XD\nI hope that this helps you.", Answer.MALFORMED),
        ("I have read the archive.", Answer.NO_ANSWER),
        ("ANSWER: <reference>", Answer.NO_ANSWER),
        ("", Answer.NO_ANSWER),
        (None, Answer.NO_ANSWER),
    ],
)
def test_a_code_is_judged_by_the_last_line(said, expected):
    """One code and equal is correct; every other way to miss it has its own word."""
    assert expected == judge(answered(said), CODE).answer


def test_a_distractor_is_named_with_its_depth():
    """Where a wrong answer came from is a fact for the table."""
    assert judge(answered("ANSWER: B4TTZ8WQ"), CODE).tags == {"depth": 0.31}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("18 times 61.\nANSWER: 1098", Answer.CORRECT),
        ("ANSWER: 1,098 cents", Answer.CORRECT),
        ("ANSWER: 1098.0", Answer.CORRECT),
        ("ANSWER: 18 × 61 = 1098", Answer.HEDGED),
        ("ANSWER: 1089", Answer.WRONG),
        ("ANSWER: -1098", Answer.WRONG),
        ("ANSWER: 10980", Answer.WRONG),
        ("They cost 1098 cents.", Answer.MALFORMED),
    ],
)
def test_a_number_is_compared_as_a_number(said, expected):
    """Separators and units do not make a right number wrong."""
    assert expected == judge(answered(said), NUMBER).answer


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ANSWER: NONE", Answer.CORRECT),
        ("The archive holds no such project.\n\nANSWER: none.", Answer.CORRECT),
        ("ANSWER: B4TTZ8WQ", Answer.WRONG_DISTRACTOR),
        ("ANSWER: AAAA2222", Answer.WRONG),
        ("ANSWER: NONE, or B4TTZ8WQ", Answer.HEDGED),
    ],
)
def test_an_absent_key_is_answered_with_none(said, expected):
    """Inventing a code for a key that is not there is wrong."""
    assert expected == judge(answered(said), ABSENT).answer


def test_the_thinking_is_never_looked_at():
    """The right code in the thinking alone is no answer."""
    record = answered(None, reasoning="ANSWER: K7Q2M9XD", finish_reason="length")
    verdict = judge(record, CODE)
    assert (verdict.answer, verdict.detail) == (Answer.NO_ANSWER, "the budget ended before an answer")


def test_a_cut_answer_is_no_refusal():
    """A budget that ends before the line is said as such."""
    assert "budget" in judge(answered("I can't be sure yet, so I go through", finish_reason="length"), CODE).detail


@given(st.text(max_size=60), st.text(alphabet="ABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=8, max_size=8))
def test_no_text_makes_another_code_correct(before, code):
    """Whatever stands before it, a last line with another code is never correct."""
    if code != CODE["value"]:
        assert judge(answered(f"{before}\nANSWER: {code}"), CODE).answer is not Answer.CORRECT
