"""Scenarios asked for real: of the simulator, which finds answers in the text, and of a vLLM, whose counts are the truth."""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from loadkit import preflight, scenario
from loadkit.case import Case
from loadkit.checks import judge, overall
from loadkit.client import Client
from loadkit.documents import archive_cases, prepare
from loadkit.plan import sequence
from loadkit.record import Answer, Phase, Record, Slot
from loadkit.request import Target, first_request, has_next, next_request
from loadkit.scenario import Drawing
from loadkit.server import Server
from loadkit.tokens import ServerTokenizer
from simulator_process import Simulator, simulator

Asked = list[tuple[Case, Record, Answer]]


async def asked(target: Target, cases: Sequence[Case], run_id: str | None = None) -> Asked:
    """Every turn of every case, one after the other, with the verdict on its answer; a run of its own, so that it is cold."""
    run_id = uuid.uuid4().hex if run_id is None else run_id
    found: Asked = []
    async with Client(target) as client:
        for case in cases:
            records: list[Record] = []
            while has_next(case, records):
                place = {"id": f"{case.facts.case}-{len(records)}", "target": target, "slot": Slot(round=1), "run_id": run_id}
                request = next_request(case, records, **place) if records else first_request(case, **place)
                records.append(await client.send(request))
                verdicts = [judge(records[-1], spec) for spec in request.checks]
                found.append((case, records[-1], overall(verdicts)))
    return found


async def about_documents(url: str, folder: Path, name: str, *, rungs: Sequence[float], budget: int = 2048) -> Asked:
    """The cases of an archive, fitted on that server and asked there."""
    found = await preflight.look(Target(base_url=url, model=""))
    made = await archive_cases(
        scenario=name,
        target={key: getattr(found.target, key) for key in ("base_url", "model", "max_model_len", "dialect")},
        folder=str(folder),
        rungs_k=rungs,
        drawing={"long_max_tokens": budget},
        cache={"block_size": found.block_size, "drops_last_block": found.drops_last_block},
        counts_agree=found.counts_agree,
    )
    return await asked(found.target, made.cases)


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    """One for all that ask a sound model: each asks under a run id of its own, so it finds nothing of the others cached."""
    with simulator() as running:
        yield running


@pytest.mark.parametrize("name", ["short", "code", "tools", "smoke", "chat"])
async def test_a_sound_model_is_right_in_every_scenario(sim, name):
    """Every prompt can be answered from its own text, and the right answer is recognised."""
    target = Target(base_url=sim.base_url, model=sim.model)
    answers = await asked(target, scenario.cases(scenario.find(name), Drawing(seed=3), count=6))
    assert {answer for _, _, answer in answers} == {Answer.CORRECT}


@pytest.mark.parametrize(("name", "rungs"), [("retrieval", [4, 8]), ("retrieval-zh", [8]), ("prefix", [8])])
async def test_lengths_and_hits_are_as_planned(sim, tmp_path, name, rungs):
    """usage = plan for every request; cached = formula; and the record asked for is found."""
    answers = await about_documents(sim.base_url, tmp_path, name, rungs=rungs)
    for case, record, answer in answers:
        assert record.usage.prompt_tokens == case.facts.planned_prompt_tokens
        assert record.usage.cached_tokens == case.facts.expected_cached_tokens
        assert answer is Answer.CORRECT
    assert any(case.facts.expected_cached_tokens for case, _, _ in answers)


async def test_the_answers_of_cold_and_warm_are_the_same(sim, tmp_path):
    """At temperature 0 a cached prefix changes no word (on the simulator, whose answers depend on the prompt alone)."""
    answers = await about_documents(sim.base_url, tmp_path, "prefix", rungs=[8])
    pairs: dict[str, set[str | None]] = {}
    for case, record, _ in answers:
        pairs.setdefault(case.facts.tags["pair"], set()).add(record.answer)
    assert [len(said) for said in pairs.values()] == [1] * len(pairs)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--wrong", "1"), {Answer.WRONG, Answer.WRONG_DISTRACTOR}),
        (("--hedged", "1"), {Answer.HEDGED}),
        (("--refused", "1"), {Answer.REFUSED}),
    ],
)
async def test_a_model_that_misbehaves_is_found_out(tmp_path, options, expected):
    """Each way to be wrong about a record has its word."""
    with simulator(*options) as sim:
        answers = await about_documents(sim.base_url, tmp_path, "retrieval", rungs=[8])
    present = [answer for case, _, answer in answers if "depth" in case.facts.tags]
    assert present
    assert set(present) <= expected


async def test_a_model_that_overthinks_has_no_answer(tmp_path):
    """The budget ends in the thinking: `length`, and nothing to judge."""
    with simulator("--overthinking", "1") as sim:
        answers = await about_documents(sim.base_url, tmp_path, "retrieval", rungs=[8], budget=256)
    assert {(record.finish_reason, answer) for _, record, answer in answers} == {("length", Answer.NO_ANSWER)}


