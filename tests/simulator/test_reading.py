"""The simulator's own reading: rules of language and form, tried on texts that no scenario of loadkit has."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.simulator.reading.arithmetic import evaluate, find_sum
from loadkit.simulator.reading.calls import arguments_for, choose_tool
from loadkit.simulator.reading.code import find_code
from loadkit.simulator.reading.facts import find_fact
from loadkit.simulator.reading.prose import write_prose
from loadkit.simulator.reading.records import find_record
from loadkit.simulator.reading.thinking import think_about, thinking_tokens

LEDGER = """Shipment Blue Heron 12, carrier Norden, weight 40 kg, seal QX-7719.
Shipment Blue Heron 123, carrier Ostsee, weight 55 kg, seal QX-1055.
Shipment Grey Heron 12, carrier Norden, weight 70 kg, seal QX-8800.
"""
TABLE = "id: K-17 | owner: Mara Lind | room: 4.12\nid: K-18 | owner: Jon Ek | room: 2.07\n"
JSON_LINES = (
    '{"device": "pump-7", "limit": "12.5 bar", "colour": "red"}\n{"device": "pump-8", "limit": "9 bar", "colour": "grey"}\n'
)
CHINESE = "仓库甲三，主管王芳，面积120平方米，门牌A-07。\n仓库甲五，主管李明，面积95平方米，门牌B-11。\n"


@pytest.mark.parametrize(
    ("text", "question", "value"),
    [
        (LEDGER, "What is the seal of Shipment Blue Heron 12 in the ledger above?", "QX-7719"),
        (LEDGER, "What is the carrier of Shipment Blue Heron 123?", "Ostsee"),
        (LEDGER, "Which carrier does Shipment Grey Heron 12 have?", "Norden"),
        (LEDGER, "Please find the weight of Shipment Grey Heron 12.", "70 kg"),
        (TABLE, "Who is the owner of K-18?", "Jon Ek"),
        (TABLE, "What is the room of K-17?", "4.12"),
        (JSON_LINES, "What is the limit for pump-7?", "12.5 bar"),
        (CHINESE, "仓库甲五的主管是谁？", "李明"),
        (CHINESE, "在上面的清单中，仓库甲三的门牌是什么？", "A-07"),
    ],
)  # fmt: skip
def test_records_of_any_form(text: str, question: str, value: str):
    """The asked field of the named record, whatever the record looks like."""
    found = find_record(text, question)
    assert found is not None
    assert (found.value, found.absent) == (value, False)


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is the seal of Shipment Green Heron 12? If there is none, answer with MISSING.", "MISSING"),
        ("What is the seal of Shipment Blue Heron 1? If the ledger has no such shipment, write ANSWER: NONE", "NONE"),
        ("What is the seal of Shipment Blue Heron 1234?", "NONE"),
    ],
)
def test_a_key_that_is_absent_is_said_to_be(question: str, value: str):
    """A near-duplicate is not taken for the record; the question's own words for "none" are used."""
    found = find_record(LEDGER, question)
    assert found is not None
    assert (found.value, found.absent) == (value, True)
    assert "QX" in "".join(found.others)


@given(st.integers(0, 999), st.data())
def test_the_right_one_of_many(number: int, data: st.DataObject):
    """Among hundreds of records with the same form and shared prefixes, always the named one."""
    places = data.draw(st.lists(st.integers(0, 99_999), min_size=2, max_size=200, unique=True))
    lines = [f"Unit Alder {place}, code C{place * 7 + number}, note n{place}." for place in places]
    random.Random(number).shuffle(lines)
    wanted = places[number % len(places)]
    found = find_record("\n".join(lines), f"What is the code of Unit Alder {wanted}?")
    assert found is not None
    assert found.value == f"C{wanted * 7 + number}"


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is 17 * 23?", "391"),
        ("Compute (12 + 30) / 2 please.", "21"),
        ("How much is 12 times 12?", "144"),
        ("3乘以14等于多少？", "42"),
        ("A baker sells 14 loaves for 3 euros each. What do they cost together?", "42"),
        ("A shelf holds 6 boxes with 12 pens each. Anna takes 5. How many are left?", "67"),
        ("There are 7 rows of 8 chairs. How many chairs are there?", "56"),
    ],
)  # fmt: skip
def test_sums(question: str, value: str):
    """Written expressions and short stories."""
    found = find_sum("", question)
    assert found is not None
    assert found.value == value


@given(st.integers(-999, 999), st.integers(1, 999), st.sampled_from("+-*/"))
def test_expressions_are_python_s(a: int, b: int, sign: str):
    """The value of an expression is what Python makes of it."""
    assert evaluate(f"{a} {sign} {b}") == pytest.approx(eval(f"{a} {sign} {b}"))


