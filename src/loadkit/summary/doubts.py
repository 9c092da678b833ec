"""What a report has to admit: drift within the run, the self-test it leans on, and what nobody verified."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from loadkit.metrics import NS_PER_S, tpot_ns
from loadkit.run_folder import Run
from loadkit.statistics import trend
from loadkit.summary.audit import TokenAudit
from loadkit.summary.client import ClientError
from loadkit.summary.group import Group
from loadkit.summary.host import Host
from loadkit.summary.judged import Judged

DRIFT_REQUESTS = 20
DRIFT_CHANGE = 0.10
DRIFT_P = 0.001
_HOUR_NS = 3600 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """TPOT of like requests that moves over the run: `change` over its whole span (0.12 = 12 % slower), p of Mann-Kendall."""

    stage: str
    scenario: str
    change: float
    p: float
    requests: int


def drifts(requests: Sequence[Judged]) -> tuple[Drift, ...]:
    """Sets of at least 20 like requests (stage, scenario, tier, cache) whose TPOT changed by more than 10 %, p < 0.001."""
    like: dict[tuple[Any, ...], list[Judged]] = {}
    for request in requests:
        slot, case = request.record.slot, request.record.case
        if request.counts and request.completed:
            like.setdefault((slot.stage, case.scenario, slot.ways, case.tier, case.cache), []).append(request)
    found = []
    for key, part in like.items():
        series = [tpot for request in sorted(part, key=_sent) if (tpot := tpot_ns(request.record)) is not None]
        drift = trend(series) if len(series) >= DRIFT_REQUESTS else None
        if drift is not None and drift.p < DRIFT_P and abs(drift.change) > DRIFT_CHANGE:
            found.append(Drift(stage=key[0], scenario=key[1], change=drift.change, p=drift.p, requests=len(series)))
    return tuple(found)


def self_test(environ: Mapping[str, str] = os.environ) -> dict[str, Any] | None:
    """This machine's last self-test: `$XDG_STATE_HOME/loadkit/selftest.json`, else in ~/.local/state; `None` without."""
    state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local" / "state")
    try:
        found = orjson.loads((Path(state) / "loadkit" / "selftest.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def not_verified(
    run: Run, requests: Sequence[Judged], *, whole: Group, host: Host, client: ClientError, tokens: TokenAudit, selftest: object
) -> tuple[str, ...]:
    """What this run does not show, as sentences (keys of `language.say`), in the order of the report's last section."""
    return (
        *_of_host(host),
        *_of_answers(whole),
        *_of_tokens(whole, tokens),
        *_of_client(client, selftest),
        *_of_scope(run, requests, whole),
    )


def _of_host(host: Host) -> Iterator[str]:
    if not host.samples:
        yield "Host stability: no sidecar watched the server's host."
    elif host.state == "unverified":
        yield "Host stability: the evidence is incomplete (see the host axis)."
    if host.samples and not host.kernel_log_seen:
        yield "Kernel log: it was not seen; give its lines with --kernel-log FILE."


def _of_answers(whole: Group) -> Iterator[str]:
    if not whole.checked:
        yield "Answers: no check is declared, so it is not known whether any answer is right."
    elif whole.answers.get("unverified"):
        yield "Answers: some requests of a scenario with checks have no verdict."


def _of_tokens(whole: Group, tokens: TokenAudit) -> Iterator[str]:
    if whole.tokens_unknown:
        yield "Output tokens: the server sent no usage for some requests."
    if whole.estimated:
        yield "Token times: the server gives no running usage; TPOT takes one token in the first chunk, ITL does not apply."
    if tokens.unseen:
        yield tokens.unseen
    elif tokens.server_tokens is not None and tokens.alone is None:
        yield "Token totals: the server does not say how many requests it finished."
    if any(name.endswith("unverified") for name in whole.caches):
        yield (
            "Prefix cache: for some requests with a declared cache state cached tokens are not reported, "
            "or are 0 where their number can't be foretold."
        )


def _of_client(client: ClientError, selftest: object) -> Iterator[str]:
    if client.stamp_sources.get("read"):
        if client.stamp_sources.get("kernel"):
            yield "Stamp error: some requests have the client's read times as stamps, whose lateness is not measured."
        else:
            yield "Stamp error: stamps are the client's read times, whose lateness is not measured."
    if selftest is None:
        yield "Self-test: none on this machine; run `loadkit selftest`."


def _of_scope(run: Run, requests: Sequence[Judged], whole: Group) -> Iterator[str]:
    if whole.first_sent_ns is None or whole.last_end_ns is None or whole.last_end_ns - whole.first_sent_ns < _HOUR_NS:
        yield "Soak: the load lasted less than an hour."
    long = [request for request in requests if request.counts and request.record.case.tier]
    if long and all((request.record.slot.ways or 1) == 1 for request in long):
        yield "Concurrent full length: long prompts were sent one at a time."
    limit = run.manifest.get("target", {}).get("max_model_len")
    longest = whole.distribution("prompt_tokens").maximum
    if limit and longest is not None and longest < 0.9 * limit:
        yield "Full length: no prompt came near the model's limit."
    yield "Multimodal input: only text was sent."


def _sent(request: Judged) -> int:
    return request.record.sent_ns or 0