async def test_a_cache_that_is_off_is_seen_in_each_request(tmp_path):
    """Declared warm, found cold."""
    with simulator("--no-prefix-caching") as sim:
        answers = await about_documents(sim.base_url, tmp_path, "retrieval", rungs=[8])
    warm = [(case, record) for case, record, _ in answers if case.facts.cache == "warm"]
    assert all(record.usage.cached_tokens == 0 < case.facts.expected_cached_tokens for case, record in warm)


async def test_a_draft_model_costs_a_block():
    """With MTP the expected hit is one block less, as preflight learns from /server_info."""
    with simulator("--drafts", "2", "--draft-method", "mtp", "--dev-mode") as sim:
        found = await preflight.look(Target(base_url=sim.base_url, model=""))
    assert found.drops_last_block is True


async def test_two_runs_of_one_seed_share_nothing_in_the_cache(sim, tmp_path):
    """Another run id is another salt: the same documents are cold again."""
    target = Target(base_url=sim.base_url, model=sim.model)
    cases = scenario.cases(scenario.find("chat"), Drawing(seed=1), count=1)
    first = await asked(target, cases, "one")
    second = await asked(target, cases, "two")
    assert [first[0][1].usage.cached_tokens, second[0][1].usage.cached_tokens] == [0, 0]
    assert first[-1][1].usage.cached_tokens > 0


async def test_a_warm_scenario_is_primed_and_then_found_warm(sim, tmp_path):
    """The plan asks each case once as a warm-up; the measured one finds its own prompt cached."""
    text = " ".join(f"Line {number} of the notes." for number in range(60))
    (tmp_path / "notes.yaml").write_text(f"name: notes\ncache: warm\nprompts:\n  - text: {text} How many lines are there?\n")
    plan = sequence(scenario.cases(scenario.load(tmp_path / "notes.yaml")), name="notes")
    assert [stage.phase for stage in plan.stages] == [Phase.WARMUP, Phase.MEASURED]
    target = Target(base_url=sim.base_url, model=sim.model)
    async with Client(target) as client:
        items = [item for stage in plan.stages for item in stage.items]
        sent = [first_request(item.case, id=item.id, target=target, slot=item.slot, run_id="r") for item in items]
        records = [await client.send(request) for request in sent]
    assert records[0].usage.cached_tokens == 0 < records[1].usage.cached_tokens


@pytest.mark.vllm
@pytest.mark.timeout(800)
async def test_a_real_vllm_agrees_with_plan_and_formula(tmp_path, vllm_server):
    """Exact lengths and hits on the real thing; its answers are noise, so they are not looked at."""
    answers = await about_documents(f"{vllm_server()}/v1", tmp_path, "prefix", rungs=[4], budget=16)
    for case, record, _ in answers:
        assert record.usage.prompt_tokens == case.facts.planned_prompt_tokens
        assert record.usage.cached_tokens == case.facts.expected_cached_tokens
    assert sum(record.usage.cached_tokens for _, record, _ in answers) > 0


@pytest.mark.vllm
@pytest.mark.timeout(800)
async def test_a_real_vllm_takes_every_body(vllm_server):
    """No scenario is refused: tools, conversations, JSON of all shapes."""
    target = (await preflight.look(Target(base_url=f"{vllm_server()}/v1", model=""))).target
    for name in ("short", "code", "tools", "smoke", "chat"):
        answers = await asked(target, scenario.cases(scenario.find(name), Drawing(max_tokens=8), count=3))
        assert {record.http_status for _, record, _ in answers} == {200}


async def test_a_scenario_of_ones_own_is_asked(sim, tmp_path):
    """From file to verdict, with a system message and a JSONL file."""
    (tmp_path / "sums.jsonl").write_text('{"prompt": "What is 17 * 23? Answer with the number alone.", "answer": "391"}\n')
    (tmp_path / "sums.yaml").write_text("name: sums\nsystem: Be brief.\nfile: {path: sums.jsonl}\n")
    target = Target(base_url=sim.base_url, model=sim.model)
    answers = await asked(target, scenario.cases(scenario.load(tmp_path / "sums.yaml")))
    assert [answer for _, _, answer in answers] == [Answer.CORRECT]


def test_the_fit_of_a_document_asks_the_server_as_often_as_allowed(sim, tmp_path):
    """Three calls of /tokenize a document, one a question; the truth log of the simulator is not needed to count them."""

    async def calls() -> tuple[int, int]:
        target = Target(base_url=sim.base_url, model=sim.model, max_model_len=131072)
        async with Server(target) as server:
            tokenizer = ServerTokenizer(server)
            found = scenario.find("retrieval")
            made = await prepare(found, Drawing(), tokenizer, target=target, folder=tmp_path, rungs_k=[8, 64])
            return tokenizer.calls, len(made.documents)

    used, documents = asyncio.run(calls())
    assert used <= documents * (3 + 3)  # middle, back and absent; the front one is the document's own
