import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit import scenario
from loadkit.errors import UsageError
from loadkit.scenario import Drawing
from loadkit.scenario.schema import Variable
from loadkit.scenario.variables import draw, evaluate, fill

NAMES = ("short", "code", "tools", "smoke", "chat")


def loaded(folder: Path, text: str) -> scenario.Scenario:
    path = folder / "mine.yaml"
    path.write_text(f"name: mine\n{text}", encoding="utf-8")
    return scenario.load(path)


@settings(max_examples=20, deadline=None)
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 10_000), count=st.integers(1, 40))
def test_cases_are_the_same_for_the_same_seed(name, seed, count):
    """Two machines that draw with one seed ask the same things; a longer series begins with the shorter one."""
    found = scenario.find(name)
    drawn = scenario.cases(found, Drawing(seed=seed), count=count)
    assert drawn == scenario.cases(found, Drawing(seed=seed), count=count + 3)[:count]
    assert drawn[1:] == scenario.cases(found, Drawing(seed=seed), count=count - 1, first=1) if count > 1 else True


@pytest.mark.parametrize("name", ["short", "code", "tools"])
def test_a_speed_workload_is_of_distinct_prompts_and_fixed_length(name):
    """What the comparison sends: no two prompts alike, `ignore_eos`, no check, no tools, one turn."""
    drawn = scenario.cases(scenario.find(name), Drawing(speed=True, max_tokens=64), count=200)
    assert len({str(case.turns[0].messages) for case in drawn}) == 200
    for case in drawn:
        assert (case.body["ignore_eos"], case.body["max_tokens"], case.facts.workload) == (True, 64, "speed")
        assert (len(case.turns), case.turns[0].checks, "tools" in case.body) == (1, (), False)


def test_sampling_defaults_are_explicit():
    """Temperature 0, seed 42, low effort inside the template arguments and nowhere else."""
    body = scenario.cases(scenario.find("short"))[0].body
    assert (body["temperature"], body["seed"]) == (0.0, 42)
    assert body["chat_template_kwargs"] == {"reasoning_effort": "low", "enable_thinking": True}
    assert "reasoning_effort" not in body


def test_budgets_come_from_the_options():
    """`short` and `long` are the two options; a number is the scenario's own."""
    drawing = Drawing(max_tokens=100, long_max_tokens=900)
    assert scenario.cases(scenario.find("short"), drawing)[0].facts.max_tokens == 100
    assert drawing.budget(scenario.find("retrieval")) == 900


def test_literal_prompts_repeat_when_they_run_out(tmp_path):
    """Two literal prompts can be asked ten times; their names still differ, and so will their salts."""
    drawn = scenario.cases(loaded(tmp_path, "prompts: [{text: one}, {text: two}]"), count=10)
    assert len({case.facts.case for case in drawn}) == 10