@pytest.mark.parametrize("text", ["__import__('os')", "2 ** 99999999", "1 / 0", "a + 1"])
def test_what_is_no_sum_is_not_evaluated(text: str):
    """Only + - * / on numbers."""
    assert evaluate(text) is None


def test_facts_of_a_conversation():
    """What was said in an earlier turn is known in a later one."""
    said = "Hi, I am Ruth from Gdansk, and my ticket number is ZX81."
    assert find_fact(said, "Which ticket number did I give you?").value == "ZX81"  # type: ignore[union-attr]
    assert find_fact(said, "What is my name?").value == "Ruth"  # type: ignore[union-attr]
    assert find_fact(said, "Which city do I come from?").value == "Gdansk"  # type: ignore[union-attr]
    assert find_fact(said, "What is the capital of Poland?") is None


PROGRAMS = [
    ("is_prime(n) that returns whether n is prime", "is_prime", [((7,), True), ((9,), False), ((1,), False)]),
    ("fib(count) that returns the first count Fibonacci numbers", "fib", [((6,), [0, 1, 1, 2, 3, 5])]),
    ("common(a, b) that returns the greatest common divisor", "common", [((12, 18), 6)]),
    ("flip_words(text) that reverses the words, i.e. reverse_words", "flip_words", [(("a b c",), "c b a")]),
    ("is_palindrome(text)", "is_palindrome", [(("Never odd or even",), True), (("abc",), False)]),
    ("factorial(n)", "factorial", [((5,), 120)]),
    ("count_vowels(text)", "count_vowels", [(("Education",), 5)]),
    ("bubble_sort(numbers)", "bubble_sort", [(([3, 1, 2],), [1, 2, 3])]),
    ("binary_search(items, wanted)", "binary_search", [(([1, 3, 5], 5), 2), (([1, 3], 2), -1)]),
    ("fizzbuzz(n)", "fizzbuzz", [((5,), ["1", "2", "Fizz", "4", "Buzz"])]),
    ("lcm(a, b)", "lcm", [((4, 6), 12)]),
]


@pytest.mark.parametrize(("asked", "name", "calls"), PROGRAMS, ids=[name for _, name, _ in PROGRAMS])
def test_programs_run_and_are_right(asked: str, name: str, calls: list[tuple[tuple[object, ...], object]]):
    """The code block defines the asked function, and the function works."""
    block = find_code(f"Write a Python function {asked}.")
    assert block is not None
    names: dict[str, object] = {}
    exec(block.removeprefix("```python\n").removesuffix("```"), names)
    assert [names[name](*arguments) for arguments, _ in calls] == [result for _, result in calls]  # type: ignore[operator]


def tool(name: str, description: str, properties: dict[str, object], required: list[str]) -> dict[str, object]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = (
    tool("get_forecast", "Weather forecast of a place", {"place": {"type": "string"}, "days": {"type": "integer"}}, ["place"]),
    tool("send_mail", "Sends an e-mail", {"to": {"type": "string"}, "subject": {"type": "string"}}, ["to", "subject"]),
    tool(
        "set_alarm", "Sets an alarm clock", {"hour": {"type": "integer"}, "mode": {"enum": ["soft", "loud"]}}, ["hour", "mode"]
    ),
)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("Will it rain in Porto over the next 3 days?", "get_forecast", '{"place":"Porto","days":3}'),
        ("Please set a loud alarm for 7 o'clock.", "set_alarm", '{"hour":7,"mode":"loud"}'),
    ],
)
def test_tools_are_chosen_and_filled(text: str, name: str, arguments: str):
    """The tool that the text is about, with arguments by its schema."""
    chosen = choose_tool(TOOLS, text, must=False)
    assert chosen is not None
    assert chosen["function"]["name"] == name
    assert arguments_for(chosen, text) == arguments


def test_no_tool_where_none_fits():
    """Small talk calls nothing; where a call is required, one is made."""
    assert choose_tool(TOOLS, "Thank you very much!", must=False) is None
    assert choose_tool(TOOLS, "Thank you very much!", must=True) is not None


def test_prose_has_as_many_sentences_as_asked_for_and_names_the_topic():
    """Two Chinese sentences about the topic."""
    text = write_prose("请用中文写两句话，介绍一下黄河。", random.Random(1), chinese=True)
    assert text.count("。") == 2
    assert "黄河" in text


def test_thinking_has_about_the_length_that_was_drawn():
    """The text has the tokens asked for, within a fifth; the length depends on seed and effort."""
    from loadkit.encoding import bundled

    text = think_about("What is the seal of Blue Heron 12?", random.Random(3), 400, chinese=False)
    assert len(bundled().encode(text)) == pytest.approx(400, rel=0.2)
    lengths = {thinking_tokens(random.Random(seed), median=60, effort="low", over=False) for seed in range(20)}
    assert len(lengths) > 5
    assert thinking_tokens(random.Random(1), median=60, effort="none", over=False) == 0
