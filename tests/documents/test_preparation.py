import asyncio
import json
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from loadkit import scenario
from loadkit.documents import Cache, archive_cases, cases, prepare, rung_tokens
from loadkit.documents.inputs import load
from loadkit.errors import UsageError
from loadkit.record import Slot
from loadkit.request import Target, first_request, wire_body
from loadkit.scenario import Drawing

from .tokenizers import Chat, bytewise

TARGET = Target(base_url="http://127.0.0.1:1/v1", model="m", max_model_len=40_000)
DRAWING = Drawing(long_max_tokens=512)


def prepared(folder: Path, name: str = "retrieval", rungs=(10,), **arguments):
    found = scenario.find(name)
    made = asyncio.run(prepare(found, DRAWING, Chat(bytewise()), target=TARGET, folder=folder, rungs_k=rungs, **arguments))
    return found, made


@pytest.mark.parametrize(("rung", "tokens"), [(8, 8192), (32, 32_768), (256, 40_000 - 512 - 128)])
def test_a_rung_leaves_room_for_the_budget(rung, tokens):
    """min(K·1024, max_model_len − budget − 128)."""
    assert rung_tokens(rung, budget=512, max_model_len=40_000) == tokens
    assert rung_tokens(rung, budget=512, max_model_len=None) == rung * 1024


def test_rungs_that_the_limit_makes_equal_are_made_once(tmp_path):
    """And what was left out is said, and what a rung beyond the limit became."""
    _, made = prepared(tmp_path, rungs=(38, 64, 128))
    assert [document.tier for document in made.documents] == ["38K", "38K", "39K", "39K"]
    assert made.notes[0] == "39K in place of 64K: the server's limit is 40000 tokens"
    assert "128K left out" in made.notes[1]


def test_inputs_are_replayed_byte_for_byte(tmp_path):
    """What one run saved, another asks again: same bodies but for the salt."""
    found, made = prepared(tmp_path)
    assert load(tmp_path, "retrieval") == made
    replayed = asyncio.run(
        archive_cases(
            scenario="retrieval",
            target={"base_url": TARGET.base_url, "model": "m", "max_model_len": 40_000},
            folder=str(tmp_path / "second"),
            inputs=str(tmp_path),
            drawing={"long_max_tokens": 512},
        )
    )
    first = cases(made, tmp_path, found, DRAWING)
    assert [case.facts for case in replayed.cases] == [case.facts for case in first]

    def bodies(of, run_id):
        sent = (first_request(case, id="q", target=TARGET, slot=Slot(round=1), run_id=run_id) for case in of)
        return [{**orjson.loads(wire_body(request)), "cache_salt": ""} for request in sent]

    assert bodies(replayed.cases, "two") == bodies(first, "one")


def test_a_document_that_was_changed_is_refused(tmp_path):
    """A hash stands beside each document."""
    _, made = prepared(tmp_path)
    (tmp_path / made.documents[0].file).write_text("something else", encoding="utf-8")
    with pytest.raises(UsageError, match="hash differs"):
        load(tmp_path, "retrieval")


@pytest.mark.parametrize(("rungs", "says"), [((99,), "there are 10K"), ((), None)])
def test_rungs_choose_among_saved_inputs(tmp_path, rungs, says):
    """A rung that was not saved is a mistake, with what there is."""
    prepared(tmp_path)
    asked = archive_cases(
        scenario="retrieval",
        target={"base_url": TARGET.base_url, "model": "m"},
        folder=str(tmp_path / "second"),
        inputs=str(tmp_path),
        rungs_k=rungs,
    )
    if says is None:
        assert len(asyncio.run(asked).cases) == 10
    else:
        with pytest.raises(UsageError, match=says):
            asyncio.run(asked)


def test_a_replayed_prompt_over_the_limit_is_refused(tmp_path):
    """prompt + budget ≤ max_model_len is checked before anything is sent."""
    prepared(tmp_path)
    with pytest.raises(UsageError, match="over the server's limit of 10000"):
        asyncio.run(
            archive_cases(
                scenario="retrieval",
                target={"base_url": TARGET.base_url, "model": "m", "max_model_len": 10_000},
                folder=str(tmp_path / "second"),
                inputs=str(tmp_path),
            )
        )


