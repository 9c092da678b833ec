"""The main job on a real vLLM: what the records say is what the server counted, with and without speculative decoding."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from locust_process import CONCURRENCY, ROOT, Locust, locust

from conftest import SPECULATIVE
from loadkit import preflight, scenario
from loadkit.plan import cases_of_comparison
from loadkit.record import Outcome, Phase, Record
from loadkit.request import Request, Target, first_request
from loadkit.scenario import Drawing
from loadkit.server import Server
from loadkit.summary import summarise
from loadkit.tokens import Prompt, ServerTokenizer
from loadkit.verdict import invalid_reasons
from simulator.parity import counters

pytestmark = [pytest.mark.slow, pytest.mark.timeout(800)]

TOKENS = 24
LIMIT_S = 300
BUSY = {"client_bottleneck", "schedule_degraded"}
"""Why exit code 5 is no mistake here: the server leaves this machine's cores little time for anybody else."""

GENERATED, PROMPTS, HITS = (f"vllm:{name}_total[]" for name in ("generation_tokens", "prompt_tokens", "prefix_cache_hits"))


@dataclass(frozen=True)
class OnVllm:
    """A run that ended, and by how much the server's counters rose meanwhile, preflight's own requests left out."""

    done: Locust
    url: str
    rose: Counter[str]

    @property
    def records(self) -> tuple[Record, ...]:
        return self.done.run.records

    @property
    def target(self) -> Target:
        facts = self.done.run.manifest["target"]
        return Target(**{key: facts[key] for key in ("base_url", "model", "max_model_len", "dialect")})

    def sum_of(self, field: str) -> int:
        return sum(getattr(record.usage, field) for record in self.records)


def run_on(url: str, home: Path, *options: str, file: Path = CONCURRENCY) -> OnVllm:
    """One headless run between two looks at the counters. What preflight moves is measured by a preflight of its own."""
    looked = rise(url, lambda: asyncio.run(preflight.look(Target(base_url=f"{url}/v1", model=""))))
    with locust(home, "--host", url, "--html", str(home / "out.html"), *options, file=file) as started:
        rose = rise(url, lambda: started.wait(LIMIT_S))
    rose.subtract(looked)
    return OnVllm(started, url, rose)


def rise(url: str, work: Callable[[], Any]) -> Counter[str]:
    before = counters(url)
    work()
    after = counters(url)
    return Counter({name: round(after[name] - before.get(name, 0)) for name in (GENERATED, PROMPTS, HITS)})


def passed(run: OnVllm) -> None:
    """Exit code 0, or 5 on a busy machine and for no other reason."""
    reasons = {name for name, _ in invalid_reasons(summarise(run.done.run))}
    assert reasons <= BUSY, run.done.output
    assert run.done.process.returncode == (5 if reasons else 0), run.done.output


def asked_again(run: OnVllm) -> dict[str, Request]:
    """Each request of a comparison, made a second time from its scenario and its place in the plan."""
    drawn = scenario.cases(
        scenario.find("short"),
        Drawing(max_tokens=TOKENS, speed=True),
        count=cases_of_comparison(ways=(1, 2, 4), rounds=3),
    )
    cases = {case.facts.case: case for case in drawn}
    run_id = run.done.run.manifest["run_id"]
    return {
        record.id: first_request(cases[record.case.case], id=record.id, target=run.target, slot=record.slot, run_id=run_id)
        for record in run.records
    }


async def counted(target: Target, requests: dict[str, Request]) -> dict[str, int]:
    """What /tokenize says of each request's prompt."""
    found = {}
    async with Server(target) as server:
        tokenizer = ServerTokenizer(server)
        for id_, request in requests.items():
            body = orjson.loads(request.body)
            found[id_] = (await tokenizer.count(Prompt.of_body(body, body["messages"]))).tokens
    return found


def check_the_comparison(run: OnVllm) -> None:
    """21 measured requests whose tokens agree in records, usage, exports and the server's counters."""
    passed(run)
    assert Counter(record.slot.phase for record in run.records) == {Phase.MEASURED: 21, Phase.WARMUP: 3}
    assert {record.outcome for record in run.records} == {Outcome.COMPLETED}
    assert {record.finish_reason for record in run.records} == {"length"}
    assert {record.usage.completion_tokens for record in run.records} == {TOKENS}
    assert run.rose[GENERATED] == TOKENS * len(run.records)
    assert run.rose[PROMPTS] == run.sum_of("prompt_tokens")
    assert run.rose[HITS] == run.sum_of("cached_tokens") == 0
    for record in run.records:
        assert record.events.tokens is not None
        assert 0 <= TOKENS - sum(record.events.tokens) < TOKENS / 2, record  # the rest is text that no event could show yet
    rows = run.done.csv("requests")
    assert sum(int(row["output_tokens"]) for row in rows) == run.rose[GENERATED]
    assert (run.done.aggregated["Request Count"], run.done.aggregated["Failure Count"]) == ("21", "0")
    assert float(run.done.aggregated["Average Content Size"]) == TOKENS
    assert len(run.done.csv("stages")) == 9
    assert (run.done.home / "out.html").stat().st_size > 10_000


