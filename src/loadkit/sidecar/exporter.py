"""The sidecar's own /metrics for Prometheus: the newest samples as `loadkit_<source>_<key>`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from loadkit.record import Sample
from loadkit.sidecar.samples import KEYS

COUNTERS = frozenset(
    ("oom_kill", "oom", "psi_memory_some_total_us", "psi_memory_full_total_us", "prefix_query_tokens", "prefix_hit_tokens",
     "preemptions", "generation_tokens", "prompt_tokens", "spec_drafts", "spec_draft_tokens", "spec_accepted_tokens",
     "restart_count", "lines", "lost_lines", "cpu_ns")
)  # fmt: skip
LEVELS = {"ok": 0, "warn": 1, "stop_new": 2, "abort": 3}
SOURCES = ("host", "container", "cgroup", "gpu", "server", "recorder")


class Exporter:
    """Renders what `latest` and `level` give at the moment of the scrape."""

    def __init__(self, latest: Mapping[str, Sample], level: Any):
        self._latest = latest
        self._level = level
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        for source in SOURCES:
            for number in sorted(key for key in dict(self._latest) if key.split(":")[0] == source):
                yield from _families(self._latest[number])
        level = GaugeMetricFamily("loadkit_guard_level", "0 ok, 1 warn, 2 stop_new, 3 abort")
        level.add_metric([], LEVELS[self._level()])
        yield level


def _families(sample: Sample) -> Iterator[Metric]:
    labels = {"gpu": str(sample.data.get("index", 0))} if sample.source == "gpu" else {}
    for key, value in sample.data.items():
        if isinstance(value, (bool, int, float)) and key in KEYS[sample.source]:
            kind = CounterMetricFamily if key in COUNTERS else GaugeMetricFamily
            family = kind(f"loadkit_{sample.source}_{key}", KEYS[sample.source][key], labels=list(labels))
            family.add_metric(list(labels.values()), float(value))
            yield family
    for reason, value in (sample.data.get("success") or {}).items():
        family = CounterMetricFamily("loadkit_server_success", KEYS["server"]["success"], labels=["reason"])
        family.add_metric([reason], value)
        yield family
