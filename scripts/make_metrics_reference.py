"""Writes the reference of what the read half says: docs/reference/metrics.md, exit-codes.md, summary-file.md and the schema.

usage: python scripts/make_metrics_reference.py        (a test compares the files with what this makes)
"""

from __future__ import annotations

import json
from dataclasses import fields

from reference_page import REFERENCE, page, paragraph, table

from loadkit.metrics import METRICS
from loadkit.report import exported
from loadkit.slo import SHARES
from loadkit.statistics import SHOWN, minimum_count
from loadkit.summary.definitions import AGGREGATES, ELSEWHERE, INVARIANTS, STAMPS
from loadkit.verdict import EXIT_CODES, INVALID_REASONS

ROWS = (
    exported.SummaryFile, exported.StageRow, exported.RoundRow, exported.PartRow, exported.GroupRow, exported.FigureRow,
    exported.SpreadRow, exported.AxisRow,
)  # fmt: skip


def pages() -> dict[str, str]:
    """File name → content."""
    return {
        "metrics.md": metrics_page(),
        "exit-codes.md": exit_codes_page(),
        "summary-file.md": summary_page(),
        "summary.schema.json": json.dumps(exported.schema(), indent=2, ensure_ascii=False) + "\n",
    }


def metrics_page() -> str:
    """One definition of each figure."""
    percentiles = ", ".join(f"p{round(100 * p)} from {minimum_count(p)} values on" for p in SHOWN)
    requests = [(f"`{one.name}`", one.label, unit(one.unit), one.formula, one.note) for one in METRICS]
    return page(
        "# Metrics",
        paragraph(
            "Every figure that loadkit prints carries one of these names. Times inside are integer nanoseconds of the "
            'monotonic clock. `None` (a dash in tables, `null` in JSON) means "does not apply" or "unknown"; 0 means zero. '
            "This page is made from the code."
        ),
        "## Stamps of one request",
        table(("stamp", "meaning"), STAMPS),
        paragraph(
            "Tokens of an event are the rise of the running `usage.completion_tokens` (`--token-times on`). They never "
            "come from counting chunks or re-tokenising text."
        ),
        "## Of a request",
        table(("name", "in tables", "unit", "formula", "notes"), requests),
        "## Of a stage or a run",
        table(("name", "formula", "notes"), AGGREGATES),
        paragraph(
            f"Percentiles are nearest rank: {percentiles}; below that median and maximum are given. Figures of requests are "
            "exact; gaps between chunks are kept in a log-linear histogram whose error is at most 0.1 %."
        ),
        "## Service level objectives",
        paragraph(
            "`--slo ttft_p95=2s` asks that 95 % of the attempted requests have their first token within 2 s: failed, truncated "
            "and aborted requests stay in the denominator, as infinitely slow. Any figure of a request can stand before `_p50` "
            "… `_p99`, `_median` or `_max`; durations need a unit (`us`, `ms`, `s`, `min`). A rate (`decode_rate_p90=20`) is a "
            f"lower bound: 90 % are at least so fast. Shares of the requests are {', '.join(f'`{name}`' for name in SHARES)} "
            "(`failed=1%`). With fewer requests than the percentile needs an objective is inconclusive, unless already the "
            "median breaks the limit."
        ),
        "## Invariants",
        paragraph("A violation is a bug or an invalid run. It is reported, and makes the measurement invalid."),
        "\n".join(f"- {words}" for words in INVARIANTS),
        "## Coming from another tool",
        paragraph("One word, several formulas. Compare like with like:"),
        table(("tool", 'its "TPOT"', "here", 'its "ITL"', "here"), ELSEWHERE),
    )


def exit_codes_page() -> str:
    """What a run's exit code says, and what makes a measurement invalid."""
    return page(
        "# Exit codes",
        paragraph(
            "2 is given only before the first request; after it, the first that applies of 4, 130, 3, 5, 1, 6, 0. The same "
            "codes hold headless, for the last run in the web UI, and for `loadkit report RUN`. Ctrl-C pressed twice ends Locust "
            "before its run is: 130, and `loadkit report` says 130 too, or 3 (killed) where the run's state was not written yet."
        ),
        table(("code", "meaning"), [(str(code), words) for code, words in EXIT_CODES.items()]),
        paragraph(
            "Asked for (6) means: the scenario declares a check or an SLO (answers, truncation); `--sidecar` or `--guard` is "
            "given (host). A sidecar that started by itself prints `unverified` and does not make 6."
        ),
        "## What makes a measurement invalid",
        table(("reason", "meaning"), [(f"`{name}`", words) for name, words in INVALID_REASONS.items()]),
        paragraph(
            "A lateness is judged at its p99; with fewer than 299 values at the highest percentile that the count allows (p95 "
            "from 59, p90 from 29), and below that at its median. One late request among twenty is printed, not judged."
        ),
    )


def summary_page() -> str:
    """The keys of summary.json, class by class."""
    parts = [
        "# summary.json",
        paragraph(
            "Written into the run folder by `loadkit report RUN`, and at the end of each run. "
            f"Schema version {exported.VERSION}; "
            'the JSON schema is {download}`summary.schema.json`. `null` means "does not apply" or "unknown"; a percentile '
            'that failed requests reach is the string `"inf"`.'
        ),
    ]
    for row in ROWS:
        parts += [f"## {row.__name__}", paragraph(" ".join((row.__doc__ or "").split()))]
        parts.append(table(("key", "type"), [(f"`{item.name}`", f"`{item.type}`") for item in fields(row)]))
    return page(*parts)


def unit(name: str) -> str:
    """The unit inside, and the one in exports."""
    return {"ns": "ns (ms in exports)"}.get(name, name)


if __name__ == "__main__":
    for name, content in pages().items():
        (REFERENCE / name).write_text(content)
