"""A real vLLM beside the sidecar: seen as the server's own process, hits equal to what usage says, its death and restart."""

import json
import time
import urllib.request
from collections.abc import Callable

import pytest

from loadkit.gauges import PrefixDelta, prefix_delta
from sidecar.sidecars import Start

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(800)]


def ask(url: str, text: str) -> dict[str, int]:
    """Prompt and cached tokens of one request, as usage reports them."""
    body = {"model": "qwen-tiny", "max_tokens": 4, "ignore_eos": True, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    usage = json.load(urllib.request.urlopen(request, timeout=60))["usage"]
    return {"prompt": usage["prompt_tokens"], "cached": usage["prompt_tokens_details"]["cached_tokens"]}


def test_hits_of_the_cache_are_those_of_usage(vllm_server: Callable[..., str], start: Start):
    """Serial requests: each delta between two snapshots is exactly usage's prompt and cached tokens; so is their sum."""
    url = vllm_server()
    sidecar = start(server=url)
    seen = sidecar.until(lambda one: one.source == "server" and "server_seen" in one.data)
    assert (seen.data["server_seen"], seen.data["dialect"]) == (True, "vllm")
    identity = sidecar.until(lambda one: one.source == "server" and one.data.get("event") == "identity")
    assert identity.data["version"].startswith("0.")
    prefix = f"{time.time_ns()} " + "An archive about bridges. " * 120
    first = sidecar.client.snapshot()
    sums = {"prompt": 0, "cached": 0}
    for number in range(4):
        before = sidecar.client.snapshot()
        usage = ask(url, f"{prefix} Question {number}")
        delta = prefix_delta(before, sidecar.client.snapshot())
        assert delta == PrefixDelta(query_tokens=usage["prompt"], hit_tokens=usage["cached"])
        sums = {name: sums[name] + usage[name] for name in sums}
    last = sidecar.client.snapshot()
    assert sums["cached"] > 0
    assert last["data"]["prefix_hit_tokens"] - first["data"]["prefix_hit_tokens"] == sums["cached"]
    assert last["data"]["prefix_query_tokens"] - first["data"]["prefix_query_tokens"] == sums["prompt"]


def test_two_requests_at_once_are_not_attributed(vllm_server: Callable[..., str], start: Start):
    """The counters are sums: with two successes in between there is no delta of one request."""
    url = vllm_server()
    sidecar = start(server=url)
    before = sidecar.client.snapshot()
    ask(url, "one")
    ask(url, "two")
    assert prefix_delta(before, sidecar.client.snapshot()) is None
