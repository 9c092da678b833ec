"""Four dialects of /metrics read by one table; recorded from a real vLLM, the others as their sources print them."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from loadkit.sidecar.server_metrics import Scrape, is_another, read

VLLM = (Path(__file__).parents[1] / "fixtures" / "metrics" / "vllm-0.32.txt").read_bytes()


def test_a_real_vllm():
    """Recorded after three requests of 409 tokens, the last two of which hit 384 tokens each."""
    scrape = read(VLLM)
    assert scrape.figures["prompt_tokens"] == 1227
    assert scrape.figures["prefix_hit_tokens"] == 768
    assert scrape.figures["generation_tokens"] == 60
    assert scrape.success == {"stop": 0, "length": 3, "abort": 0, "error": 0, "repetition": 0}
    assert (scrape.dialect, scrape.engines, scrape.config["num_gpu_blocks"]) == ("vllm", 1, "32768")
    assert "spec_drafts" not in scrape.figures  # speculative decoding is off: unknown, not 0


def test_several_engines():
    """Counters are summed over data parallel ranks, gauges taken by their maximum."""
    text = b"\n".join(
        b'vllm:%s{engine="%d",model_name="m"} %s' % (name, rank, value)
        for name, values in (
            (b"prefix_cache_hits_total", (b"10.0", b"5.0")),
            (b"kv_cache_usage_perc", (b"0.25", b"0.75")),
            (b"num_requests_running", (b"1.0", b"3.0")),
        )
        for rank, value in enumerate(values)
    )
    scrape = read(text)
    assert scrape.figures == {"prefix_hit_tokens": 15, "kv_usage": 0.75, "running": 3}
    assert scrape.engines == 2


def test_names_of_older_versions():
    """gpu_ names of vLLM before 0.12."""
    text = b'vllm:gpu_cache_usage_perc{model_name="m"} 0.5\nvllm:gpu_prefix_cache_hits_total{model_name="m"} 7\n'
    assert read(text).figures == {"kv_usage": 0.5, "prefix_hit_tokens": 7}


def test_sglang():
    """Every prompt token is looked up, so the queries are the prompt tokens."""
    text = (
        b'sglang:num_running_reqs{model_name="m",tp_rank="0"} 2\nsglang:num_queue_reqs{model_name="m"} 1\n'
        b'sglang:token_usage{model_name="m"} 0.4\nsglang:prompt_tokens_total{model_name="m"} 100\n'
        b'sglang:cached_tokens_total{cache_source="device"} 30\nsglang:cached_tokens_total{cache_source="host"} 10\n'
        b'sglang:num_requests_total{model_name="m"} 5\nsglang:num_retracted_requests_total 1\n'
    )
    scrape = read(text)
    assert scrape.figures == {
        "running": 2, "waiting": 1, "kv_usage": 0.4, "prompt_tokens": 100, "prefix_hit_tokens": 40,
        "prefix_query_tokens": 100, "preemptions": 1,
    }  # fmt: skip
    assert (scrape.dialect, scrape.success) == ("sglang", {"all": 5})


def test_llama_cpp():
    """It has no prefix counters: unknown."""
    text = b"llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\nllamacpp:tokens_predicted_total 44\n"
    scrape = read(text)
    assert scrape.figures == {"running": 1, "waiting": 0, "generation_tokens": 44}
    assert (scrape.dialect, scrape.success) == ("llamacpp", None)


def test_tensorrt_llm():
    """Its own names."""
    text = b"trtllm_num_requests_running 3\ntrtllm_kv_cache_utilization 0.1\n"
    text += b'trtllm_request_success_total{finished_reason="stop"} 4\n'
    scrape = read(text)
    assert scrape.figures == {"running": 3, "kv_usage": 0.1}
    assert (scrape.dialect, scrape.success) == ("trtllm", {"stop": 4})


def test_what_is_no_number_is_unknown():
    """NaN, infinity and words are left out; creation times are no data."""
    text = (
        b"vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\nvllm:kv_cache_usage_perc many\n"
        b"vllm:prompt_tokens_created 1.7e9\nvllm:prompt_tokens_total 3 1700000000\n"
    )
    assert read(text).figures == {"prompt_tokens": 3}


def test_labels_may_hold_anything():
    """Braces and quotes in a model's name."""
    text = b'vllm:prompt_tokens_total{engine="0",model_name="a}\\"b{c"} 3\n'
    assert read(text).figures == {"prompt_tokens": 3}


def test_another_start_is_another_server():
    """By the start time where both have one, else by a counter that fell."""
    one, two = Scrape(figures={"process_start_time_s": 5.0}), Scrape(figures={"process_start_time_s": 9.0})
    assert (is_another(one, two), is_another(one, one)) == (True, False)
    high, low = Scrape(figures={"prompt_tokens": 9}), Scrape(figures={"prompt_tokens": 1})
    assert (is_another(high, low), is_another(low, high)) == (True, False)


@given(st.binary(max_size=2000))
def test_no_bytes_make_it_stumble(noise: bytes):
    """Whatever answers at /metrics."""
    assert isinstance(read(noise), Scrape)
    assert isinstance(read(b"vllm:prompt_tokens_total{" + noise), Scrape)
