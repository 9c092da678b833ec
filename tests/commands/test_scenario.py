import json
from pathlib import Path

import pytest

import command_line
from command_line import Done, loadkit
from odd_servers import Odd, serving

SCENARIOS = Path(__file__).parents[2] / "scenarios"


def scenario(*words: str, process: bool = False) -> Done:
    return loadkit("scenario", *words, process=process)


def test_check_says_what_a_file_holds():
    """Cases, requests and checks, counted."""
    done = scenario("check", str(SCENARIOS / "chat.yaml"), "retrieval")
    assert done.returncode == 0
    assert "ok: 1 case(s), 5 request(s), 5 check(s)" in done.stdout
    assert "questions front, middle, back, front, absent" in done.stdout


def test_check_ends_with_the_first_mistake(tmp_path):
    """One line on stderr that names file, key and remedy; exit 2."""
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\npromts: []\n", encoding="utf-8")
    done = scenario("check", str(path), process=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == f"loadkit: {path}: promts: unknown key; did you mean 'prompts'?"


def test_a_list_in_a_pipe_is_not_padded():
    """Wide enough for its titles, and without spaces at the ends of lines."""
    lines = scenario("list").stdout.splitlines()
    assert any("retrieval" in line for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_show_labels_an_estimate():
    """Without a server the counts are estimates, and say so."""
    done = scenario("show", "smoke")
    assert done.stdout.count("tokens, estimated") == 3
    assert 'check: {"check":"number"' in done.stdout


def test_show_asks_a_server_for_exact_counts():
    """With --host the counts are the server's own."""
    with serving(Odd(counted=123)) as url:
        done = scenario("show", "smoke", "--host", url.removesuffix("/v1"))
    assert done.stdout.count("123 tokens by the server") == 3


@pytest.mark.parametrize(
    ("host", "key", "words"),
    [
        ("ftp://spark", "", "--host: 'ftp://spark' is no address of a server; write http://host:8000"),
        ("http://spark:99999", "", "is no address of a server"),
        ("http://127.0.0.1:1", "a\nb", "OPENAI_API_KEY: holds what no header can carry"),
    ],
)
def test_show_checks_host_and_key_as_a_run_does(host, key, words, monkeypatch):
    """One line and exit 2, before anything is sent."""
    monkeypatch.setitem(command_line.ENVIRONMENT, "OPENAI_API_KEY", key)
    done = scenario("show", "smoke", "--host", host)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert words in done.stderr


def test_show_prints_whole_bodies():
    """One JSON object a line, as it would be sent."""
    done = scenario("show", "tools", "--bodies")
    bodies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [body["tool_choice"] for body in bodies] == ["auto"] * 3
    assert len({body["cache_salt"] for body in bodies}) == 3


@pytest.mark.parametrize("name", ["short", "retrieval-zh"])
def test_list_names_what_there_is(name):
    """The bundled scenarios can be named from anywhere."""
    assert name in scenario("list").stdout
