"""Records and runs with chosen stamps, in milliseconds from a start, so that every figure can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadkit.record import (
    Answer,
    AnswerVerdict,
    CaseFacts,
    Events,
    Failure,
    Heartbeat,
    Outcome,
    Phase,
    Record,
    Sample,
    Slot,
    Start,
    Usage,
)
from loadkit.run_folder import Run

MS = 1_000_000
S = 1000 * MS
T0 = 1_000 * S
WALL0 = 1_790_000_000 * S
GIB = 1 << 30
BOOT = "boot-1"


def at(ms: float) -> int:
    """A moment of the run's clock."""
    return T0 + round(ms * MS)


def case(**changes: Any) -> CaseFacts:
    return replace(CaseFacts(scenario="short", case="c1", workload="speed"), **changes)


def record(
    id_: str = "r1",
    *,
    sent: float = 0.0,
    events: Sequence[float] = (100, 200, 300),
    tokens: Sequence[int] | None = (1, 1, 1),
    kinds: str = "",
    end: float | None = None,
    n: int | None = -1,
    outcome: Outcome = Outcome.COMPLETED,
    facts: CaseFacts | None = None,
    slot: Slot | None = None,
    due: float | None = None,
    **changes: Any,
) -> Record:
    """One request; `n=-1` takes the sum of `tokens`. Times in milliseconds."""
    stamps = tuple(at(moment) for moment in events)
    last = end if end is not None else (events[-1] if events else sent)
    total = (sum(tokens) if tokens is not None else len(stamps)) if n == -1 else n
    made = Record(
        id=id_,
        slot=slot or Slot(),
        case=facts or case(),
        outcome=outcome,
        due_ns=at(sent if due is None else due),
        sent_ns=at(sent),
        end_ns=at(last) if outcome is Outcome.COMPLETED else (stamps[-1] if stamps else None),
        closed_ns=at(last) + MS,
        events=Events(at_ns=stamps, kinds=kinds or "a" * len(stamps), tokens=None if tokens is None else tuple(tokens)),
        finish_reason="length" if outcome is Outcome.COMPLETED else None,
        usage=Usage(prompt_tokens=10, completion_tokens=total if outcome is Outcome.COMPLETED else None),
        failure=None if outcome in (Outcome.COMPLETED, Outcome.CANCELLED) else Failure(kind="503", message="busy"),
    )
    return replace(made, **changes)


def run(records: Sequence[Record], *, samples: Sequence[Sample] = (), lost: Sequence[Record] = (), **changes: Any) -> Run:
    """A run of these records, each with its start; `lost` are requests that only started."""
    starts = tuple(Start(id=one.id, due_ns=one.due_ns, slot=one.slot, case=one.case) for one in [*records, *lost])
    manifest = {"run_id": "t", "label": "t", "state": "finished", "asked": {}, "slo": [], **changes.pop("manifest", {})}
    made = Run(folder=Path("t"), manifest=manifest, starts=starts, records=tuple(records), samples=tuple(samples))
    return replace(made, **changes)


def verdict_on(id_: str, answer: Answer = Answer.CORRECT, **changes: Any) -> AnswerVerdict:
    return AnswerVerdict(id=id_, check="contains", answer=answer, **changes)


def sample(source: str, ms: float, **data: Any) -> Sample:
    boot = data.pop("boot_id", BOOT)
    return Sample(source=source, monotonic_ns=at(ms), wall_ns=WALL0 + round(ms * MS), boot_id=boot, data=data)


def watched(begin: float, end: float, *, step: float = 1000.0, **host: Any) -> list[Sample]:
    """What a sidecar on the server's host writes when nothing happens: host, server and kernel log."""
    facts = {"mem_available_bytes": 40 * GIB, "oom_kill": 3, "psi_memory_full_avg10": 0.0, **host}
    found = [sample("kernel", begin, event="watching", how="/dev/kmsg")]
    moment = begin
    while moment <= end:
        found.append(sample("host", moment, **facts))
        found.append(sample("server", moment, up=True, server_seen=True, server_pid=7, process_start_time_s=5.0))
        moment += step
    return found


def beats(begin: float, end: float, *, step: float = 1000.0) -> tuple[Heartbeat, ...]:
    count = int((end - begin) / step) + 1
    return tuple(
        Heartbeat(at_ns=at(begin + step * place), in_flight=1, cpu_ns=place * 10 * MS, loop_late_max_ns=MS, rss_bytes=50 << 20)
        for place in range(count)
    )


def way(number: int, *, ways: int = 2, round_: int = 1, stage: str | None = None, **changes: Any) -> Slot:
    made = Slot(stage=stage or f"{ways} ways", ways=ways, round=round_, way=number)
    return replace(made, **changes)


WARM_UP = Slot(phase=Phase.WARMUP)
