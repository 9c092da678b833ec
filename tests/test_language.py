"""Sentences in English and Chinese: complete, with the same placeholders, found from phrases."""

import ast
import re
import string
from pathlib import Path

import pytest

from loadkit.language import gloss, language_of, language_of_browser, say, table

PACKAGE = Path(__file__).parents[1] / "src" / "loadkit"
NO_SENTENCE = {"n", "N"}


def sentences() -> set[str]:
    """What the package passes to `say`, in Python, templates and scripts."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        speaks_here = (
            "loadkit.language" in text or "report.html.view" in text
        )  # the engine says things to Locust, not to people
        for node in ast.walk(ast.parse(text)) if speaks_here else ():
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                speaks = name == "say" and isinstance(node.args[0].value, str)
                found |= {node.args[0].value} if speaks else set()
    for path in PACKAGE.rglob("assets/*.js"):
        found |= set(re.findall(r'\bsay\("([^"]+)"\)', path.read_text()))
    for path in PACKAGE.rglob("templates/*.html"):
        found |= set(re.findall(r"\bsay\(['\"]([^'\"]+)['\"]\)", path.read_text()))
    return found - NO_SENTENCE


def placeholders(sentence: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None)


def test_every_sentence_has_its_chinese():
    """A sentence that the package says in English can be said in Chinese."""
    assert sentences() - set(table("zh")) == set()


def test_the_words_of_tables_and_lines_that_are_passed_as_variables_have_theirs():
    """The list of runs with its states, and the phase of a stage: words that no call of `say` shows."""
    heads, states = ("run", "label", "state", "exit code", "headline"), ("running", "finished", "interrupted", "aborted")
    assert {*heads, *states, "warm-up"} - set(table("zh")) == set()


def test_the_sentences_of_a_comparison_have_theirs():
    """Its words stand in tables and variables, where no call of `say` shows them: every text of more than a word counts."""
    tree = ast.parse((PACKAGE / "report" / "comparison" / "words.py").read_text())
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
    docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    sentences = {text for text in texts - docstrings if " " in text.strip() and not text.startswith(" ")}
    assert sentences - set(table("zh")) == set()


def test_placeholders_are_the_same_on_both_sides():
    """A translation neither drops a figure nor asks for one that is not given."""
    assert [key for key, chinese in table("zh").items() if placeholders(key) != placeholders(chinese)] == []


def test_a_headline_is_translated_phrase_by_phrase():
    """Numbers and names stay, words change, signs between phrases stay."""
    headline = "COMPLETED 24/24 · CORRECT 23/24 (1 wrong) · HOST UNSTABLE (oom_kill +4 at 23:28:31) → FAIL (4)"
    assert gloss(headline, "zh") == "完成 24/24 · 正确 23/24 (1 错误) · 主机不稳定 (oom_kill +4，23:28:31) → 不通过 (4)"


def test_english_is_left_alone():
    """In English a headline is what the verdict said."""
    assert gloss("COMPLETED 1/1 → PASS (0)", "en") == "COMPLETED 1/1 → PASS (0)"


def test_an_unknown_phrase_stays_english():
    """Better an English reason than none."""
    assert gloss("something new (7 times)", "zh") == "something new (7 times)"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "en_GB.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LOADKIT_LANG": "zh", "LC_ALL": "C"}, "zh"),
        ({"LOADKIT_LANG": "klingon", "LANG": "zh_CN"}, "en"),
    ],
)
def test_the_language_comes_from_the_environment(environ, expected):
    """LOADKIT_LANG wins over LC_ALL, which wins over LANG."""
    assert language_of(environ) == expected


@pytest.mark.parametrize(
    ("header", "environ", "expected"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", {}, "zh"),
        ("en;q=0.7,zh;q=0.9", {}, "zh"),
        ("de-DE,zh;q=0.5", {}, "en"),
        ("zh-CN", {"LOADKIT_LANG": "en"}, "en"),
        ("", {"LANG": "zh_CN.UTF-8"}, "zh"),
        ("zh;q=nonsense", {}, "zh"),
    ],
)
def test_a_page_speaks_the_browser_s_language(header, environ, expected):
    """Unless LOADKIT_LANG says otherwise."""
    assert language_of_browser(header, environ) == expected


def test_figures_enter_the_sentence():
    """Placeholders are filled in either language."""
    assert say("{done} done", "zh", done="3/21") == "已完成 3/21"