def test_braces_are_text_where_nothing_is_declared(tmp_path):
    """A prompt about code needs no escaping."""
    drawn = scenario.cases(loaded(tmp_path, "prompts: [{text: 'f({x}) = {{x}}'}]"))
    assert drawn[0].turns[0].messages[0]["content"] == "f({x}) = {{x}}"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("variables: {a: [1]}\nprompts: [{text: '{a} {b}'}]", "prompts[0].text: there is no variable 'b'; declare it"),
        ("variables: {total: [1]}\nprompts: [{text: '{totl}'}]", "prompts[0].text: there is no variable 'totl'; did you mean"),
        ("variables: {a: [1]}\nsystem: '{b}'\nprompts: [{text: x}]", "system: there is no variable 'b'"),
        (
            "variables: {a: [1]}\nprompts: [{text: x}, {text: x, checks: [{check: exact, value: '{b}'}]}]",
            "prompts[1].checks[0].value: there is no variable 'b'",
        ),
        (
            "variables: {a: [x]}\nprompts: [{text: x, checks: [{check: number, value: '{a}'}]}]",
            "prompts[0].checks[0].value: could not convert",
        ),
        ("variables: {a: [x]}\nchecks: [{check: number, value: '{a}'}]\nprompts: [{text: x}]", "checks[0].value: could not"),
        ("variables: {a: [1]}\nprompts: [{turns: [{text: x}, {text: '{b}'}]}]", "prompts[0].turns[1].text: there is no"),
        (
            "variables: {a: [{k: 1}]}\nprompts: [{text: '{a.q}'}]",
            "prompts[0].text: variable 'a' has no 'q' in {'k': 1}; one of k",
        ),
        ("variables: {a: [{k: 1}]}\nprompts: [{text: 'x {a}'}]", "prompts[0].text: {a} has several values; name one of them"),
        ("variables: {a: [1]}\nprompts: [{text: '{a.q}'}]", "prompts[0].text: variable 'a' is 1 and has no keys; write {a}"),
        ("variables: {a: {formula: b + 1}}\nprompts: [{text: x}]", "variables.a.formula: there is no variable 'b'"),
        ("prompts: [{text: x, variables: {a: {formula: b}}}]", "prompts[0].variables.a.formula: there is no variable 'b'"),
        (
            "variables: {b: [x], a: {formula: b + 1}}\nprompts: [{text: x}]",
            "variables.a.formula: 'b' is 'x', and a formula needs",
        ),
        ("variables: {a: {formula: 1 // 0}}\nprompts: [{text: x}]", "variables.a.formula: '1 // 0' divides by nought"),
        ("variables: {a: {formula: 1 +}}\nprompts: [{text: x}]", "variables.a.formula: '1 +' is no formula; use numbers"),
        ("variables: {a: {formula: min(1)}}\nprompts: [{text: x}]", "variables.a.formula: 'min(1)' is not understood"),
    ],
)
def test_a_mistake_about_variables_names_file_and_key(tmp_path, body, says):
    """In one line, wherever the variable is used."""
    found = loaded(tmp_path, body)
    with pytest.raises(UsageError) as mistake:
        scenario.cases(found)
    assert str(mistake.value).startswith(f"{found.where}: {says}")
    assert found.where.endswith(".yaml")
    assert "\n" not in str(mistake.value)


def test_a_mistake_in_a_file_of_prompts_names_that_file(tmp_path):
    """The scenario's variables are filled in there, too."""
    (tmp_path / "asked.jsonl").write_text('{"prompt": "{a}"}\n{"prompt": "{b}"}\n')
    found = loaded(tmp_path, "variables: {a: [1]}\nfile: {path: asked.jsonl}")
    with pytest.raises(UsageError, match=r"asked\.jsonl: prompts\[1\]\.text: there is no variable 'b'"):
        scenario.cases(found)


def test_what_was_drawn_travels_with_the_case(tmp_path):
    """For checks of a locustfile, and not in the plan's hash: the texts are."""
    drawn = scenario.cases(loaded(tmp_path, "variables: {a: {range: [1, 9]}}\nprompts: [{text: 'x {a}'}]"))[0]
    assert drawn.turns[0].messages[0]["content"] == f"x {drawn.variables['a']}"


@pytest.mark.parametrize("formula", ["a ** 9", "__import__('os')", "a.b.c", "a if a else 1", "open('x')"])
def test_a_formula_is_arithmetic_and_nothing_else(tmp_path, formula):
    """A scenario file that somebody sent can't run code."""
    found = loaded(tmp_path, f"variables: {{a: [2], b: {{formula: \"{formula}\"}}}}\nprompts: [{{text: '{{b}}'}}]")
    with pytest.raises(UsageError):
        scenario.cases(found)


@given(a=st.integers(-99, 99), b=st.integers(1, 99))
def test_formulas_are_pythons(a, b):
    """The same value as Python's own."""
    assert max(a, b) * 3 - (a + b) // b % 7 == evaluate("max(a, b) * 3 - (a + b) // b % 7", {"a": a, "b": b})


def test_a_place_that_is_a_whole_text_keeps_its_type():
    """Expected numbers stay numbers."""
    assert fill({"n": "{n}", "text": "{n} x"}, {"n": 3}) == {"n": 3, "text": "3 x"}


def test_rows_of_values_belong_together():
    """A mapping is drawn as one, so that a capital goes with its country."""
    rows = ({"country": "France", "city": "Paris"}, {"country": "Peru", "city": "Lima"})
    for seed in range(20):
        values = draw({"place": Variable(of=rows)}, random.Random(seed))
        assert fill("{place.city}/{place.country}", values) in ("Paris/France", "Lima/Peru")


