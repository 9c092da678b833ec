"""`summarise`: a run folder read back becomes everything that a report says, as a pure function of its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadkit import slo
from loadkit.record import Answer, AnswerVerdict, Phase, Record
from loadkit.run_folder import Run
from loadkit.summary.audit import TokenAudit, Violation, token_audit, violations
from loadkit.summary.client import ClientError, client_error
from loadkit.summary.clocks import on_run_clock
from loadkit.summary.doubts import Drift, drifts, not_verified, self_test
from loadkit.summary.group import Group, group_of
from loadkit.summary.host import Host, judge_host
from loadkit.summary.judged import Judged, judged
from loadkit.summary.retrieval import Cell, EffectiveContext, effective_contexts, grid, same_answers
from loadkit.summary.stage import Stage
from loadkit.summary.tally import Part, parts_of, stages_of, tally

_FROM_MACHINE: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything that is derived from a run.

    Attributes:
        manifest: the run's manifest as it was written (provenance, what was asked for, how the run ended).
        requests: every request by due time, all phases and attempts; `Judged.counts` tells which enter figures.
        whole: all that count, as one group (speed and quality together: for counts and tokens, not for latencies).
        stages, scenarios, tiers: the tables. `retries`: attempts after the first, or `None` if there were none.
        skipped: items of the plan that were not sent, with the reason; they stay in the denominator.
        stops: reasons why the run was stopped early, as the plan's log holds them.
        slos: the objectives' results. `cells`, `contexts`: retrieval. `pairs`: (same answer, all) of questions asked cold and
            warm.
        fingerprints: how often each system_fingerprint was seen. `lost_workers`: names.
        selftest: the machine's last self-test, or `None`. `not_verified`: sentences, keys of `language.say`.
    """

    manifest: dict[str, Any]
    folder: str
    requests: tuple[Judged, ...]
    whole: Group
    stages: tuple[Stage, ...]
    scenarios: tuple[Part, ...]
    tiers: tuple[Part, ...]
    retries: Group | None
    skipped: tuple[dict[str, Any], ...]
    stops: tuple[str, ...]
    host: Host
    client: ClientError
    tokens: TokenAudit
    violations: tuple[Violation, ...]
    drifts: tuple[Drift, ...]
    slos: tuple[slo.Result, ...]
    cells: tuple[Cell, ...]
    contexts: tuple[EffectiveContext, ...]
    pairs: tuple[int, int]
    fingerprints: dict[str, int]
    lost_workers: tuple[str, ...]
    broken_lines: int
    selftest: dict[str, Any] | None
    not_verified: tuple[str, ...]

    @property
    def planned(self) -> int:
        """The denominator of COMPLETED: attempted, and skipped by the plan."""
        return self.whole.attempted + len(self.skipped)

    @property
    def state(self) -> str:
        """How the run ended: finished, interrupted, aborted, or running (it was killed before it could say)."""
        return str(self.manifest.get("state", "running"))


