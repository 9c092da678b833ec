"""Writes docs/reference/csv-files.md: every column of every CSV file, from the tables that write them.

usage: python scripts/make_csv_reference.py        (scripts/make_references writes all pages; a test compares them)
"""

from __future__ import annotations

from reference_page import REFERENCE, page, paragraph, table

from loadkit.export import REQUEST_COLUMNS, STAGE_COLUMNS
from loadkit.gauges import HISTORY_COLUMNS

HISTORY = {
    "mem_available_mib": "MemAvailable of the server's host",
    "swap_used_mib": "swap in use there",
    "oom_kill": "processes killed for memory there, since its boot",
    "psi_memory_full_avg10": "percent of the last 10 s in which all tasks waited for memory",
    "kv_cache_percent": "KV cache in use, the fullest engine",
    "running": "requests that the server works on",
    "waiting": "requests in its queue",
    "prefix_query_tokens": "prompt tokens looked up in the prefix cache since the run began",
    "prefix_hit_tokens": "of them found",
    "preemptions": "requests that were pushed out of the KV cache since the run began",
    "generation_tok_s": "output tokens a second since the row before",
}
ROWS = (
    ("`CHAT`", "one `request` event per measured request; response time is e2e in ms, content size its output tokens"),
    ("`TTFT ms`, `TTFAT ms`", "first token, first token of the answer"),
    ("`TPOT µs`", "time per output token, in microseconds, so that Locust's whole numbers keep three digits"),
    ("`decode tok/s`", "1 / TPOT"),
    ("`MemAvailable MiB`, `KV cache %`, `running`, `waiting`", "the sidecar's gauges, one value a second (name: `server`)"),
)


def pages() -> dict[str, str]:
    """File name → content."""
    return {"csv-files.md": csv_page()}


def csv_page() -> str:
    """Locust's files with our rows and columns, and our own."""
    return page(
        "# CSV files",
        paragraph(
            "Our three (requests, stages, sidecar) are always in the run folder. `--csv out/run` gives Locust's own files, and ours beside "
            "them. `loadkit report RUN --csv out/run` writes ours again, later. All are UTF-8 with a byte order mark, so that Excel shows Chinese; a text that Excel would run as a formula gets an "
            "apostrophe in front. An empty cell means \"does not apply\" or \"unknown\", never 0. Times are milliseconds. This page is "
            "made from the code."
        ),
        "## `run_requests.csv`",
        "One row for each request of the run, warm-ups too (`phase`).",
        table(("column", "meaning"), [(f"`{column.name}`", column.meaning) for column in REQUEST_COLUMNS]),
        "## `run_stages.csv`",
        "One row for each round of each stage; measured requests only.",
        table(("column", "meaning"), [(f"`{column.name}`", column.meaning) for column in STAGE_COLUMNS]),
        "## `run_sidecar.csv`",
        paragraph(
            "One row for each sample: `wall_time` (UTC), `monotonic_ns` (the run's clock), `source`, `missing` (why the source could not "
            "be read), then one column for every key that occurred. [The sidecar's page](sidecar.md) lists the keys."
        ),
        "## `run_stats.csv`, `run_failures.csv`, `run_exceptions.csv`",
        paragraph(
            "Locust's. Names are scenario and stage (`short · 2 ways`), types are these; only `CHAT` rows enter the total. A failure is "
            "an outcome with its class (`stream_error: cut`) or a wrong answer (`answer: hedged`)."
        ),
        table(("type", "values"), ROWS),
        "## `run_stats_history.csv`",
        "Locust's, one row a second, with the sidecar's figures behind Locust's columns:",
        table(("column", "meaning"), [(f"`{name}`", HISTORY[name]) for name in HISTORY_COLUMNS]),
    )  # fmt: skip


if __name__ == "__main__":
    for file_name, content in pages().items():
        (REFERENCE / file_name).write_text(content, encoding="utf-8")
