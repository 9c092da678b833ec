"""A server's /metrics text → the few figures that are wanted, by one table of names for vLLM, SGLang, llama.cpp, TensorRT-LLM.

A scrape of vLLM is 68 KB and the full Prometheus parser needs 33 ms for it; one compiled expression over the wanted names needs
less than one. Names: vLLM 0.32 (deprecated ones after the bar), SGLang --enable-metrics, llama.cpp --metrics, TensorRT-LLM.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

COUNTERS: dict[str, tuple[str, ...]] = {
    "prefix_query_tokens": (
        "vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total",
        "vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries",
    ),
    "prefix_hit_tokens": (
        "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits",
        "vllm:gpu_prefix_cache_hits", "sglang:cached_tokens_total", "trtllm_prompt_cached_tokens_total",
    ),
    "preemptions": ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total"),
    "generation_tokens": (
        "vllm:generation_tokens_total", "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total",
        "trtllm_generation_tokens_total",
    ),
    "prompt_tokens": (
        "vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total", "trtllm_prompt_tokens_total",
    ),
    "spec_drafts": (
        "vllm:spec_decode_num_drafts_total", "llamacpp:spec_decode_num_drafts_total", "trtllm_spec_decode_num_drafts_total",
    ),
    "spec_draft_tokens": (
        "vllm:spec_decode_num_draft_tokens_total", "llamacpp:spec_decode_num_draft_tokens_total",
        "trtllm_spec_decode_drafted_tokens_total",
    ),
    "spec_accepted_tokens": (
        "vllm:spec_decode_num_accepted_tokens_total", "llamacpp:spec_decode_num_accepted_tokens_total",
        "trtllm_spec_decode_accepted_tokens_total",
    ),
}  # fmt: skip
GAUGES: dict[str, tuple[str, ...]] = {
    "running": (
        "vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing", "trtllm_num_requests_running",
    ),
    "waiting": (
        "vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred", "trtllm_num_requests_waiting",
    ),
    "kv_usage": (
        "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "llamacpp:kv_cache_usage_ratio",
        "trtllm_kv_cache_utilization",
    ),
    "process_start_time_s": ("process_start_time_seconds",),
}  # fmt: skip
SUCCESS = ("vllm:request_success_total", "trtllm_request_success_total", "sglang:num_requests_total")
CONFIG = "vllm:cache_config_info"
FAMILIES = ("vllm", "sglang", "llamacpp", "trtllm")

_NAMES = [*(name for names in (*COUNTERS.values(), *GAUGES.values()) for name in names), *SUCCESS, CONFIG]
_ALTERNATIVES = b"|".join(re.escape(name.encode()) for name in sorted(_NAMES, key=len, reverse=True))
_WANTED = re.compile(rb"^(" + _ALTERNATIVES + rb")(\{[^\n]*\})? ([^ \n]+)", re.MULTILINE)
_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one scrape said. `figures` are sample keys, an absent one unknown; `config` are cache_config_info's labels."""

    figures: dict[str, float] = field(default_factory=dict)
    success: dict[str, float] | None = None
    config: dict[str, str] = field(default_factory=dict)
    dialect: str | None = None
    engines: int | None = None


Series = dict[str, list[tuple[dict[str, str], float]]]
"""name → its lines, each labels and value."""


def read(text: bytes) -> Scrape:
    """Counters summed over engines, gauges by maximum; `_created` series and unknown names are passed over."""
    series: Series = {}
    for name, labels, value in _WANTED.findall(text):
        number = _number(value)
        if number is not None:
            series.setdefault(name.decode(), []).append((_labels(labels), number))
    figures = {key: _whole(sum(values)) for key, names in COUNTERS.items() if (values := _first(series, names))}
    figures |= {key: _whole(max(values)) for key, names in GAUGES.items() if (values := _first(series, names))}
    if "prefix_hit_tokens" in figures and "prefix_query_tokens" not in figures and "prompt_tokens" in figures:
        figures["prefix_query_tokens"] = figures["prompt_tokens"]  # SGLang and TensorRT-LLM look every prompt token up
    return Scrape(
        figures=figures,
        success=_by_reason(series),
        config=series[CONFIG][0][0] if CONFIG in series else {},
        dialect=next((family for family in FAMILIES if any(name.startswith(family) for name in series)), None),
        engines=_engines(series),
    )


def is_another(before: Scrape, now: Scrape) -> bool:
    """Whether the server was started anew between two scrapes: another start time, or a counter that fell."""
    key = "process_start_time_s"
    if key in before.figures and key in now.figures:
        return before.figures[key] != now.figures[key]
    return any(now.figures[name] < before.figures[name] for name in COUNTERS if name in before.figures and name in now.figures)


def _first(series: Series, names: tuple[str, ...]) -> list[float] | None:
    return next(([value for _, value in series[name]] for name in names if name in series), None)


def _by_reason(series: Series) -> dict[str, float] | None:
    name = next((name for name in SUCCESS if name in series), None)
    if name is None:
        return None
    found: dict[str, float] = {}
    for labels, value in series[name]:
        reason = labels.get("finished_reason", "all")
        found[reason] = _whole(found.get(reason, 0.0) + value)
    return found


def _engines(series: Series) -> int | None:
    engines = {labels["engine"] for values in series.values() for labels, _ in values if "engine" in labels}
    return len(engines) or None


def _labels(raw: bytes) -> dict[str, str]:
    return {name.decode(): value.decode("utf-8", "replace") for name, value in _LABEL.findall(raw)}


def _whole(value: float) -> float:
    """Counts are exported as 1227.0: an integer where it is one."""
    return int(value) if float(value).is_integer() else value


def _number(raw: bytes) -> float | None:
    try:
        value = float(raw)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
