import pytest

from loadkit.checks import judge, overall
from loadkit.record import Answer, AnswerVerdict

from .answers import answered

GCD = {"check": "code", "defines": "gcd", "arguments": ["a", "b"]}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Here it is:\n```python\ndef gcd(a, b):\n    return a if b == 0 else gcd(b, a % b)\n```\nDone.", Answer.CORRECT),
        ("def gcd(a, b):\n    return a", Answer.CORRECT),
        ("```\nasync def gcd(a, *, b): ...\n```", Answer.CORRECT),
        ("```python\ndef gcd(x, y): ...\n```", Answer.WRONG),
        ("```python\ndef lcm(a, b): ...\n```", Answer.WRONG),
        ("```python\ndef gcd(a, b)\n    return a\n```", Answer.MALFORMED),
        ("```python\ndef gcd(a, b):\n    '''never closed", Answer.MALFORMED),
        ("Use the math module.", Answer.MALFORMED),
        ("", Answer.NO_ANSWER),
    ],
)
def test_code_parses_and_defines_what_was_asked(said, expected):
    """The blocks of an answer are read, never run."""
    assert expected == judge(answered(said), GCD).answer


def test_overall_is_the_worst():
    """One wrong check makes the answer wrong; no check at all leaves it unverified."""

    def verdict(answer: Answer) -> AnswerVerdict:
        return AnswerVerdict(id="q", check="exact", answer=answer)

    assert overall([verdict(Answer.CORRECT), verdict(Answer.WRONG)]) == Answer.WRONG
    assert overall([]) == Answer.UNVERIFIED
