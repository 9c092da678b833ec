"""loadkit's own scenarios, asked of the simulator's mind and judged by loadkit's own checks (neither knows the other)."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loadkit import scenario
from loadkit.checks import judge
from loadkit.documents.archive import make, question
from loadkit.record import CaseFacts, Outcome, Record, Slot, ToolCall
from loadkit.scenario.cases import Drawing, cases
from loadkit.simulator.mind import Mind, Question
from loadkit.simulator.script import Thought
from loadkit.simulator.settings import Manners

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FACTS = CaseFacts(scenario="s", case="c", workload="quality")


def verdicts(name: str, manners: Manners, *, count: int = 24) -> Counter[str]:
    """How the checks judge the answers to a scenario's cases, every turn of them."""
    found: Counter[str] = Counter()
    for case in cases(scenario.load(SCENARIOS / f"{name}.yaml"), Drawing(seed=5), count=count):
        messages: list[dict[str, Any]] = []
        for turn in case.turns:
            messages += [*turn.messages, *({"role": "tool", "content": result} for result in turn.tool_results.values())]
            tools = tuple(case.body.get("tools") or ())
            choice = str(case.body.get("tool_choice", "auto")) if tools else "none"
            seed = random.Random(len(messages) + len(found)).randrange(9999)
            thought = Mind(manners).think(Question(messages=tuple(messages), seed=seed, tools=tools, tool_choice=choice), 0)
            messages.append({"role": "assistant", "content": thought.answer})
            found.update(str(judge(record(thought), check).answer) for check in turn.checks)
    return found


def record(thought: Thought) -> Record:
    calls = tuple(
        ToolCall(index=place, id=f"call-{place}", name=call.name, arguments=call.arguments)
        for place, call in enumerate(thought.calls)
    )
    return Record(
        id="r", slot=Slot(), case=FACTS, outcome=Outcome.COMPLETED, due_ns=0, finish_reason="tool_calls" if calls else "stop",
        answer=thought.answer or None, tool_calls=calls,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["short", "code", "tools", "smoke", "chat"])
def test_every_answer_is_right(name: str):
    """A simulator with good manners is right about everything that the scenarios ask."""
    assert set(verdicts(name, Manners())) == {"correct"}


@pytest.mark.parametrize(("manner", "word"), [("wrong", "wrong"), ("refused", "refused"), ("hedged", "hedged")])
def test_bad_manners_are_found_out(manner: str, word: str):
    """A rate of 1 makes every short answer wrong, refused or hedged, in the checks' words."""
    assert set(verdicts("short", Manners(**{manner: 1.0}))) == {word}


def test_rates_are_shares():
    """At a rate of one half about half of the answers are wrong."""
    found = verdicts("short", Manners(wrong=0.5), count=200)
    assert 0.35 < found["wrong"] / sum(found.values()) < 0.65


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(("manner", "word"), [(None, "correct"), ("wrong", "wrong_distractor"), ("hedged", "hedged")])
def test_archives_are_read(language: Any, manner: str | None, word: str):
    """Needles and absent keys of an archive with near-duplicates; a wrong answer is a near-duplicate's."""
    manners = Manners(**{manner: 1.0}) if manner else Manners()
    archive = make("seed", language=language, depths=("front", "middle", "back"), distractors=3, records=400)
    entries = [*archive.filler, *archive.needles.values(), *(entry for near in archive.near.values() for entry in near)]
    random.Random(1).shuffle(entries)
    text = archive.header + "".join(entry.line for entry in entries)
    asked = [(name, entry.key, entry.code) for name, entry in archive.needles.items()] + [("absent", archive.absent, "NONE")]
    for name, key, value in asked:
        thought = Mind(manners).think(Question(messages=({"role": "user", "content": text + question(language, key)},)), 0)
        near = [{"value": entry.code, "depth": 0.5} for entry in archive.near[name]]
        spec = {"check": "answer_line", "value": value, "distractors": near, **({"absent": True} if name == "absent" else {})}
        assert str(judge(record(thought), spec).answer) == word, (name, thought.answer)


def test_overthinking_uses_up_the_budget():
    """A model that overdoes it thinks far longer than its median."""
    from loadkit.encoding import bundled

    asked = Question(messages=({"role": "user", "content": "What is 2 + 2?"},))
    thinking = Mind(Manners(overthinking=1.0)).think(asked, 0).thinking
    assert len(bundled().encode(thinking or "")) > 1000


def test_json_by_schema():
    """A response_format with a schema gets an object of that schema."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["city", "count"],
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    asked = Question(messages=({"role": "user", "content": "There are 12 bridges in Porto; as JSON please."},), form=form)
    assert json.loads(Mind(Manners()).think(asked, 0).answer) == {"city": "Porto", "count": 12}
