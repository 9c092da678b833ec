"""An experiment between two real vLLM configurations by start command: prefix cache on and off."""

import os

import pytest

from conftest import OWN, ROOT, VLLM, VllmServer
from experiment.conftest import Bed
from loadkit.experiment.server import answers

pytestmark = [pytest.mark.vllm(OWN), pytest.mark.slow, pytest.mark.timeout(1800)]

SERVE = ROOT / "scripts" / "vllm" / "serve.sh"
OFF = "--no-enable-prefix-caching"
LIMIT_S = 1500


@pytest.fixture(autouse=True)
def alone(vllm_server: VllmServer) -> None:
    """The experiment's own servers are the only ones."""
    vllm_server.stop()


def arm(bed: Bed, flag: str = "", **proof: str) -> dict:
    environment = {"KV": "1", "LOADKIT_VLLM_DIR": os.fspath(VLLM)}
    return {"start": f"exec {SERVE} {bed.port} {flag}", "base_url": bed.url, "environment": environment, "proof": proof}


def plan_of(bed: Bed, arms: dict[str, dict]):
    waits = {"memory_slack_gib": 64, "memory_s": 300, "settle_s": 1, "healthy_s": 600}
    options = "--rounds 1 --ways 1 --max-tokens 8"
    return bed.plan(arms=arms, default="cache", primary="ttft@1 way", pairs=1, options=options, waits=waits, give_up_after=1)


def cached(bed: Bed) -> dict:
    return arm(bed, log="enable_prefix_caching=True")


def test_prefix_cache_on_against_off_ends_with_a_verdict_and_the_default_back(bed: Bed):
    """Both flags proved from log and arguments, one launch a side is indicative, and the cache is on again."""
    arms = {"cache": cached(bed), "no-cache": arm(bed, OFF, log="enable_prefix_caching=False", argument=OFF)}
    _, output = bed.run(plan_of(bed, arms), limit_s=LIMIT_S)
    assert [state for _, state in bed.states()] == ["finished"] * 2, output
    assert "INDICATIVE ONLY: no-cache against cache" in output
    assert bed.proved()["default cache running and healthy"] == "ok"
    assert answers(bed.url, "/health")


def test_a_vllm_that_refuses_its_flag_ends_with_the_default_back(bed: Bed):
    """A flag of another version, launched first: aborted with what vLLM said, no more launches, exit code 3, default back."""
    refused = arm(bed, "--enable-breakable-graphs")
    code, output = bed.run(plan_of(bed, {"refused": refused, "cache": cached(bed)}), limit_s=LIMIT_S)
    assert code == 3, output
    assert bed.states() == [(1, "aborted")], output
    assert bed.proved()["default cache running and healthy"] == "ok"
