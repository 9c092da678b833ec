"""Samples as a few figures for tables: gauge rows, history columns, one row per sample, and the cache's delta of one request.

Everything here is a pure function of samples as plain JSON (`record.Sample` as it stands in samples.jsonl). A figure that is
not known is absent or `None`, never 0.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

Latest = Mapping[str, Mapping[str, Any]]
"""source → its newest sample, as `/latest` gives it."""

MIB = 1024 * 1024

HISTORY_COLUMNS = (
    "mem_available_mib",
    "swap_used_mib",
    "oom_kill",
    "psi_memory_full_avg10",
    "kv_cache_percent",
    "running",
    "waiting",
    "prefix_query_tokens",
    "prefix_hit_tokens",
    "preemptions",
    "generation_tok_s",
)


def rows(latest: Latest) -> dict[str, float]:
    """Gauges for Locust's statistics, by row name."""
    found = {
        "MemAvailable MiB": _scaled(_figure(latest, "host", "mem_available_bytes"), 1 / MIB),
        "KV cache %": _scaled(_figure(latest, "server", "kv_usage"), 100),
        "running": _figure(latest, "server", "running"),
        "waiting": _figure(latest, "server", "waiting"),
    }
    return {name: value for name, value in found.items() if value is not None}


def history(latest: Latest, *, first: Latest | None = None, previous: Latest | None = None) -> tuple[float | None, ...]:
    """The values of HISTORY_COLUMNS. Counters count from `first` (the run's begin), the rate from `previous`."""
    return (
        _scaled(_figure(latest, "host", "mem_available_bytes"), 1 / MIB),
        _scaled(_figure(latest, "host", "swap_used_bytes"), 1 / MIB),
        _figure(latest, "host", "oom_kill"),
        _figure(latest, "host", "psi_memory_full_avg10"),
        _scaled(_figure(latest, "server", "kv_usage"), 100),
        _figure(latest, "server", "running"),
        _figure(latest, "server", "waiting"),
        _rise(latest, first, "prefix_query_tokens"),
        _rise(latest, first, "prefix_hit_tokens"),
        _rise(latest, first, "preemptions"),
        _rate(latest, previous, "generation_tokens"),
    )


@dataclass(frozen=True, slots=True)
class PrefixDelta:
    """Tokens that one request asked the prefix cache for, and that it found there."""

    query_tokens: int
    hit_tokens: int


def prefix_delta(before: Mapping[str, Any], after: Mapping[str, Any]) -> PrefixDelta | None:
    """What happened in the prefix cache between two snapshots around one request that ran alone.

    `None` unless exactly one request succeeded in between on the same start of the server: the counters are sums over all
    requests, so with any other request they can't be attributed (vLLM 0.32, v1/metrics/loggers.py).
    """
    old, new = before.get("data", {}), after.get("data", {})
    if old.get("process_start_time_s") != new.get("process_start_time_s") or new.get("restarted"):
        return None
    if "success" not in old or "success" not in new or _succeeded(new) - _succeeded(old) != 1:
        return None
    keys = ("prefix_query_tokens", "prefix_hit_tokens")
    if any(key not in data for key in keys for data in (old, new)):
        return None
    query, hit = (int(new[key] - old[key]) for key in keys)
    return PrefixDelta(query_tokens=query, hit_tokens=hit) if query >= 0 and hit >= 0 else None


def write_csv(samples: Path, path: Path) -> int:
    """All samples as a table: wall time (UTC), monotonic ns, source, missing, then every key that occurs; how many rows.

    The file is read twice, so that an hour of samples needs no memory. Lists and objects stand as JSON in their cell; the byte
    order mark makes Excel read it as UTF-8.
    """
    keys = sorted({key for sample in _samples(samples) for key in sample.get("data", {})})
    count = 0
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        table = csv.writer(file)
        table.writerow(["wall_time", "monotonic_ns", "source", "missing", *keys])
        for sample in _samples(samples):
            data = sample.get("data", {})
            moment = datetime.fromtimestamp(sample["wall_ns"] / 1e9, UTC).isoformat(timespec="milliseconds")
            lead = [moment, sample["monotonic_ns"], sample["source"], sample.get("missing") or ""]
            table.writerow([*lead, *(_cell(data[key]) if key in data else "" for key in keys)])
            count += 1
    return count


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for raw in file:
            try:
                sample = orjson.loads(raw)
            except ValueError:  # the last line of a file that a crash cut short
                continue
            if isinstance(sample, dict) and sample.get("kind") == "sample":
                yield sample


def _cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, (dict, list)) else value


def _figure(latest: Latest | None, source: str, key: str) -> float | None:
    sample = (latest or {}).get(source)
    value = None if sample is None else sample.get("data", {}).get(key)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _rise(latest: Latest, earlier: Latest | None, key: str) -> float | None:
    """A counter's rise since an earlier sample; after a restart of the server the new count itself."""
    now, then = _figure(latest, "server", key), _figure(earlier, "server", key)
    if now is None or then is None:
        return None
    return now if now < then else now - then


def _rate(latest: Latest, earlier: Latest | None, key: str) -> float | None:
    rise = _rise(latest, earlier, key)
    if rise is None or earlier is None:
        return None
    span_ns = latest["server"]["monotonic_ns"] - earlier["server"]["monotonic_ns"]
    return rise * 1e9 / span_ns if span_ns > 0 else None


def _succeeded(data: Mapping[str, Any]) -> float:
    return float(sum(data["success"].values()))
