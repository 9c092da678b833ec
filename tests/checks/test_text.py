import pytest

from loadkit.checks import judge
from loadkit.record import Answer

from .answers import answered


@pytest.mark.parametrize(
    ("said", "expected"),
    [(" Paris\n", Answer.CORRECT), ("paris", Answer.WRONG), ("Paris.", Answer.WRONG), ("", Answer.NO_ANSWER)],
)
def test_exact_is_the_whole_answer(said, expected):
    """Space around it does not count, everything else does."""
    assert expected == judge(answered(said), {"check": "exact", "value": "Paris"}).answer


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("It is 23 degrees and cloudy.", Answer.CORRECT),
        ("It is CLOUDY, 23 degrees.", Answer.CORRECT),
        ("It is 23 degrees.", Answer.WRONG),
        ("It is 23 degrees and cloudy, or maybe 32.", Answer.HEDGED),
        ("I cannot share that.", Answer.REFUSED),
    ],
)
def test_contains_takes_all_any_and_none(said, expected):
    """A forbidden text beside the right one is a hedge."""
    spec = {"check": "contains", "all": ["23"], "any": ["cloudy", "overcast"], "none": ["32"]}
    assert expected == judge(answered(said), spec).answer


@pytest.mark.parametrize(
    ("said", "value", "tolerance", "expected"),
    [
        ("17 × 23 = 391", 391, 0, Answer.CORRECT),
        ("About 1,234,567.5 in all", 1234567.5, 0, Answer.CORRECT),
        ("It is −4", -4, 0, Answer.CORRECT),
        ("3.14", 3.14159, 0.01, Answer.CORRECT),
        ("3.1", 3.14159, 0.01, Answer.WRONG),
        ("391, no, 319", 391, 0, Answer.WRONG),
        ("many", 391, 0, Answer.NO_ANSWER),
    ],
)
def test_number_is_the_last_one(said, value, tolerance, expected):
    """A number within its tolerance, wherever the text puts it."""
    assert expected == judge(answered(said), {"check": "number", "value": value, "tolerance": tolerance}).answer


def test_regex_is_searched_line_by_line():
    """`^` and `$` match at lines."""
    spec = {"check": "regex", "pattern": r"^Total: \d+$"}
    assert judge(answered("So.\nTotal: 42\nBye"), spec).answer == Answer.CORRECT
    assert judge(answered("The Total: 42 is"), spec).answer == Answer.WRONG


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("天空之所以是蓝色，是因为空气散射阳光。", Answer.CORRECT),
        ("Rayleigh 散射让天空呈现蓝色，短波长的光被散射得更多。", Answer.CORRECT),
        ("The sky is blue because of scattering.", Answer.WRONG),
        ("1 + 1 = 2", Answer.NO_ANSWER),
    ],
)
def test_language_counts_letters(said, expected):
    """A Chinese answer may name things in Latin letters, an English one is not Chinese."""
    assert expected == judge(answered(said), {"check": "language", "language": "zh"}).answer
