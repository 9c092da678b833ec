# ruff: noqa: E501  tables of facts read better unbroken
"""Run folders as loadkit writes them, made with a seed: for looking at reports without a server.

`python tests/report/made_run.py FOLDER [requests]` writes one.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadkit.record import (
    AnchorLine,
    Answer,
    AnswerVerdict,
    CaseFacts,
    ErrorPhase,
    Events,
    Failure,
    Heartbeat,
    Outcome,
    Record,
    Sample,
    Slot,
    Start,
    Usage,
    to_line,
)
from loadkit.run_folder import PLAN, SAMPLES, records_file, write_manifest

MS = 1_000_000
S = 1_000 * MS
T0 = 5_000 * S
WALL0 = 1_790_000_000 * S
GIB = 1 << 30
BOOT = "0f0e0d0c-1111-2222-3333-444455556666"
HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1"> \'" & <b>bold</b> ]]> {{7*7}} \u2028'


@dataclass
class Shape:
    """What a made run looks like."""

    rounds: int = 3
    ways: tuple[int, ...] = (1, 2, 4)
    per_user: int = 1
    retrieval: bool = True
    host: bool = True
    failures: bool = True
    tokens: int = 256
    answer_characters: int = 0
    killed: bool = False
    seed: int = 7


def manifest(shape: Shape) -> dict[str, Any]:
    return {
        "run_id": "20261002T101112Z-made", "label": "made", "loadkit_version": "0.1.0", "created_wall_ns": WALL0,
        "boot_id": BOOT, "argv": ["locust", "-f", "locustfiles/concurrency.py", "--headless"],
        "options": {"ways": "1,2,4", "rounds": shape.rounds, "max_tokens": shape.tokens, "sampling_seed": 42},
        "target": {"base_url": "http://127.0.0.1:8000/v1", "model": "qwen3.8-flash <nightly>", "dialect": "vllm",
                   "embedded_simulator": False, "max_model_len": 262144},
        "server": {"version": "0.32.0", "arguments": {"--enable-prefix-caching": True, "--api-key": "***"},
                   "image_digest": "sha256:" + "ab" * 32, "system_fingerprint": "vllm-0.32.0-tp1-1a2b",
                   "process_start_time_s": 1_789_990_000.5, "cache_config": {"block_size": "16"}},
        "host": {"kernel": "6.11.0-nvidia", "cpu_count": 20, "mem_total_bytes": 128 * GIB,
                 "mem_available_bytes": 40 * GIB, "driver": "580.95"},
        "client": {"python": "3.11.9", "packages": {"locust": "2.47.0", "openai": "3.57.0"}},
        "plan": {"name": "concurrency", "seed": 0, "hash": "cd" * 32, "ways": list(shape.ways), "rounds": shape.rounds, "items": 21},
        "scenarios": {"short": "ef" * 32}, "asked": {"answers": True, "slo": False, "host": True, "truncation": True},
        "slo": [], "clock": {"offset_ns": 0, "error_ns": 120},
        "state": "running" if shape.killed else "finished",
    }  # fmt: skip


class Made:
    """Builds the lines of one run; time goes on as requests are added."""

    def __init__(self, shape: Shape):
        self.shape = shape
        self.random = random.Random(shape.seed)
        self.now = T0
        self.lines: list[bytes] = [
            to_line(AnchorLine(worker="", pid=1, boot_id=BOOT, monotonic_ns=T0, wall_ns=WALL0, error_ns=90))
        ]
        self.plan: list[dict[str, Any]] = []
        self.number = 0

    def stage(self, name: str, ways: int, round_: int, facts: list[CaseFacts]) -> None:
        """`ways` users working through `facts`, each one taking the next when it is free."""
        self.plan.append(
            {"kind": "stage_begin", "stage": name, "round": round_, "phase": "measured", "ways": ways, "at_ns": self.now}
        )
        free = [self.now] * ways
        for case in facts:
            way = min(range(ways), key=free.__getitem__)
            slot = Slot(stage=name, ways=ways, round=round_, way=way, user=str(way))
            free[way] = self.request(case, slot, free[way]) + 2 * MS
        self.now = max(free) + 300 * MS
        self.plan.append(
            {"kind": "stage_end", "stage": name, "round": round_, "phase": "measured", "ways": ways, "at_ns": self.now}
        )

    def request(self, case: CaseFacts, slot: Slot, due: int) -> int:
        self.number += 1
        identity = f"m-{self.number:05d}"
        self.lines.append(to_line(Start(id=identity, due_ns=due, slot=slot, case=case)))
        if self.shape.failures and self.random.random() < 0.02:
            return self.failed(identity, case, slot, due)
        return self.completed(identity, case, slot, due)

    def completed(self, identity: str, case: CaseFacts, slot: Slot, due: int) -> int:
        warm = case.cache == "warm"
        prompt = case.planned_prompt_tokens or 64
        cached = (prompt // 16 - 1) * 16 if warm else 0
        sent = due + int(self.random.expovariate(1 / 80_000))
        first = sent + int(60 * MS + (prompt - cached) / 2000 * S * self.random.lognormvariate(0, 0.08))
        step = int(33 * MS * (1 + 0.28 * ((slot.ways or 1) - 1)))
        total = case.max_tokens if case.workload == "speed" else self.random.randint(40, case.max_tokens or 256)
        at, tokens, kinds = [first], [1], ["r"]
        while sum(tokens) < (total or 1):
            gap = int(step * self.random.lognormvariate(0, 0.12)) + (self.random.random() < 0.004) * 900 * MS
            at.append(at[-1] + gap)
            tokens.append(min(self.random.choice((1, 2, 3)), (total or 1) - sum(tokens)))
            kinds.append("r" if sum(tokens) < (total or 1) * 0.4 else "a")
        late = tuple(int(self.random.expovariate(1 / 25_000)) for _ in at)
        code = f"{self.random.randrange(1 << 24):06X}"
        hostile = self.number % 50 == 3
        self.lines.append(to_line(Record(
            id=identity, slot=slot, case=case, outcome=Outcome.COMPLETED, due_ns=due, sent_ns=sent, written_ns=sent + 40_000,
            headers_ns=sent + 3 * MS, end_ns=at[-1], closed_ns=at[-1] + 200_000,
            events=Events(at_ns=tuple(at), late_ns=late, kinds="".join(kinds), tokens=tuple(tokens)), stamp_source="kernel",
            http_status=200, finish_reason="length" if case.workload == "speed" else "stop",
            usage=Usage(prompt_tokens=prompt, completion_tokens=sum(tokens), reasoning_tokens=sum(tokens) // 3, cached_tokens=cached),
            answer=HOSTILE if hostile else "答" * self.shape.answer_characters + f"档案 {slot.way} 的编号是 {code}。\nANSWER: {code}", reasoning="Let me look it up. " * 12,
            body_sha256="12" * 32, answer_sha256="34" * 32, response_id=f"chatcmpl-{identity}", system_fingerprint="vllm-0.32.0-tp1-1a2b",
        )))  # fmt: skip
        if case.workload == "quality":
            answer = self.random.choices(
                (Answer.CORRECT, Answer.WRONG, Answer.WRONG_DISTRACTOR, Answer.REFUSED), (40, 1, 1, 1)
            )[0]
            detail = (
                ""
                if answer is Answer.CORRECT
                else f"expected {code}, the answer names another record {HOSTILE if hostile else ''}"
            )
            self.lines.append(to_line(AnswerVerdict(id=identity, check="answer_line", answer=answer, detail=detail)))
        return at[-1]

    def failed(self, identity: str, case: CaseFacts, slot: Slot, due: int) -> int:
        outcome, failure, status, took = self.random.choice((
            (Outcome.HTTP_ERROR, Failure(kind="503", message='{"error": {"message": "queue full"}}', phase=ErrorPhase.HEADERS), 503, 4),
            (Outcome.STREAM_ERROR, Failure(kind="error_object", message=f"EngineDeadError {HOSTILE}", phase=ErrorPhase.STREAM), 200, 900),
            (Outcome.TIMEOUT, Failure(kind="first_token", message="no first token in 600 s", phase=ErrorPhase.FIRST_TOKEN), 200, 5000),
            (Outcome.CONNECTION, Failure(kind="reset", message="connection reset by peer", phase=ErrorPhase.SEND, reused_connection=True), None, 1),
        ))  # fmt: skip
        sent, closed = due + 60_000, due + took * MS
        events = Events()
        if outcome is Outcome.STREAM_ERROR:
            at = tuple(sent + 200 * MS + 30 * MS * number for number in range(20))
            events = Events(at_ns=at, late_ns=(20_000,) * 20, kinds="r" * 20, tokens=(1,) * 20)
        self.lines.append(to_line(Record(
            id=identity, slot=slot, case=case, outcome=outcome, due_ns=due, sent_ns=sent, closed_ns=closed, events=events,
            stamp_source="kernel", http_status=status, failure=failure, answer="Half an ans" if events.at_ns else None,
        )))  # fmt: skip
        return closed

    def heartbeats(self) -> None:
        for second in range(int((self.now - T0) / S) + 1):
            self.lines.append(to_line(Heartbeat(
                at_ns=T0 + second * S, in_flight=2, cpu_ns=second * 90 * MS, loop_late_max_ns=int(self.random.expovariate(1 / 300_000)),
                rss_bytes=80 << 20,
            )))  # fmt: skip

    def samples(self) -> list[bytes]:
        lines, span = [], (self.now - T0) / S

        def sample(source: str, at: float, **data: object) -> bytes:
            return to_line(
                Sample(source=source, monotonic_ns=T0 + int(at * S), wall_ns=WALL0 + int(at * S), boot_id=BOOT, data=data)
            )

        for quarter in range(int(span * 4)):
            at = quarter / 4
            dip = 30 * GIB if 0.55 < at / span < 0.7 else 0
            free = 38 * GIB - dip + int(self.random.gauss(0, GIB / 5))
            lines.append(sample("host", at, mem_total_bytes=128 * GIB, mem_available_bytes=free, swap_used_bytes=0, oom_kill=0 if at / span < 0.68 else 4,
                                psi_memory_some_avg10=0.2, psi_memory_full_avg10=0.0, cpu_percent=21.0, load1=1.3))  # fmt: skip
            if quarter % 4 == 0:
                lines.append(sample("server", at, up=True, process_start_time_s=1_789_990_000.5, running=2, waiting=0,
                                    kv_usage=min(1.0, 0.1 + 0.5 * abs((at * 0.7) % 2 - 1)), prefix_query_tokens=1000 * quarter,
                                    prefix_hit_tokens=400 * quarter, preemptions=0, generation_tokens=60 * quarter, prompt_tokens=1000 * quarter))  # fmt: skip
        lines.append(sample("kernel", span * 0.68, event="oom_kill", pid=4242, comm="VLLM::EngineCor", constraint="CONSTRAINT_NONE",
                            text="Out of memory: Killed process 4242 (VLLM::EngineCor) anon-rss:1048576kB <evil>", seq=991, anon_rss_kb=1048576))  # fmt: skip
        lines.append(sample("guard", span * 0.56, level="warn", action="", reason="MemAvailable 7.9 GiB < 8 GiB"))
        return lines


def make(folder: Path, shape: Shape | None = None) -> Path:
    """Write a run folder into `folder` (made if absent)."""
    shape = shape or Shape()
    folder.mkdir(parents=True, exist_ok=True)
    made = Made(shape)
    speed = CaseFacts(
        scenario="short", case="short-1", workload="speed", max_tokens=shape.tokens, planned_prompt_tokens=64, cache="cold"
    )
    for round_ in range(1, shape.rounds + 1):
        for ways in shape.ways:
            made.stage(f"{ways} ways", ways, round_, [speed] * ways * shape.per_user)
    if shape.retrieval:
        for tier in (8, 32, 64, 128):
            made.stage(f"retrieval {tier}K", 1, 1, [
                CaseFacts(scenario="retrieval", case=f"doc{document}-{tier}K-{depth}", workload="quality", tier=f"{tier}K", max_tokens=512,
                          planned_prompt_tokens=tier * 1024, cache="cold" if order == 0 else "warm", tags={"depth": depth / 100, "order": order})
                for document in (1, 2) for order, depth in enumerate((5, 50, 95, 5))
            ])  # fmt: skip
    made.heartbeats()
    lines = made.lines[: int(len(made.lines) * 0.7)] if shape.killed else made.lines
    tail = b'{"kind":"record","id":"m-cut' if shape.killed else b""
    records_file(folder).write_bytes(b"".join(lines) + tail)
    (folder / SAMPLES).write_bytes(b"".join(made.samples()) if shape.host else b"")
    import orjson

    (folder / PLAN).write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in made.plan))
    write_manifest(folder, manifest(shape))
    return folder


if __name__ == "__main__":
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    chosen = Shape(rounds=10, per_user=max(1, wanted // 70)) if wanted else Shape()
    sys.stdout.write(f"{make(Path(sys.argv[1]), chosen)}\n")