def test_a_server_whose_counts_disagree_is_refused(tmp_path):
    """No length can be planned on it."""
    with pytest.raises(UsageError, match="counts prompts differently"):
        asyncio.run(archive_cases(scenario="retrieval", target={}, folder=str(tmp_path), counts_agree=False))


def test_questions_about_a_document_share_a_salt(tmp_path):
    """The first is cold, the later ones warm; each round is cold again; another document never shares."""
    found, made = prepared(tmp_path)
    asked = cases(made, tmp_path, found, DRAWING, Cache(block_size=16))

    def salts(round_number):
        place = Slot(round=round_number)
        sent = [first_request(case, id="q", target=TARGET, slot=place, run_id="r") for case in asked]
        return [request.case.cache_salt for request in sent]

    assert [case.facts.cache for case in asked[:5]] == ["cold", "warm", "warm", "warm", "warm"]
    assert len(set(salts(1)[:5])) == 1
    assert len(set(salts(1) + salts(2))) == 4


def test_the_expected_hit_is_whole_blocks_of_what_is_shared(tmp_path):
    """By the formula, from the ids of the two prompts; nothing where the block size is unknown."""
    found, made = prepared(tmp_path)
    shared = made.documents[0].questions[1].shared_tokens
    for drops, hit in ((False, shared // 16 * 16), (True, shared // 16 * 16 - 16), (None, shared // 16 * 16 - 16)):
        front, middle, *_ = cases(made, tmp_path, found, DRAWING, Cache(block_size=16, drops_last_block=drops))
        assert (front.facts.expected_cached_tokens, middle.facts.expected_cached_tokens) == (0, hit)
    assert cases(made, tmp_path, found, DRAWING)[1].facts.expected_cached_tokens is None


def test_facts_say_where_the_needle_was(tmp_path):
    """Depth, document, question and order are there for the tables; the absent key has no depth."""
    found, made = prepared(tmp_path)
    asked = cases(made, tmp_path, found, DRAWING)
    assert [case.facts.tags["question"] for case in asked[:5]] == ["front", "middle", "back", "front again", "absent"]
    assert [case.facts.tags.get("depth") for case in asked[:5]] == [0.05, 0.5, 0.95, 0.05, None]
    assert (asked[4].turns[0].checks[0]["value"], asked[4].turns[0].checks[0]["absent"]) == ("NONE", True)
    assert {case.facts.planned_prompt_tokens for case in asked if case.facts.tags["order"] == 1} == {10 * 1024}


def test_a_prefix_scenario_asks_each_question_cold_as_well(tmp_path):
    """So that the answers of cold and warm can be compared word for word."""
    found, made = prepared(tmp_path, "prefix")
    asked = cases(made, tmp_path, found, DRAWING)
    pairs: dict[str, set[str]] = {}
    for case in asked:
        pairs.setdefault(case.facts.tags["pair"], set()).add(case.facts.cache)
    assert set(map(frozenset, pairs.values())) == {frozenset({"cold", "warm"})}


def test_an_estimate_is_never_a_plan(tmp_path):
    """Without the server's tokenizer there is no planned length, only an estimate that is labelled so."""
    found, made = prepared(tmp_path)
    case = cases(replace(made, exact=False), tmp_path, found, DRAWING)[0]
    assert case.facts.planned_prompt_tokens is None
    assert case.facts.tags["estimated_prompt_tokens"] == 10 * 1024


def test_the_document_holds_no_instructions(tmp_path):
    """A needle that looked like an injection was refused once; these are records, all of one form."""
    _, made = prepared(tmp_path)
    text = (tmp_path / made.documents[0].file).read_text(encoding="utf-8")
    assert not any(word in text.lower() for word in ("secret", "password", "remember", "ignore", "instruction"))
    assert all(line.startswith(("Archive ", "Project ")) for line in text.splitlines())
    assert json.loads((tmp_path / "retrieval.json").read_text(encoding="utf-8"))["documents"][0]["sha256"]
