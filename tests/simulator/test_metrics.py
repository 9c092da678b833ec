"""/metrics against what a real vLLM 0.32.0 exposed: names, types, labels, buckets, and when each figure moves."""

import json
import threading
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from loadkit.simulator.tallies import Histogram, one_two_five
from simulator_process import simulator

from .asking import chat, get, metrics

RECORDED = json.loads((Path(__file__).parents[1] / "fixtures" / "vllm" / "metrics-0.32.0.json").read_text())
ENGINE = "vllm:"


def families(text: str) -> dict[str, dict[str, object]]:
    """Family → type, label names and buckets, in the form of the recording."""
    found: dict[str, dict[str, object]] = {}
    for family in text_string_to_metric_families(text):
        entry: dict[str, object] = {
            "type": family.type,
            "labels": sorted({label for sample in family.samples for label in sample.labels}),
        }
        bounds = [sample.labels["le"] for sample in family.samples if "le" in sample.labels]
        if bounds:
            entry["buckets"] = bounds[: bounds.index("+Inf") + 1]
        found[family.name] = entry
    return found


def test_every_engine_metric_is_there_with_its_type_labels_and_buckets():
    """No vllm: family is missing, added, or differs from the recorded one."""
    with simulator("--block-size", "128") as sim:
        chat(sim, max_tokens=2)
        shown = families(get(sim, "/metrics").body.decode())
    ours = {name: entry for name, entry in shown.items() if name.startswith(ENGINE)}
    theirs = {name: entry for name, entry in RECORDED.items() if name.startswith(ENGINE)}
    assert ours == theirs


def test_process_and_http_metrics_are_there():
    """process_*, python_* and http_* families have the recorded types and labels."""
    with simulator() as sim:
        chat(sim, max_tokens=2)
        shown = families(get(sim, "/metrics").body.decode())
    theirs = {
        name: entry
        for name, entry in RECORDED.items()
        if not name.startswith(ENGINE) and not name.endswith("_created")
    }  # fmt: skip
    assert {name: shown.get(name) for name in theirs} == theirs


def test_counters_move_by_exactly_one_request():
    """After one request every counter has risen by its usage, before the next scrape."""
    with simulator("--block-size", "16") as sim:
        before = metrics(sim)
        text = "A long story about a lighthouse. " * 20
        cold, warm = (chat(sim, text, max_tokens=9, ignore_eos=True).usage for _ in range(2))
        after = metrics(sim)
    rise = {name: after[name] - before.get(name, 0) for name in after}
    cached = warm["prompt_tokens_details"]["cached_tokens"]
    prompts = cold["prompt_tokens"] + warm["prompt_tokens"]
    assert cached > 0
    assert rise["vllm:prompt_tokens_total"] == rise["vllm:prefix_cache_queries_total"] == prompts
    assert rise["vllm:prefix_cache_hits_total"] == rise["vllm:prompt_tokens_cached_total"] == cached
    assert rise["vllm:prompt_tokens_by_source_total{source=local_compute}"] == prompts - cached
    assert rise["vllm:generation_tokens_total"] == 18
    assert rise["vllm:request_success_total{finished_reason=length}"] == 2
    assert rise["vllm:time_to_first_token_seconds_count"] == 2
    assert rise["vllm:inter_token_latency_seconds_count"] == 16
    assert rise["vllm:iteration_tokens_total_sum"] == prompts - cached + 18
    assert rise["vllm:request_params_max_tokens_sum"] == 18


def test_a_client_that_goes_away_is_counted_nowhere():
    """An aborted stream leaves running at 0 and request_success unchanged, its tokens stay in generation_tokens."""
    import http.client
    import time
    import urllib.parse

    with simulator(preset="fast") as sim:
        parts = urllib.parse.urlsplit(sim.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        body = json.dumps(
            {"messages": [{"role": "user", "content": "hi"}], "stream": True, "ignore_eos": True, "max_tokens": 9000}
        )
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read(3000)
        assert metrics(sim)["vllm:num_requests_running"] == 1
        response.close()
        connection.close()
        for _ in range(100):
            seen = metrics(sim)
            if seen["vllm:num_requests_running"] == 0:
                break
            time.sleep(0.05)
        assert seen["vllm:num_requests_running"] == 0
        assert seen["vllm:kv_cache_usage_perc"] == 0
        assert sum(value for name, value in seen.items() if name.startswith("vllm:request_success_total")) == 0
        assert seen["vllm:generation_tokens_total"] > 0


def test_a_prefill_shows_in_queries_before_its_first_token():
    """Queries rise when a prompt is scheduled, prompt_tokens only with its first token."""
    import time

    with simulator(preset="spark") as sim:
        asking = threading.Thread(target=chat, args=(sim, "word " * 1500), kwargs={"max_tokens": 1})
        asking.start()
        for _ in range(200):
            seen = metrics(sim)
            if seen["vllm:prefix_cache_queries_total"]:
                break
            time.sleep(0.01)
        assert seen["vllm:prefix_cache_queries_total"] > 1500
        assert seen["vllm:prompt_tokens_total"] == 0
        asking.join()
        assert metrics(sim)["vllm:prompt_tokens_total"] > 1500


def test_speculative_decoding_has_its_own_counters():
    """Drafts, draft tokens, accepted tokens and their places add up to the tokens made."""
    with simulator("--drafts", "2", "--acceptance", "0.7") as sim:
        assert "vllm:spec_decode_num_drafts" in families(get(sim, "/metrics").body.decode())
        chat(sim, max_tokens=300, ignore_eos=True)
        seen = metrics(sim)
    drafts = seen["vllm:spec_decode_num_drafts_total"]
    accepted = seen["vllm:spec_decode_num_accepted_tokens_total"]
    places = [seen[f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{position={place}}}"] for place in range(2)]
    assert seen["vllm:spec_decode_num_draft_tokens_total"] == 2 * drafts
    assert sum(places) == accepted
    assert 0 <= 1 + drafts + accepted - 300 <= 2  # what is accepted beyond the last token is thrown away


def test_cache_config_is_told():
    """cache_config_info carries block size, blocks and the size in tokens."""
    with simulator("--block-size", "32", "--kv-blocks", "5000") as sim:
        text = get(sim, "/metrics").body.decode()
    info = next(
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "vllm:cache_config_info"
    )
    assert (info.labels["block_size"], info.labels["num_gpu_blocks"], info.labels["kv_cache_size_tokens"]) == (
        "32",
        "5000",
        "160000",
    )


def test_buckets_of_lengths():
    """1, 2, 5, 10 … up to the limit."""
    assert one_two_five(131_072)[-3:] == (20_000.0, 50_000.0, 100_000.0)


def test_a_histogram_is_cumulative():
    """Bucket counts include those below, and +Inf counts all."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2.0), ("2.0", 3.0), ("+Inf", 4.0)]
