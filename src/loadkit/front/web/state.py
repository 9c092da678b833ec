"""What the tab's script fetches every second: new points of the series, progress, table, markers, verdict, links."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from loadkit.front.web.exports import Exports
from loadkit.language import Language, gloss
from loadkit.live import Live, eta_s
from loadkit.live.run import S

GUARD_LEVELS_GIB = {"warn": 8, "stop_new": 6, "abort": 4}


def state(live: Live, exports: Exports, runner: Any, *, known: tuple[int, int], language: Language) -> dict[str, Any]:
    """The state as JSON. `known` is (generation, number of points) that the page has; only changed points are sent again."""
    generation, number = known
    begin = number if generation == live.series.generation else 0
    times, columns = live.series.since(begin)
    return {
        "language": language,
        "generation": live.series.generation,
        "from": begin,
        "times": [round(at, 2) for at in times],
        "columns": columns,
        "run": live.number,
        "label": str(live.manifest.get("label") or ""),
        "runner": runner.state if runner else "missing",
        "progress": {**asdict(live.progress), "eta_s": eta_s(live, time.monotonic_ns())},
        "rows": [asdict(row) for row in live.rows()],
        "markers": [
            [_since_begin(live, marker.at_ns), marker.severity, gloss(marker.text, language)] for marker in live.markers
        ],
        "levels": live.levels or GUARD_LEVELS_GIB,
        "ended": _ended(live, language),
        "links": exports.ready(),
    }


def _ended(live: Live, language: Language) -> dict[str, Any] | None:
    if live.ended_as is None:
        return None
    return {**asdict(live.ended_as), "headline": gloss(live.ended_as.headline, language)}


def _since_begin(live: Live, at_ns: int) -> float:
    return round((at_ns - (live.begun_ns or at_ns)) / S, 2)
