"""The self-test: this machine's client against a server that knows when it wrote what.

The simulator runs beside the client, paces its streams, and logs the time of each real write on the same clock. What the
client recorded is then compared, event by event:

    stamp error   record's stamp − the server's write
    gap error     gap between two events − the gap between the two writes, absolute
    TTFT error    (first event − sent) − (first write − request received)
    e2e error     (end − sent) − (chunk with finish_reason written − request received)

The first rung has twice the planned event rate; every further one doubles it, until the figures no longer hold. Criteria as
for a run: token counts exact, at most 1 % of the gaps coalesced, p99 of the stamp error within max(1 ms, 2 % of TTFT). TTFT
and e2e errors are shown and not judged: the time that a request waits until the simulator's process reads it is in them too,
while the stamps are the client's alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from loadkit.client import Client
from loadkit.errors import LoadkitError
from loadkit.record import CaseFacts, Outcome, Record, Slot
from loadkit.request import Request, Target
from loadkit.run_folder import write_atomically
from loadkit.statistics import nearest_rank

RUNG_S = 2.0
APART_S = 0.005
"""Between two requests: sent in one burst they would queue inside the simulator, which is no error of the client."""

COALESCED_SHARE = 0.01
ERROR_NS = 1_000_000
ERROR_SHARE_OF_TTFT = 0.02
STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is planned: `streams` at a time, each with an event every `interval_ms`."""

    streams: int = 64
    interval_ms: float = 20.0

    @property
    def events_per_s(self) -> float:
        return self.streams * 1000 / self.interval_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One kind of error over all events or requests, milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One event rate: what was asked, what came, and how far off the client was. `reasons` says why it is not met."""

    asked_events_per_s: float
    events_per_s: float
    requests: int
    events: int
    tokens_exact: bool
    coalesced_share: float
    stamp: Error
    gap: Error
    ttft: Error
    e2e: Error
    reasons: tuple[str, ...]

    @property
    def met(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The self-test of one machine. `trusted_events_per_s` is the highest rate that was met; 0 if none was."""

    passed: bool
    exit_code: int
    at: str
    wall_ns: int
    host: str
    cpu_count: int
    load_average: float
    python: str
    planned: Load
    stamp_source: str
    trusted_events_per_s: float
    rungs: tuple[Rung, ...]


def run(planned: Load, *, most: int = 5) -> Result:
    """Climb from twice the planned rate, doubling, until a rung is not met or `most` rungs are done.

    Raises:
        LoadkitError: the simulator does not start, or answers nothing.
    """
    rungs: list[Rung] = []
    source = "read"
    for step in range(most):
        rung, source = _rung(replace(planned, interval_ms=planned.interval_ms / 2 ** (step + 1)))
        rungs.append(rung)
        if not rung.met:
            break
    passed = rungs[0].met
    return Result(
        passed=passed,
        exit_code=0 if passed else 5,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        wall_ns=time.time_ns(),
        host=platform.node(),
        cpu_count=os.cpu_count() or 1,
        load_average=os.getloadavg()[0],
        python=platform.python_version(),
        planned=planned,
        stamp_source=source,
        trusted_events_per_s=max((rung.events_per_s for rung in rungs if rung.met), default=0.0),
        rungs=tuple(rungs),
    )


def state_file() -> Path:
    """Where the latest result lies, per user: $XDG_STATE_HOME/loadkit/selftest.json, else below ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "loadkit" / "selftest.json"


def store(result: Result, path: Path) -> None:
    """Keep the result, so that reports can cite it.

    Raises:
        OSError: the folder can't be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, orjson.dumps(asdict(result), option=orjson.OPT_INDENT_2))


def compare(records: Sequence[Record], truths: Sequence[dict[str, Any]], asked_events_per_s: float) -> Rung:
    """What the client recorded against what the server wrote; requests are joined by their id.

    Raises:
        LoadkitError: nothing was recorded that could be compared.
    """
    by_id = {truth["request_id"]: truth for truth in truths}
    pairs = [(record, by_id[record.id]) for record in records if record.id in by_id and record.events.at_ns]
    if not pairs:
        raise LoadkitError("the self-test recorded no event")
    whole = [(record, truth) for record, truth in pairs if len(record.events.at_ns) == len(truth["at_ns"])]
    exact = len(whole) == len(records) and all(_tokens_agree(record, truth) for record, truth in whole)
    writes = [at for _, truth in pairs for at in truth["at_ns"]]
    events = sum(len(record.events.at_ns) for record, _ in pairs)
    rung = Rung(
        asked_events_per_s=asked_events_per_s,
        events_per_s=len(writes) / max((max(writes) - min(writes)) / 1e9, 1e-9),
        requests=len(records),
        events=events,
        tokens_exact=exact,
        coalesced_share=sum(len(record.events.coalesced) for record, _ in pairs) / max(events, 1),
        stamp=_error(
            [stamp - at for record, truth in whole for stamp, at in zip(record.events.at_ns, truth["at_ns"], strict=True)]
        ),
        gap=_error([abs(error) for record, truth in whole for error in _gap_errors(record, truth)]),
        ttft=_error(
            [_since_sent(record, record.events.at_ns[0]) - _since_received(truth, truth["at_ns"][0]) for record, truth in pairs]
        ),
        e2e=_error(
            [
                _since_sent(record, record.end_ns) - _since_received(truth, truth["finish_ns"])
                for record, truth in pairs
                if record.end_ns is not None and truth["finish_ns"] is not None
            ]
        ),
        reasons=(),
    )
    median_ttft_ns = nearest_rank(sorted(_since_sent(record, record.events.at_ns[0]) for record, _ in pairs), 0.5)
    return replace(rung, reasons=tuple(_reasons(rung, records, median_ttft_ns)))


