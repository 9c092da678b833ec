"""The simulator beside a real vLLM: forty requests, and no difference but those that vLLM's source explains."""

import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import SPECULATIVE
from simulator_process import Simulator, simulator

from . import parity

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(800)]

EXPLAINED: dict[str, str] = {
    # vllm/tool_parsers: Hermes' parser streams arguments in its own steps, so how often it ran is no property of the request
    "vllm:tool_call_parser_invocations_total": "vllm/parser/metrics.py: once per delta that the parser was asked about",
}


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    with simulator("--model", "qwen-tiny", "--block-size", "128") as running:
        yield running


@pytest.fixture(scope="module")
def pairs(sim: Simulator, vllm_server: Callable[..., str]) -> dict[str, tuple[parity.Answered, parity.Answered]]:
    """Every request's answers: the simulator's, and the real one's (after a warm-up of it)."""
    real = vllm_server()
    parity.ask(real, parity.chat("warm-up", max_tokens=2))
    return {asked.name: (parity.ask(sim.url, asked), parity.ask(real, asked)) for asked in parity.REQUESTS}


def test_there_are_forty_requests():
    """The list is as long as it is said to be, and each name stands once."""
    assert len({asked.name for asked in parity.REQUESTS}) == 40


@pytest.mark.parametrize("name", [asked.name for asked in parity.REQUESTS])
def test_answers_have_the_same_shape(pairs: dict[str, Any], name: str):
    """Status, field names and order, types, nulls, order of chunks; errors word for word."""
    ours, theirs = pairs[name]
    assert (ours.status, ours.streamed) == (theirs.status, theirs.streamed)
    if ours.streamed:
        assert parity.shape_of_stream(ours) == parity.shape_of_stream(theirs)
    elif ours.status >= 400:
        assert json.loads(ours.body) == json.loads(theirs.body)
    else:
        assert parity.skeleton(json.loads(ours.body)) == parity.skeleton(json.loads(theirs.body))


@pytest.mark.parametrize("name", [asked.name for asked in parity.REQUESTS if asked.path.startswith("/v1/c")])
def test_usage_and_counters_add_up_alike(pairs: dict[str, Any], name: str):
    """Every sum that holds with the real server holds with the simulator, and the other way round."""
    ours, theirs = pairs[name]
    if ours.status == 200:
        assert parity.arithmetic(ours) == parity.arithmetic(theirs)


@pytest.mark.parametrize("name", [asked.name for asked in parity.REQUESTS])
def test_the_same_counters_move(pairs: dict[str, Any], name: str):
    """A request moves the same counters and histograms; those that count requests, tokens or choices by the same amount."""
    ours, theirs = pairs[name]
    assert _moved(ours) == _moved(theirs)


def _moved(answered: parity.Answered) -> set[str]:
    """Names that moved; with the amount where it does not depend on tokenizer or clock."""
    own_size = ("_sum", "prompt_tokens", "queries", "iteration", "inter_token", "prefill_kv", "hits", "cached")
    return {
        name if any(part in name for part in own_size) else f"{name} {amount:g}"
        for name, amount in answered.moved.items()
        if not name.startswith(tuple(EXPLAINED)) and "time" not in name.removeprefix("vllm:time_to_first_token_seconds_count")
    }  # fmt: skip


@pytest.mark.vllm(*SPECULATIVE)
def test_speculative_decoding_has_the_same_shapes_and_counters(vllm_server: Callable[..., str]):
    """Several tokens in a chunk, the first one alone, and spec_decode counters that add up, in both."""
    asked = parity.chat(
        "spec", messages=parity.LONG, stream=True, max_tokens=60, ignore_eos=True, **parity.RUNNING, **parity.OFF
    )
    real = vllm_server(*SPECULATIVE)
    parity.ask(real, parity.chat("warm-up", max_tokens=2))
    with simulator("--model", "qwen-tiny", "--block-size", "128", "--drafts", "2", "--acceptance", "0.6") as sim:
        ours, theirs = parity.ask(sim.url, asked), parity.ask(real, asked)
    assert parity.shape_of_stream(ours) == parity.shape_of_stream(theirs)
    assert parity.arithmetic(ours) == parity.arithmetic(theirs)
    for answered in (ours, theirs):
        running = [chunk["usage"]["completion_tokens"] for chunk in answered.chunks]
        steps = [after - before for before, after in itertools.pairwise(running)]
        assert steps[0] == 1
        assert max(steps) <= 3
        spec = {name: amount for name, amount in answered.moved.items() if "spec_decode" in name}
        assert spec["vllm:spec_decode_num_draft_tokens_total[]"] <= 2 * spec["vllm:spec_decode_num_drafts_total[]"]


def test_vllms_own_benchmark_runs_against_the_simulator(sim: Simulator):
    """`vllm bench serve` completes every request and counts the tokens that were asked for."""
    folder = Path(os.environ.get("LOADKIT_VLLM_DIR", Path.home() / ".cache" / "loadkit-vllm"))
    command = [
        str(folder / "venv" / "bin" / "vllm"), "bench", "serve", "--backend", "openai-chat", "--base-url", sim.url,
        "--endpoint", "/v1/chat/completions", "--model", sim.model, "--tokenizer", str(folder / "model"), "--ignore-eos",
        "--dataset-name", "random", "--random-input-len", "60", "--random-output-len", "20", "--num-prompts", "12",
        "--max-concurrency", "4",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=500, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    lines = [line.strip() for line in done.stdout.splitlines()]  # it pads its figures with spaces
    figures = dict(line.rsplit(maxsplit=1) for line in lines if line.endswith(tuple("0123456789")) and " " in line)
    named = {key.split("(")[0].rstrip(": "): value for key, value in figures.items()}
    assert done.returncode == 0, done.stderr[-2000:]
    assert (named["Successful requests"], named["Total generated tokens"]) == ("12", "240")