def test_a_mix_draws_by_weight():
    """Every member is there, and the heavier one more often."""
    drawn = scenario.cases(scenario.find("mixed"), count=200, member=scenario.find)
    counts = {name: sum(case.facts.scenario == name for case in drawn) for name in ("short", "code", "tools")}
    assert sum(counts.values()) == 200
    assert counts["short"] > counts["code"] > 0
    assert len({case.facts.case for case in drawn}) == 200


def test_a_conversation_has_one_salt_and_a_question_none_to_share():
    """Turns share the prefix cache; questions don't."""
    assert scenario.cases(scenario.find("chat"))[0].salt_group is not None
    assert scenario.cases(scenario.find("short"))[0].salt_group is None


@pytest.mark.parametrize(("cache", "facts", "group"), [("shared", "shared", "run"), ("none", "none", None)])
def test_cache_policies(tmp_path, cache, facts, group):
    """The declared policy is in the facts and in who shares a salt."""
    case = scenario.cases(loaded(tmp_path, f"cache: {cache}\nprompts: [{{text: hi}}]"))[0]
    assert (facts, group) == (case.facts.cache, case.salt_group)


def test_a_warm_scenario_keeps_its_salt_between_warm_up_and_rounds(tmp_path):
    """Primed once, then measured warm."""
    case = scenario.cases(loaded(tmp_path, "cache: warm\nprompts: [{text: hi}]"))[0]
    assert case.salt_group is not None
    assert "{" not in case.salt_group


@pytest.mark.parametrize(
    ("form", "line", "asked", "turns"),
    [
        ("plain", '{"prompt": "Hi {there}", "answer": "Hello"}', "Hi {there}", 1),
        ("plain", '"Just text"', "Just text", 1),
        ("chat", '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}', "Hi", 1),
        (
            "sharegpt",
            '{"conversations": [{"from": "human", "value": "One"}, {"from": "gpt", "value": "x"}, '
            '{"from": "human", "value": "Two"}]}',
            "One",
            2,
        ),
    ],
)
def test_prompts_of_ones_own(tmp_path, form, line, asked, turns):
    """Plain, chat and ShareGPT lines, beside the scenario file."""
    (tmp_path / "p.jsonl").write_text(line + "\n\n", encoding="utf-8")
    case = scenario.cases(loaded(tmp_path, f"file: {{path: p.jsonl, form: {form}}}"))[0]
    assert (asked, turns) == (case.turns[0].messages[-1]["content"], len(case.turns))
    assert ("answer" in line) == bool(case.turns[0].checks)


@pytest.mark.parametrize(
    ("line", "says"),
    [("{", "no JSON"), ("[1]", "JSON object"), ('{"text": "x"}', "prompt: is missing"), ("", "no prompts")],
)
def test_a_wrong_line_is_named(tmp_path, line, says):
    """File and line, as an editor counts them."""
    (tmp_path / "p.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(UsageError, match=says) as mistake:
        scenario.cases(loaded(tmp_path, "file: {path: p.jsonl}"))
    assert "p.jsonl" in str(mistake.value)


def test_a_sample_of_a_file_is_drawn_by_seed(tmp_path):
    """The same lines for the same seed, in the file's order."""
    (tmp_path / "p.jsonl").write_text("".join(f'"prompt {n:02}"\n' for n in range(50)), encoding="utf-8")
    found = loaded(tmp_path, "file: {path: p.jsonl, sample: 5}")

    def asked(seed: int) -> list[str]:
        return [case.turns[0].messages[0]["content"] for case in scenario.cases(found, Drawing(seed=seed))]

    assert asked(1) == asked(1) == sorted(asked(1))
    assert asked(1) != asked(2)


def test_a_speed_workload_is_never_warm(tmp_path):
    """It asks nothing twice, so nothing could have primed it."""
    found = loaded(tmp_path, "cache: warm\nprompts: [{text: hi}]")
    case = scenario.cases(found, Drawing(speed=True))[0]
    assert (case.facts.cache, case.salt_group) == ("cold", None)