def _rung(load: Load) -> tuple[Rung, str]:
    tokens = max(50, int(RUNG_S * 1000 / load.interval_ms))
    with tempfile.TemporaryDirectory(prefix="loadkit-selftest-") as folder:
        truth = Path(folder) / "truth.jsonl"
        with _simulator(load, truth) as facts:
            records = _ask(Target(base_url=facts["url"] + "/v1", model=facts["model"]), load.streams, tokens)
        truths = [orjson.loads(line) for line in truth.read_bytes().splitlines()]
    measured = [record for record in records if not record.id.startswith("warm")]
    return compare(measured, truths, load.events_per_s), measured[0].stamp_source


@contextlib.contextmanager
def _simulator(load: Load, truth: Path) -> Iterator[dict[str, Any]]:
    command = [
        sys.executable, "-m", "loadkit", "sim", "--port", "0", "--exit-with-stdin", "--preset", "fast",
        "--pace-ms", str(load.interval_ms), "--max-num-seqs", str(load.streams), "--truth", str(truth),
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise LoadkitError(f"the simulator did not start (exit code {process.wait()})")
        try:
            yield json.loads(line)
        finally:
            process.terminate()
            process.wait(30)


def _ask(target: Target, streams: int, tokens: int) -> list[Record]:
    import uvloop

    async def late(client: Client, request: Request, place: int) -> Record:
        await asyncio.sleep(place * APART_S)
        return await client.send(request)

    async def ask() -> list[Record]:
        async with Client(target) as client:
            warm = await asyncio.gather(*(client.send(_request(target, f"warm-{number}", 2)) for number in range(streams)))
            gc.collect()
            gc.freeze()
            gc.disable()
            try:
                asked = [_request(target, f"selftest-{number}", tokens) for number in range(streams)]
                return [*warm, *await asyncio.gather(*(late(client, request, place) for place, request in enumerate(asked)))]
            finally:
                gc.enable()
                gc.unfreeze()

    return list(uvloop.run(ask()))


def _request(target: Target, name: str, tokens: int) -> Request:
    body = {
        "model": target.model, "messages": [{"role": "user", "content": "Tell me about the sea."}], "stream": True,
        "stream_options": STREAM_OPTIONS, "max_tokens": tokens, "ignore_eos": True, "temperature": 0, "cache_salt": name,
    }  # fmt: skip
    facts = CaseFacts(scenario="selftest", case=name, workload="speed", max_tokens=tokens)
    return Request(id=name, slot=Slot(), case=facts, body=orjson.dumps(body))


def _reasons(rung: Rung, records: Sequence[Record], median_ttft_ns: float) -> Iterator[str]:
    limit_ms = max(ERROR_NS, ERROR_SHARE_OF_TTFT * median_ttft_ns) / 1e6
    failed = sum(record.outcome is not Outcome.COMPLETED for record in records)
    if failed:
        yield f"{failed} of {len(records)} requests did not complete"
    if not rung.tokens_exact:
        yield "token counts differ"
    if rung.coalesced_share > COALESCED_SHARE:
        yield f"{100 * rung.coalesced_share:.1f} % of the gaps are coalesced"
    if rung.stamp.p99_ms > limit_ms:
        yield f"p99 of the stamp error is {rung.stamp.p99_ms:.2f} ms, over {limit_ms:.2f} ms"


def _tokens_agree(record: Record, truth: dict[str, Any]) -> bool:
    usage = truth["usage"] or {}
    return (
        record.events.tokens == tuple(truth["tokens"])
        and record.usage.completion_tokens == usage.get("completion_tokens")
        and record.usage.prompt_tokens == usage.get("prompt_tokens")
    )


def _gap_errors(record: Record, truth: dict[str, Any]) -> list[int]:
    stamps, writes = record.events.at_ns, truth["at_ns"]
    return [
        (later - earlier) - (wrote - before)
        for earlier, later, before, wrote in zip(stamps, stamps[1:], writes, writes[1:], strict=False)
    ]


def _since_sent(record: Record, at_ns: int | None) -> int:
    return (at_ns or 0) - (record.sent_ns or 0)


def _since_received(truth: dict[str, Any], at_ns: int) -> int:
    since: int = at_ns - truth["received_ns"]
    return since


def _error(values_ns: Sequence[int]) -> Error:
    if not values_ns:
        return Error(p50_ms=0.0, p99_ms=0.0, max_ms=0.0)
    ordered = sorted(values_ns)
    return Error(p50_ms=nearest_rank(ordered, 0.5) / 1e6, p99_ms=nearest_rank(ordered, 0.99) / 1e6, max_ms=ordered[-1] / 1e6)
