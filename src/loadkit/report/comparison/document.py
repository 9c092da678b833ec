"""A comparison as JSON, for CI and for other tools; figures in the units that the keys name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from loadkit.compare.comparison import Comparison, Row
from loadkit.compare.launch import Side
from loadkit.compare.measure import look
from loadkit.compare.soundness import Soundness
from loadkit.report.comparison import words

VERSION = 1


def document(found: Comparison) -> dict[str, Any]:
    """Everything in the comparison as plain values; `version` rises when a key changes its meaning."""
    return {
        "version": VERSION,
        "headline": words.headline(found, "en"),
        "exit_code": found.exit_code,
        "refused": found.refused,
        "gate": found.gate,
        "slower_at_most": found.slower_at_most,
        "margin": found.margin,
        "alpha": found.alpha,
        "exploratory": found.exploratory,
        "caps": [cap.name.lower() for cap in found.caps],
        "factors": list(found.factors),
        "unused_factors": list(found.unused_factors),
        "differences": {"declared": [asdict(one) for one in found.explained], "drift": [asdict(one) for one in found.drift]},
        "sides": [_side(*one) for one in zip((found.a, found.b), found.soundness, strict=True)],
        "primary": _row(found.primary) if found.primary else None,
        "sign_flip_p": found.sign_flip,
        "rows": [_row(row) for row in found.rows],
        "lengths_differ": [_row(row) for row in found.lengths_differ],
        "answers": [asdict(row) for row in found.answers],
        "aborted": list(found.aborted),
        "notes": list(words.notes(found, "en")),
    }


def dumps(found: Comparison) -> bytes:
    """The document, indented, with a newline at its end."""
    return orjson.dumps(document(found), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _row(row: Row) -> dict[str, Any]:
    seen = look(row.measure.metric)
    estimate = row.estimate
    return {
        "metric": row.measure.metric,
        "group": row.group,
        "unit": seen.unit,
        "better": seen.better,
        "a": row.a,
        "b": row.b,
        "launches_a": list(row.of_a),
        "launches_b": list(row.of_b),
        "ratio": estimate.ratio,
        "low": estimate.low,
        "high": estimate.high,
        "p": estimate.p,
        "p_holm": row.p_holm,
        "sd_log": estimate.sd_log,
        "pairing": estimate.pairing,
        "word": row.judgement.word.value,
        "verdict": words.verdict(row, "en"),
        "pairs_needed": row.judgement.pairs_needed,
    }


def _side(side: Side, sound: Soundness) -> dict[str, Any]:
    launches = [
        {"started_s": launch.started_s, "pair": launch.pair, "runs": [str(run.folder) for run in launch.runs], **asdict(state)}
        for launch, state in zip(side.launches, sound.launches, strict=True)
    ]
    counts = {key: value for key, value in asdict(sound).items() if key != "launches"}
    return {"name": side.name, **counts, "launches": launches}
