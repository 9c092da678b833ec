"""Run folders made from figures: what `compare` reads, with every figure chosen by the test."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from loadkit.record import (
    Answer,
    AnswerVerdict,
    CaseFacts,
    Events,
    Outcome,
    Phase,
    Record,
    Slot,
    Start,
    Usage,
    to_line,
)
from loadkit.run_folder import write_manifest

MANIFEST: dict[str, Any] = {
    "loadkit_version": "0.1.0",
    "boot_id": "b",
    "target": {"base_url": "http://127.0.0.1:8000/v1", "model": "m", "dialect": "vllm", "max_model_len": 4096},
    "server": {"version": "0.32.0", "arguments": ["--max-num-seqs", "4"], "image_digest": "sha256:aa"},
    "host": {"kernel": "6.1", "cpu_count": 2},
    "client": {"python": "3.11"},
    "plan": {"name": "concurrency", "seed": 0, "hash": "p"},
    "scenarios": {"short": "s"},
    "options": {"rounds": 3, "max_tokens": 512},
    "state": "finished",
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request: its figures and where it stood."""

    case: str = "one"
    scenario: str = "short"
    stage: str = "1 way"
    round: int = 1
    workload: str = "speed"
    tokens: int = 101
    tpot_s: float = 0.02
    ttft_s: float = 0.3
    outcome: Outcome = Outcome.COMPLETED
    finish: str = "length"
    right: bool | None = None
    phase: Phase = Phase.MEASURED
    steps: int = 1
    tier: str | None = None
    question: str | None = None


@dataclass(frozen=True, kw_only=True)
class Made:
    """A run folder to be written. `experiment` and `pair` go into launch.json as an experiment would write them."""

    started_s: float | None
    asked: Sequence[Asked]
    manifest: dict[str, Any] = field(default_factory=dict)
    experiment: dict[str, Any] | None = None
    pair: int | None = None
    lost: int = 0
    label: str = ""


def write(folder: Path, made: Made) -> Path:
    """`folder`, which then holds a manifest, records and checks."""
    folder.mkdir(parents=True)
    manifest = {**MANIFEST, "label": made.label, **made.manifest}
    if made.started_s is not None:
        manifest["server"] = {**manifest["server"], "process_start_time_s": made.started_s}
    write_manifest(folder, manifest)
    at_ns = 1_000_000_000
    with (folder / "records.jsonl").open("wb") as file:
        for number, one in enumerate(made.asked):
            record = record_of(one, number, at_ns)
            file.write(to_line(Start(id=record.id, due_ns=at_ns, slot=record.slot, case=record.case)) + to_line(record))
            if one.right is not None:
                answer = Answer.CORRECT if one.right else Answer.WRONG
                file.write(to_line(AnswerVerdict(id=record.id, check="contains", answer=answer)))
            at_ns = record.closed_ns or at_ns
        for number in range(made.lost):
            record = record_of(made.asked[0], 10_000 + number, at_ns)
            file.write(to_line(Start(id=record.id, due_ns=at_ns, slot=record.slot, case=record.case)))
    if made.experiment is not None or made.pair is not None:
        facts = {"experiment": made.experiment or {"name": "generated"}, "pair": made.pair}
        (folder / "launch.json").write_bytes(orjson.dumps(facts))
    return folder


def record_of(one: Asked, number: int, sent_ns: int) -> Record:
    first_ns = sent_ns + round(one.ttft_s * 1e9)
    per_step = (one.tokens - 1) // one.steps
    counts = (1, *[per_step] * (one.steps - 1), one.tokens - 1 - per_step * (one.steps - 1))
    at_ns, seen = [first_ns], 0
    for count in counts[1:]:
        seen += count
        at_ns.append(first_ns + round(seen * one.tpot_s * 1e9))
    done = one.outcome is Outcome.COMPLETED
    slot = Slot(phase=one.phase, stage=one.stage, round=one.round, ways=1, way=0)
    case = CaseFacts(
        scenario=one.scenario, case=one.case, workload=one.workload, tier=one.tier, question_sha256=one.question  # type: ignore[arg-type]
    )  # fmt: skip
    record = Record(
        id=f"{one.case}-{number}",
        slot=slot,
        case=case,
        outcome=one.outcome,
        due_ns=sent_ns,
        sent_ns=sent_ns,
        headers_ns=sent_ns + 1000,
        end_ns=at_ns[-1],
        closed_ns=at_ns[-1] + 1000,
        events=Events(at_ns=tuple(at_ns), kinds="a" * len(at_ns), tokens=counts),
        http_status=200,
        finish_reason=one.finish if done else None,
        usage=Usage(prompt_tokens=40, completion_tokens=one.tokens, cached_tokens=0) if done else Usage(),
    )
    return record if done else replace(record, end_ns=None)
