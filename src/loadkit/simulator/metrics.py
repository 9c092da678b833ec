"""/metrics: vLLM 0.32's names, types, labels, buckets, and the moments at which each rises.

when a step is scheduled   prefix_cache_queries, prefix_cache_hits, num_preemptions (so a scrape during a prefill shows them)
at the first token         prompt_tokens*, time_to_first_token
at each step's end         generation_tokens, iteration_tokens, inter_token_latency (one per output event), spec_decode_*
at a request's end         request_success and the per-request histograms
never                      request_success for a client that went away (vLLM counts it nowhere, not even as abort)
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Listed

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import generate_latest

from loadkit.simulator import tallies
from loadkit.simulator.scheduler import Scheduler, Share, Step
from loadkit.simulator.sequence import Output, Sequence
from loadkit.simulator.settings import Settings
from loadkit.simulator.tallies import Histogram

Labelled = Mapping[tuple[tuple[str, str], ...], float]
Rows = Listed[tuple[dict[str, str], float]]

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
REJECTIONS = ("max_num_queued_reqs", "max_num_queued_tokens")
CACHE_TIERS = ("device", "host", "p2p", "disk", "external_unspecified")

PLAIN_COUNTERS = {
    "estimated_flops_per_gpu": "Estimated number of floating point operations per GPU (for Model Flops Utilization calculations).",  # noqa: E501
    "estimated_read_bytes_per_gpu": "Estimated number of bytes read from memory per GPU (for Model Flops Utilization calculations).",  # noqa: E501
    "estimated_write_bytes_per_gpu": "Estimated number of bytes written to memory per GPU (for Model Flops Utilization calculations).",  # noqa: E501
    "prefix_cache_queries": "Prefix cache queries, in terms of number of queried tokens.",
    "prefix_cache_hits": "Prefix cache hits, in terms of number of cached tokens.",
    "external_prefix_cache_queries": "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.",  # noqa: E501
    "external_prefix_cache_hits": "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.",  # noqa: E501
    "mm_cache_queries": "Multi-modal cache queries, in terms of number of queried items.",
    "mm_cache_hits": "Multi-modal cache hits, in terms of number of cached items.",
    "num_preemptions": "Cumulative number of preemption from the engine.",
    "prompt_tokens": "Number of prefill tokens processed.",
    "prompt_tokens_cached": "Number of cached prompt tokens (local + external).",
    "generation_tokens": "Number of generation tokens processed.",
}
SPEC_COUNTERS = {
    "spec_decode_num_drafts": "Number of spec decoding drafts.",
    "spec_decode_num_draft_tokens": "Number of draft tokens.",
    "spec_decode_num_accepted_tokens": "Number of accepted tokens.",
}
SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")


class Metrics:
    """Every figure of one server; a prometheus_client collector of its own registry."""

    def __init__(self, settings: Settings, scheduler: Scheduler | None = None):
        self._settings = settings
        self.scheduler = scheduler
        self._created = time.time()
        self._labels = {"engine": "0", "model_name": settings.model}
        self.counters: Counter[str] = Counter()
        self.by_source: Counter[str] = Counter()
        self.by_tier: Counter[str] = Counter()
        self.finished: Counter[str] = Counter()
        self.rejections: Counter[str] = Counter()
        self.parsed: Counter[tuple[str, str]] = Counter()
        self.accepted_by_position = [0] * settings.drafts
        tokens = tallies.one_two_five(settings.max_model_len)
        self.histograms = {name: Histogram(bounds or tokens) for name, (_, bounds) in HISTOGRAMS.items()}
        self.http: Counter[tuple[str, str, str]] = Counter()
        self.http_sizes: dict[str, list[float]] = {}
        self.http_fine = Histogram(tallies.HTTP_FINE)
        self.http_coarse: dict[tuple[str, str], Histogram] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def scheduled(self, step: Step) -> None:
        """A step was scheduled."""
        if step.queried_tokens:
            self.counters["prefix_cache_queries"] += step.queried_tokens
            self.counters["prefix_cache_hits"] += step.hit_tokens
        if step.preempted:
            self.counters["num_preemptions"] += step.preempted

    def rejected(self, reason: str) -> None:
        self.rejections[reason] += 1

    def stepped(self, outputs: list[tuple[Sequence, Output, Share]], now_ns: int) -> None:
        """A step ended and its outputs were written."""
        made = computed = 0
        gaps = self.histograms["inter_token_latency_seconds"]
        for sequence, output, share in outputs:
            count = output.end - output.start
            made += count
            if sequence.first_ns is None:
                computed += self._first_token(sequence, now_ns)
            else:
                gaps.observe((now_ns - (sequence.last_ns or now_ns)) / 1e9)
            sequence.last_ns = now_ns
            if self._settings.drafts and not share.prefill:
                self._drafted(sequence)
            if sequence.tool_mode is not None:
                self._parsed(sequence, output, sequence.tool_mode)
            if output.finish is not None:
                self._finished(sequence, output.finish, now_ns)
        if outputs:
            self.counters["generation_tokens"] += made
            self.histograms["iteration_tokens_total"].observe(computed + made)

    def requested(self, method: str, handler: str, status: int, seconds: float, sizes: tuple[int, int]) -> None:
        """An HTTP request was answered (prometheus-fastapi-instrumentator's figures)."""
        self.http[(handler, method, f"{status // 100}xx")] += 1
        entry = self.http_sizes.setdefault(handler, [0, 0, 0])
        entry[0] += 1
        entry[1] += sizes[0]
        entry[2] += sizes[1]
        self.http_fine.observe(seconds)
        self.http_coarse.setdefault((handler, method), Histogram(tallies.HTTP_COARSE)).observe(seconds)

    def render(self) -> bytes:
        """The exposition; process_* and python_* come first, as in vLLM."""
        own = CollectorRegistry()
        for collector in (GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR):
            own.register(collector)
        return generate_latest(own) + generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield from self._gauges()
        yield from self._counter_families()
        for name, (sentence, _) in HISTOGRAMS.items():
            family = HistogramMetricFamily(f"vllm:{name}", sentence, labels=list(self._labels))
            tally = self.histograms[name]
            family.add_metric(list(self._labels.values()), tally.buckets(), tally.total)
            yield self._made(family, [self._labels])
        yield self._cache_config()
        if self._settings.tools:
            yield self._tool_parser()
        yield from self._http_families()

    def _first_token(self, sequence: Sequence, now_ns: int) -> int:
        sequence.first_ns = now_ns
        prompt, cached = len(sequence.prompt), sequence.cached
        self.counters["prompt_tokens"] += prompt
        self.counters["prompt_tokens_cached"] += cached
        self.by_source["local_compute"] += prompt - cached
        self.by_source["local_cache_hit"] += cached
        self.by_tier["device"] += cached
        self.histograms["time_to_first_token_seconds"].observe((now_ns - sequence.arrived_ns) / 1e9)
        return prompt - cached

    def _drafted(self, sequence: Sequence) -> None:
        accepted = sequence.histogram[-1]
        self.counters["spec_decode_num_drafts"] += 1
        self.counters["spec_decode_num_draft_tokens"] += self._settings.drafts
        self.counters["spec_decode_num_accepted_tokens"] += accepted
        for position in range(accepted):
            self.accepted_by_position[position] += 1

    def _parsed(self, sequence: Sequence, output: Output, mode: str) -> None:
        """The tool parser ran: once per delta after the thinking, or once per choice that is not streamed."""
        kinds = sequence.script.kinds
        if mode == "non_streaming":
            if output.finish is not None:
                self.parsed[mode, "tool_call" if output.finish == "stop" and sequence.script.calls else "no_tool_call"] += 1
        elif kinds[output.end - 1] != "r":
            self.parsed[mode, "tool_call" if "t" in kinds[output.start : output.end] else "no_tool_call"] += 1

    def _finished(self, sequence: Sequence, reason: str, now_ns: int) -> None:
        self.finished[reason] += 1
        first, scheduled = sequence.first_ns or now_ns, sequence.scheduled_ns or now_ns
        decode_s = (now_ns - first) / 1e9
        facts = {
            "e2e_request_latency_seconds": (now_ns - sequence.arrived_ns) / 1e9,
            "request_queue_time_seconds": (scheduled - sequence.queued_ns) / 1e9,
            "request_prefill_time_seconds": (first - scheduled) / 1e9,
            "request_inference_time_seconds": (now_ns - scheduled) / 1e9,
            "request_decode_time_seconds": decode_s,
            "request_num_preemptions": sequence.preemptions,
            "request_prefill_kv_computed_tokens": len(sequence.prompt) - sequence.cached,
            "request_prompt_tokens": len(sequence.prompt),
            "request_generation_tokens": sequence.made,
            "request_time_per_output_token_seconds": decode_s / (sequence.made - 1) if sequence.made > 1 else 0.0,
            "request_params_max_tokens": sequence.max_tokens,
        }
        for name, value in facts.items():
            self.histograms[name].observe(value)
        siblings = sequence.siblings
        if all(each.gone for each in siblings):
            self.histograms["request_max_num_generation_tokens"].observe(max(each.made for each in siblings))
            self.histograms["request_params_n"].observe(len(siblings))

    def _gauges(self) -> Iterator[Metric]:
        scheduler = self.scheduler
        running = len(scheduler.running) if scheduler else 0
        waiting = len(scheduler.waiting) if scheduler else 0
        usage = scheduler.pool.usage if scheduler else 0.0
        yield self._gauge("num_requests_running", "Number of requests in model execution batches.", {(): running})
        yield self._gauge("num_requests_waiting", "Number of requests waiting to be processed.", {(): waiting})
        by_reason: Labelled = {(("reason", "capacity"),): waiting, (("reason", "deferred"),): 0}
        yield self._gauge("num_requests_waiting_by_reason", WAITING_BY_REASON, by_reason)
        states: Labelled = {
            (("sleep_state", name),): value for name, value in (("awake", 1), ("weights_offloaded", 0), ("discard_all", 0))
        }
        yield self._gauge("engine_sleep_state", SLEEP_STATE, states)
        yield self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", {(): usage})

    def _gauge(self, name: str, sentence: str, values: Labelled) -> Metric:
        extra = [key for key, _ in next(iter(values))]
        family = GaugeMetricFamily(f"vllm:{name}", sentence, labels=[*self._labels, *extra])
        for labels, value in values.items():
            family.add_metric([*self._labels.values(), *(value for _, value in labels)], value)
        return family

    def _counter_families(self) -> Iterator[Metric]:
        for name, sentence in PLAIN_COUNTERS.items():
            yield self._counter(name, sentence, [({}, self.counters[name])])
        if self._settings.drafts:
            for name, sentence in SPEC_COUNTERS.items():
                yield self._counter(name, sentence, [({}, self.counters[name])])
            rows = [({"position": str(place)}, count) for place, count in enumerate(self.accepted_by_position)]
            yield self._counter("spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", rows)
        rows = [({"source": source}, self.by_source[source]) for source in SOURCES]
        yield self._counter("prompt_tokens_by_source", "Number of prompt tokens by source.", rows)
        rows = [({"source": tier}, self.by_tier[tier]) for tier in CACHE_TIERS]
        yield self._counter("prompt_tokens_cached_by_source", CACHED_BY_SOURCE, rows)
        rows = [({"finished_reason": reason}, self.finished[reason]) for reason in FINISH_REASONS]
        yield self._counter("request_success", "Count of successfully processed requests.", rows)
        rows = [({"reason": reason}, self.rejections[reason]) for reason in REJECTIONS]
        yield self._counter(
            "admission_rejections", "Number of admission attempts rejected by a queue limit, by reason.", rows, engine=False
        )

    def _tool_parser(self) -> Metric:
        rows = [
            ({"mode": mode, "outcome": outcome, "request_type": kind}, self.parsed[mode, outcome] if kind == CHAT else 0)
            for mode in ("streaming", "non_streaming")
            for outcome in ("tool_call", "no_tool_call")
            for kind in (CHAT, "responses", "other")
        ]
        return self._counter("tool_call_parser_invocations", TOOL_PARSER, rows, engine=False)

    def _counter(self, name: str, sentence: str, rows: Rows, *, engine: bool = True) -> Metric:
        fixed = self._labels if engine else {"model_name": self._settings.model}
        family = CounterMetricFamily(f"vllm:{name}", sentence, labels=[*fixed, *rows[0][0]])
        for labels, value in rows:
            family.add_metric([*fixed.values(), *labels.values()], value)
        return self._made(family, [{**fixed, **labels} for labels, _ in rows])

    def _made(self, family: Metric, rows: list[dict[str, str]]) -> Metric:
        """The `_created` series that prometheus_client adds in a single process."""
        for labels in rows:
            family.add_sample(family.name + "_created", labels, self._created)
        return family

    def _cache_config(self) -> Metric:
        family = GaugeMetricFamily("vllm:cache_config_info", "Information of the LLMEngine CacheConfig")
        family.add_sample("vllm:cache_config_info", {**cache_config(self._settings), "engine": "0"}, 1.0)
        return family

    def _http_families(self) -> Iterator[Metric]:
        counter = CounterMetricFamily("http_requests", "Total number of requests by method, status and handler.")
        for (handler, method, status), count in self.http.items():
            counter.add_sample("http_requests_total", {"handler": handler, "method": method, "status": status}, count)
        yield counter
        for index, name in ((1, "request"), (2, "response")):
            summary = SummaryMetricFamily(f"http_{name}_size_bytes", f"Content length of {name}s by handler.")
            for handler, entry in self.http_sizes.items():
                summary.add_sample(f"http_{name}_size_bytes_count", {"handler": handler}, entry[0])
                summary.add_sample(f"http_{name}_size_bytes_sum", {"handler": handler}, entry[index])
            yield summary
        fine = HistogramMetricFamily(
            "http_request_duration_highr_seconds", "Latency with many buckets but no API specific labels."
        )
        fine.add_metric([], self.http_fine.buckets(), self.http_fine.total)
        yield fine
        coarse = HistogramMetricFamily(
            "http_request_duration_seconds", "Latency with only few buckets by handler.", labels=["handler", "method"]
        )
        for labels, tally in self.http_coarse.items():
            coarse.add_metric(list(labels), tally.buckets(), tally.total)
        yield coarse


CHAT = "chat_completions"
TOOL_PARSER = (
    "Total number of ToolParser invocations. Non-streaming increments once per choice; streaming increments once per delta."
)
WAITING_BY_REASON = (
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred "
    "by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting."
)
SLEEP_STATE = (
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means "
    "sleep level 1; discard_all = 1 means sleep level 2."
)
CACHED_BY_SOURCE = "Prefix-cache hit tokens by the cache tier that supplied them; counted at admission."

HISTOGRAMS: dict[str, tuple[str, tuple[float, ...] | None]] = {
    "request_prompt_tokens": ("Number of prefill tokens processed.", None),
    "request_generation_tokens": ("Number of generation tokens processed.", None),
    "iteration_tokens_total": ("Histogram of number of tokens per engine_step.", tallies.ITERATION),
    "request_max_num_generation_tokens": ("Histogram of maximum number of requested generation tokens.", None),
    "request_params_n": ("Histogram of the n request parameter.", tallies.CHOICES),
    "request_params_max_tokens": ("Histogram of the max_tokens request parameter.", None),
    "time_to_first_token_seconds": ("Histogram of time to first token in seconds.", tallies.TTFT),
    "inter_token_latency_seconds": ("Histogram of inter-token latency in seconds.", tallies.TOKEN_TIME),
    "request_time_per_output_token_seconds": ("Histogram of time_per_output_token_seconds per request.", tallies.TOKEN_TIME),
    "e2e_request_latency_seconds": ("Histogram of e2e request latency in seconds.", tallies.REQUEST_TIME),
    "request_queue_time_seconds": ("Histogram of time spent in WAITING phase for request.", tallies.REQUEST_TIME),
    "request_inference_time_seconds": ("Histogram of time spent in RUNNING phase for request.", tallies.REQUEST_TIME),
    "request_prefill_time_seconds": ("Histogram of time spent in PREFILL phase for request.", tallies.REQUEST_TIME),
    "request_decode_time_seconds": ("Histogram of time spent in DECODE phase for request.", tallies.REQUEST_TIME),
    "request_num_preemptions": ("Histogram of the number of times a request was preempted.", tallies.PREEMPTIONS),
    "request_prefill_kv_computed_tokens": (
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        None,
    ),
}
"""Name → sentence and buckets; `None` stands for 1, 2, 5, 10 … up to max_model_len."""


def cache_config(settings: Settings) -> dict[str, str]:
    """The labels of vllm:cache_config_info, all of them text."""
    size_tokens = settings.kv_blocks * settings.block_size
    return {
        "_block_size_resolved": "True",
        "block_size": str(settings.block_size),
        "cache_dtype": "auto",
        "cache_hit_alignment_tokens": "None",
        "effective_attention_block_size": str(settings.block_size),
        "enable_mamba_shared_prefix_checkpoint": "False",
        "enable_prefix_caching": str(settings.prefix_caching),
        "gpu_memory_utilization": "0.8",
        "hash_block_size": "None",
        "is_attention_free": "False",
        "kv_cache_dtype_skip_layers": "[]",
        "kv_cache_layout": "None",
        "kv_cache_max_concurrency": str(size_tokens / settings.max_model_len),
        "kv_cache_memory_bytes": "None",
        "kv_cache_size_tokens": str(size_tokens),
        "kv_offloading_backend": "native",
        "kv_offloading_size": "None",
        "kv_sharing_fast_prefill": "False",
        "mamba_block_size": "None",
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "none",
        "mamba_page_size_padded": "None",
        "mamba_ssm_cache_dtype": "auto",
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(settings.kv_blocks),
        "num_gpu_blocks_override": "None",
        "prefix_cache_retention_interval": "0",
        "prefix_caching_hash_algo": "sha256",
        "prefix_match_unit": "None",
        "replayssm_buffer_len": "16",
        "skip_page_size_padded": "None",
        "sliding_window": "None",
        "swa_bounded_replay": "True",
        "use_kda_recoverssm": "False",
        "use_replayssm": "False",
        "user_specified_block_size": "False",
    }