@pytest.fixture(scope="module")
def comparison(vllm_server: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> OnVllm:
    return run_on(vllm_server(), tmp_path_factory.mktemp("plain"), "--max-tokens", str(TOKENS))


@pytest.mark.vllm
def test_the_comparison_ends_with_what_the_server_counted(comparison: OnVllm):
    """Tokens in the records are those of usage and of the server's counters; fresh salts find nothing cached."""
    check_the_comparison(comparison)


@pytest.mark.vllm
def test_prompt_tokens_are_those_of_tokenize(comparison: OnVllm):
    """For every request, whose body is made again from the scenario, byte for byte."""
    requests = asked_again(comparison)
    assert {id_: hashlib.sha256(request.body).hexdigest() for id_, request in requests.items()} == {
        record.id: record.body_sha256 for record in comparison.records
    }
    prompts = asyncio.run(counted(comparison.target, requests))
    assert prompts == {record.id: record.usage.prompt_tokens for record in comparison.records}


@pytest.mark.vllm
def test_thinking_is_seen_as_it_streams(comparison: OnVllm):
    """A model of random weights never ends its thinking: all events are of that kind, and usage says so."""
    for record in comparison.records:
        assert (set(record.events.kinds), record.answer) == ({"r"}, None)
        assert record.reasoning
        assert record.usage.reasoning_tokens == TOKENS


@pytest.mark.vllm
def test_tool_calls_are_seen_as_they_stream(vllm_server: Callable[..., str], tmp_path: Path):
    """With tool_choice required and no thinking, every event is of a tool call, and tokens add up all the same."""
    folder = tmp_path / "scenarios"
    folder.mkdir()
    content = yaml.safe_load((ROOT / "scenarios" / "tools.yaml").read_text())
    content |= {"tool_choice": "required", "template": {"enable_thinking": False}}
    (folder / "tools.yaml").write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False))
    options = ["--scenarios", str(folder), "--scenario", "tools", "--rounds", "1", "--max-tokens", "48", "--no-sidecar"]
    run = run_on(vllm_server(), tmp_path, *options, file=ROOT / "locustfiles" / "ask.py")
    first = [record for record in run.records if record.slot.turn == 0]
    assert len(first) == 3
    for record in first:
        assert (record.outcome, set(record.events.kinds), record.answer) == (Outcome.COMPLETED, {"t"}, None)
        assert record.tool_calls[0].name in {"get_weather", "get_time", "add_event"}
    assert run.rose[GENERATED] == run.sum_of("completion_tokens")
    assert run.rose[PROMPTS] == run.sum_of("prompt_tokens")


@pytest.mark.vllm
def test_hits_in_the_exports_are_the_cached_tokens_of_the_records(vllm_server: Callable[..., str], tmp_path: Path):
    """Each request finds what the formula says; their sum is the rise of the server's counter, here and in the exports."""
    options = ["--rungs", "2", "--long-max-tokens", "16"]
    run = run_on(vllm_server(), tmp_path, *options, file=ROOT / "locustfiles" / "prefix.py")
    for record in run.records:
        assert record.outcome is Outcome.COMPLETED
        assert record.usage.prompt_tokens == record.case.planned_prompt_tokens
        assert record.usage.cached_tokens == record.case.expected_cached_tokens
    cached = run.sum_of("cached_tokens")
    assert cached == run.rose[HITS] > 0
    history = [row["prefix_hit_tokens"] for row in run.done.csv("stats_history") if row["prefix_hit_tokens"]]
    assert float(history[-1]) == cached
    seen = [float(row["prefix_hit_tokens"]) for row in run.done.csv("sidecar") if row.get("prefix_hit_tokens")]
    assert seen[-1] - seen[0] == cached
    memory = [row["mem_available_mib"] for row in run.done.csv("stats_history")]
    assert any(memory)


@pytest.mark.vllm(*SPECULATIVE)
def test_the_comparison_with_speculative_decoding(vllm_server: Callable[..., str], tmp_path: Path):
    """Events hold several tokens, and N is exact all the same."""
    run = run_on(vllm_server(*SPECULATIVE), tmp_path, "--max-tokens", str(TOKENS), "--no-sidecar")
    check_the_comparison(run)
    sizes = Counter(size for record in run.records for size in record.events.tokens or ())
    assert max(sizes) > 1
    assert len([1 for record in run.records if len(record.events.at_ns) < TOKENS]) > 0
