"""Samples as figures for tables: unknown stays unknown, counters count from the run's begin, a restart is no negative."""

import csv
from pathlib import Path
from typing import Any

from loadkit.gauges import HISTORY_COLUMNS, PrefixDelta, history, prefix_delta, rows, write_csv
from loadkit.record import to_line
from sidecar.clocks import sample


def latest(at_s: float = 1, **server: Any) -> dict[str, dict[str, Any]]:
    return {
        "host": {
            "monotonic_ns": int(at_s * 1e9),
            "data": {"mem_available_bytes": 3 << 30, "swap_used_bytes": 0, "oom_kill": 0},
        },
        "server": {"monotonic_ns": int(at_s * 1e9), "data": server},
    }


def test_gauge_rows():
    """MiB and percent, as the names say."""
    found = rows(latest(kv_usage=0.25, running=2, waiting=0))
    assert found == {"MemAvailable MiB": 3072, "KV cache %": 25, "running": 2, "waiting": 0}


def test_what_is_unknown_has_no_row():
    """A server without these metrics, or no sidecar at all."""
    assert rows(latest()) == {"MemAvailable MiB": 3072}
    assert rows({}) == {}


def test_history_counts_from_the_begin_of_the_run():
    """Counters since the first sample, the rate since the one before."""
    first = latest(1, prefix_query_tokens=1000, prefix_hit_tokens=100, preemptions=1, generation_tokens=500)
    before = latest(2, generation_tokens=600)
    now = latest(4, prefix_query_tokens=3000, prefix_hit_tokens=900, preemptions=3, generation_tokens=800, kv_usage=0.5)
    found = dict(zip(HISTORY_COLUMNS, history(now, first=first, previous=before), strict=True))
    assert found == {
        "mem_available_mib": 3072,
        "swap_used_mib": 0,
        "oom_kill": 0,
        "psi_memory_full_avg10": None,
        "kv_cache_percent": 50,
        "running": None,
        "waiting": None,
        "prefix_query_tokens": 2000,
        "prefix_hit_tokens": 800,
        "preemptions": 2,
        "generation_tok_s": 100,
    }


def test_after_a_restart_the_count_is_the_new_one():
    """A counter that fell began anew."""
    found = history(latest(2, prefix_hit_tokens=30), first=latest(1, prefix_hit_tokens=900))
    assert found[HISTORY_COLUMNS.index("prefix_hit_tokens")] == 30


def snapshot(**data: Any) -> dict[str, Any]:
    common = {"process_start_time_s": 5.0, "success": {"stop": 1}, "prefix_query_tokens": 10, "prefix_hit_tokens": 2}
    return {"data": common | data}


def test_one_requests_delta():
    """Exactly one success in between: what it asked for and found."""
    after = snapshot(success={"stop": 1, "length": 1}, prefix_query_tokens=110, prefix_hit_tokens=66)
    assert prefix_delta(snapshot(), after) == PrefixDelta(query_tokens=100, hit_tokens=64)


def test_what_can_not_be_attributed_is_unknown():
    """None, two, a restart, or counters that are missing."""
    assert prefix_delta(snapshot(), snapshot()) is None
    assert prefix_delta(snapshot(), snapshot(success={"stop": 3})) is None
    assert prefix_delta(snapshot(), snapshot(success={"stop": 2}, process_start_time_s=6.0)) is None
    assert prefix_delta({"data": {}}, snapshot(success={"stop": 2})) is None
    assert prefix_delta({}, {}) is None


def test_the_table_has_every_key_that_occurs(tmp_path: Path):
    """Rows in the order of the file; a cut last line is passed over; a missing source shows its reason."""
    file = tmp_path / "samples.jsonl"
    lines = [sample("host", 1, load1=0.5), sample("gpu", 2, missing="没有 GPU"), sample("server", 3, success={"stop": 1})]
    file.write_bytes(b"".join(map(to_line, lines)) + b'{"kind":"sample","sour')
    assert write_csv(file, tmp_path / "t.csv") == 3
    with (tmp_path / "t.csv").open(encoding="utf-8-sig") as opened:
        table = list(csv.DictReader(opened))
    assert [(row["source"], row["missing"], row["load1"], row["success"]) for row in table] == [
        ("host", "", "0.5", ""),
        ("gpu", "没有 GPU", "", ""),
        ("server", "", "", '{"stop":1}'),
    ]


def test_no_file_is_an_empty_table(tmp_path: Path):
    """A run without a sidecar."""
    assert write_csv(tmp_path / "none.jsonl", tmp_path / "t.csv") == 0