def summarise(run: Run, *, selftest: dict[str, Any] | None = _FROM_MACHINE) -> Summary:
    """Everything derived from the run. `selftest` is read from this machine unless it is given."""
    tested = self_test() if selftest is _FROM_MACHINE else selftest
    run = on_run_clock(run)
    host, requests = judge_host(run, judged(run))
    counting = [request for request in requests if request.counts]
    objectives = slo.parse_all(_objectives(run), where="manifest.json: slo")
    good = {request.record.id: slo.is_good(request.record, objectives, wrong=_is_wrong(request)) for request in counting}
    counted = tally(counting, good=good)
    whole = counted.group()
    client = client_error(
        whole,
        run.heartbeats,
        stamp_sources=dict(Counter(request.record.stamp_source for request in counting if request.record.events.at_ns)),
        transports=dict(Counter(request.record.transport for request in counting if request.record.sent_ns is not None)),
    )
    tokens = token_audit(run, requests)
    stages = stages_of(counted)
    again = [r for r in requests if r.record.slot.phase is Phase.MEASURED and r.record.slot.attempt > 1]
    return Summary(
        manifest=run.manifest,
        folder=str(run.folder),
        requests=requests,
        whole=whole,
        stages=stages,
        scenarios=parts_of(counted, tiers=False),
        tiers=parts_of(counted, tiers=True),
        retries=group_of(again) if again else None,
        skipped=tuple(line for line in run.plan if line.get("kind") == "skipped"),
        stops=tuple(str(line.get("reason", "")) for line in run.plan if line.get("kind") == "stop"),
        host=host,
        client=client,
        tokens=tokens,
        violations=(*violations(run, requests), *_slow_peaks(stages)),
        drifts=drifts(requests),
        slos=tuple(_slo_results(objectives, counting, whole)),
        cells=grid(requests),
        contexts=effective_contexts(requests),
        pairs=same_answers(requests),
        fingerprints=dict(Counter(f for request in counting if (f := request.record.system_fingerprint))),
        lost_workers=_lost_workers(run),
        broken_lines=run.broken_lines,
        selftest=tested,
        not_verified=not_verified(run, requests, whole=whole, host=host, client=client, tokens=tokens, selftest=tested),
    )


def summary_of(
    records: Iterable[Record], *, verdicts: Iterable[AnswerVerdict] = (), slo: Sequence[str] = (), name: str = ""
) -> Summary:
    """The same for records that a library user holds, without a run folder. No sidecar looked, so the host is unverified.

    `verdicts` are what `loadkit.checks.judge` found in their answers; `slo` are objectives such as "ttft_p95=2s".

    Raises:
        UsageError: an objective can't be read.
    """
    checks = tuple(verdicts)
    asked = {"answers": bool(checks), "slo": bool(slo)}
    manifest = {"label": name, "state": "finished", "slo": list(slo), "asked": asked}
    return summarise(Run(folder=Path(name), manifest=manifest, records=tuple(records), checks=checks))


def _objectives(run: Run) -> list[str]:
    """manifest.slo: a list of texts, or of objects with the key `text`."""
    return [str(item.get("text", "")) if isinstance(item, dict) else str(item) for item in run.manifest.get("slo", [])]


def _is_wrong(request: Judged) -> bool:
    return request.answer is not None and request.answer is not Answer.CORRECT


def _slo_results(objectives: Sequence[slo.Objective], counting: Sequence[Judged], whole: Group) -> list[slo.Result]:
    records = [request.record for request in counting]
    return [slo.result(one, records, correct=whole.correct, checked=whole.checked, good=whole.good) for one in objectives]


def _slow_peaks(stages: Sequence[Stage]) -> list[Violation]:
    """Peak token rate ≥ mean rate, both of the same tokens by their time."""
    found = []
    for part in (part for stage in stages for part in stage.rounds):
        peak, span_s = part.peak_tok_s, part.stream_s
        if peak is None or span_s is None:
            continue
        mean = part.stream_tokens / span_s
        if peak < mean * (1 - 1e-9):
            found.append(
                Violation(invariant="peak token rate ≥ mean rate", detail=f"{part.stage}: {peak:.1f} < {mean:.1f} tok/s")
            )
    return found


def _lost_workers(run: Run) -> tuple[str, ...]:
    """Workers that the master lost, and workers with requests that never ended while others went on."""
    reasons = [str(run.manifest.get("ended_reason") or ""), *(str(line.get("reason", "")) for line in run.plan)]
    named = [reason.partition(":")[2].strip() or "?" for reason in reasons if reason.startswith("worker_lost")]
    ended = run.manifest.get("state") in ("finished", "aborted")
    silent = sorted({start.slot.worker for start in run.lost if start.slot.worker}) if ended else []
    known = [name for name in named if name != "?"]
    return tuple(dict.fromkeys([*(known or named), *silent]))
