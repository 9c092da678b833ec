from pathlib import Path

import pytest

from loadkit import scenario
from loadkit.errors import UsageError
from loadkit.schema import read_yaml

BUNDLED = Path(__file__).parents[2] / "scenarios"


def written(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", sorted(path.stem for path in BUNDLED.glob("*.yaml")))
def test_every_bundled_scenario_is_sound(name):
    """Each can be loaded by name, and those with prompts draw their cases."""
    found = scenario.find(name)
    if found.archive is None:
        assert scenario.cases(found, member=scenario.find)


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("name: mine\npromts: []", "promts", "did you mean 'prompts'?"),
        ("name: mine\nprompts:\n  - txt: hi", "prompts[0].txt", "did you mean 'text'?"),
        ("name: mine\nsampling: {temprature: 1}\nprompts: [{text: hi}]", "sampling.temprature", "did you mean 'temperature'?"),
        ("name: mine\ncache: frsh\nprompts: [{text: hi}]", "cache", "did you mean 'fresh'?"),
        (
            "name: mine\nprompts:\n  - {text: hi, checks: [{check: exakt, value: x}]}",
            "prompts[0].checks[0]",
            "did you mean 'exact'?",
        ),
        ("name: mine\nprompts:\n  - {text: hi, checks: [{check: exact}]}", "prompts[0].checks[0].value", "add it"),
        ("name: mine\nprompts:\n  - {text: hi, checks: [{value: x}]}", "prompts[0].checks[0]", "`check: …`"),
        (
            "name: mine\nprompts:\n  - {text: hi, checks: [{check: regex, pattern: '('}]}",
            "prompts[0].checks[0].pattern",
            "regular",
        ),
        ("name: mine", "", "exactly one"),
        ("name: mine\nprompts: [{text: hi}]\nmix: {short: 1}", "", "exactly one"),
        ("name: other\nprompts: [{text: hi}]", "name", "name: mine"),
        ("name: mine\nprompts: [{text: hi, tools: [clock]}]", "", "'clock'"),
        ("name: mine\nprompts: [{text: hi}]\nvariables: {a: {range: [3, 1]}}", "variables.a", "smaller"),
        ("name: mine\nname: mine\nprompts: [{text: hi}]", "", "stands twice"),
        ("name: mine\narchive: {questions: [front, left]}", "archive", "'left'"),
        ("name: [", "", "YAML"),
        ("just text", "", "key"),
    ],
)
def test_a_mistake_names_file_key_and_remedy(tmp_path, text, key, says):
    """The first mistake in a file is one sentence that says where it is and what to do."""
    with pytest.raises(UsageError) as mistake:
        scenario.load(written(tmp_path, text))
    assert str(tmp_path / "mine.yaml") in str(mistake.value)
    assert key in str(mistake.value)
    assert says in str(mistake.value)


def test_a_yaml_mistake_names_its_line(tmp_path):
    """The line is the editor's, counted from 1."""
    with pytest.raises(UsageError, match=r"mine\.yaml:3"):
        read_yaml(written(tmp_path, "name: mine\nabout: x\nname: again"))


def test_an_unknown_name_is_told_the_closest_one():
    """`shrt` is not there, `short` is."""
    with pytest.raises(UsageError, match="did you mean 'short'"):
        scenario.find("shrt")


def test_a_file_in_the_users_folder_comes_before_the_bundled_one(tmp_path):
    """A copy that was changed is the one that is used."""
    written(tmp_path, "name: short\ntitle: Mine\nprompts: [{text: hi}]", name="short")
    assert scenario.find("short", tmp_path).title == "Mine"
    assert scenario.find("code", tmp_path).name == "code"


def test_a_folder_that_is_none_is_a_mistake(tmp_path: Path):
    """Else the bundled scenario of the same name would be measured instead of one's own, in silence."""
    with pytest.raises(UsageError, match="is no folder"):
        scenario.find("short", tmp_path / "nothing")


def test_a_name_too_long_for_a_file_is_one_that_is_not_there():
    """Not an error of the file system."""
    with pytest.raises(UsageError, match="there is no scenario"):
        scenario.find("a" * 5000)


def test_brackets_without_end_are_one_line(tmp_path: Path):
    """A file of brackets is a mistake like any other."""
    with pytest.raises(UsageError, match="nested too deeply"):
        read_yaml(written(tmp_path, "[" * 1000))
