"""Four axes, the measurement, one headline and the exit code. "Completed" is not "passed".

Exit codes, the first that applies: 4 host unstable, or the guard aborted · 130 interrupted · 3 aborted or incomplete ·
5 measurement invalid · 1 answers, objectives or truncation failed · 6 a verdict was asked for and is inconclusive or
unverified · 0 pass. (2, usage, is given before the first request and has no verdict.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from loadkit.record import Outcome
from loadkit.summary import HostEvent, Summary

Word = Literal["pass", "fail", "inconclusive"]

PASS, ANSWERS_FAILED, USAGE, INCOMPLETE, HOST_UNSTABLE, INVALID, UNVERIFIED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130

EXIT_CODES: dict[int, str] = {
    PASS: "pass: everything that was asked for holds",
    ANSWERS_FAILED: "answers, objectives (SLO) or truncation failed",
    USAGE: "usage or configuration, only before the first request",
    INCOMPLETE: "aborted, or requests did not complete",
    HOST_UNSTABLE: "the server's host was unstable, or the guard aborted the run",
    INVALID: "the measurement is invalid",
    UNVERIFIED: "a verdict was asked for and is inconclusive or unverified",
    INTERRUPTED: "interrupted (Ctrl-C, SIGTERM, a terminal that was closed)",
}


INVALID_REASONS: dict[str, str] = {
    "client_bottleneck": "over 1 % of the gaps are coalesced, or stamps late by more than max(1 ms, 2 % of the TTFT median)",
    "schedule_degraded": "requests were sent later than planned by more than that, or arrivals found no free slot",
    "tokens_mismatch": "prompts are not of the planned length, or usage, stream and the server's counter disagree",
    "no_usage": "completed requests without token counts",
    "cache_unverified": "cached tokens contradict the declared cache state, or can't confirm it where warm meets cold",
    "config_drift": "the system fingerprint changed within the run",
    "non_stationary": "TPOT of at least 20 like requests moved by more than 10 % over the run (Mann-Kendall p < 0.001)",
    "records_incomplete": "lines of the records can't be read, or a finished run has requests without an end",
    "worker_lost": "a worker died, or left requests without an end",
    "invariant_violated": "a record breaks an invariant of the metrics reference",
}
"""Why a measurement is invalid. A percentile is judged only where there are enough values for it (see `summary.client`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis. `state` is a word of the method; `asked` whether a verdict on it was asked for."""

    name: str
    state: str
    reasons: tuple[str, ...] = ()
    asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The axes of a run and what they come to. `word` is pass, fail or inconclusive; `headline` one line of English."""

    transport: Axis
    stop: Axis
    answers: Axis
    host: Axis
    measurement: Axis
    slo: Axis
    word: Word
    exit_code: int
    headline: str

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.transport, self.stop, self.answers, self.host, self.measurement, self.slo)


def judge(summary: Summary) -> Verdict:
    """The verdict on a run, from its summary alone."""
    axes = {
        "transport": _transport(summary),
        "stop": _stop(summary),
        "answers": _answers(summary),
        "host": _host(summary),
        "measurement": _measurement(summary),
        "slo": _slo(summary),
    }
    code = _exit_code(summary, axes)
    word: Word = "pass" if code == PASS else "inconclusive" if code == UNVERIFIED else "fail"
    return Verdict(**axes, word=word, exit_code=code, headline=_headline(summary, axes, word, code))


def _transport(summary: Summary) -> Axis:
    """completed, incomplete, or nothing (zero rows are a failure)."""
    whole = summary.whole
    reasons = [f"{count} {name}" for name, count in whole.outcomes.items() if name not in ("completed", "cancelled")]
    reasons += [f"{len(summary.skipped)} not sent (skipped)"] if summary.skipped else []
    cancelled = whole.outcomes.get(Outcome.CANCELLED, 0)
    reasons += [f"{cancelled} cancelled"] if cancelled else []
    if not whole.attempted:
        return Axis(name="transport", state="nothing", reasons=("no request was measured",), asked=True)
    # A run that ended as planned cancels what is still in flight when its time is up: that is no failure.
    missing = whole.failed + len(summary.skipped) + (cancelled if summary.state != "finished" else 0)
    none_done = whole.completed == 0
    state = "incomplete" if missing or none_done else "completed"
    return Axis(name="transport", state=state, reasons=tuple(reasons), asked=True)


def _stop(summary: Summary) -> Axis:
    """truncated where a quality request ran out of its budget, aborted where the server gave up; without either `as planned`
    where answers ended by the length that they were to have (speed workloads), else natural."""
    cut = summary.whole.truncated
    aborted = summary.whole.stops.get("abort", 0)
    reasons = [
        f"{count} truncated while thinking" if place == "thinking" else f"{count} in the answer" for place, count in cut.items()
    ]
    reasons += [f"{aborted} stopped by abort"] if aborted else []
    return Axis(
        name="stop",
        state="truncated"
        if cut
        else "aborted"
        if aborted
        else "as planned"
        if summary.whole.stops.get("length")
        else "natural",
        reasons=tuple(reasons),
        asked=_asked(summary, "truncation"),
    )


def _answers(summary: Summary) -> Axis:
    whole = summary.whole
    if not whole.checked:
        return Axis(name="answers", state="unverified", reasons=("no check is declared",), asked=_asked(summary, "answers"))
    wrong = {name: count for name, count in whole.answers.items() if name not in ("correct", "unverified")}
    state = "wrong" if wrong else "unverified" if whole.answers.get("unverified") else "correct"
    reasons = tuple(f"{count} {name}" for name, count in whole.answers.items() if name != "correct")
    return Axis(name="answers", state=state, reasons=reasons, asked=True)  # declaring a check is asking


def _host(summary: Summary) -> Axis:
    host = summary.host
    reasons = host.reasons
    if host.guard_abort is not None:
        return Axis(name="host", state="unstable", reasons=(f"guard: {host.guard_abort}", *reasons), asked=True)
    return Axis(
        name="host", state=host.state, reasons=reasons if host.state != "stable" else host.notes, asked=_asked(summary, "host")
    )


def _measurement(summary: Summary) -> Axis:
    reasons = tuple(f"{name}: {detail}" if detail else name for name, detail in invalid_reasons(summary))
    return Axis(name="measurement", state="invalid" if reasons else "valid", reasons=reasons, asked=True)


def _slo(summary: Summary) -> Axis:
    states = [result.state for result in summary.slos]
    if not states:
        return Axis(name="slo", state="unverified", reasons=("no objective is given",), asked=False)
    state = "missed" if "missed" in states else "inconclusive" if "inconclusive" in states else "met"
    reasons = tuple(
        f"{result.objective.text} {result.state}" + (f" ({result.detail})" if result.detail else "")
        for result in summary.slos
        if result.state != "met"
    )
    return Axis(name="slo", state=state, reasons=reasons, asked=True)


def invalid_reasons(summary: Summary) -> Iterator[tuple[str, str]]:
    """(reason, detail) pairs that make the measurement invalid; the reasons' names are those of the method."""
    for name, rule in _RULES:
        details = rule(summary)
        if details:
            yield name, "; ".join(details)


def _no_usage(summary: Summary) -> list[str]:
    unknown = summary.whole.tokens_unknown
    return [f"{unknown} completed requests have no token counts"] if unknown else []


def _cache(summary: Summary) -> list[str]:
    """A declared state that cached tokens contradict; and no evidence at all where the run is about warm against cold."""
    caches = summary.whole.caches
    contradicted = [
        f"{count} {name.split()[0]} requests were not" for name, count in caches.items() if name.endswith("contradicted")
    ]
    unknown = sum(count for name, count in caches.items() if name.endswith("unverified"))
    about_cache = any(name.startswith("warm") for name in caches)
    return contradicted + (
        [f"{unknown} requests without a cached token count that could confirm it"] if unknown and about_cache else []
    )


def _drifted_configuration(summary: Summary) -> list[str]:
    return [f"{len(summary.fingerprints)} different system fingerprints"] if len(summary.fingerprints) > 1 else []


def _drift(summary: Summary) -> list[str]:
    return [
        f"TPOT of {drift.scenario} {drift.stage} changed by {100 * drift.change:+.0f} % over {drift.requests} requests"
        for drift in summary.drifts
    ]


def _incomplete_records(summary: Summary) -> list[str]:
    found = [f"{summary.broken_lines} lines can't be read"] if summary.broken_lines else []
    lost = summary.whole.outcomes.get(Outcome.IN_FLIGHT_LOST, 0)
    return found + ([f"{lost} requests have no end"] if lost and summary.state == "finished" else [])


_RULES: tuple[tuple[str, Callable[[Summary], list[str]]], ...] = (
    ("client_bottleneck", lambda summary: list(summary.client.bottleneck)),
    ("schedule_degraded", lambda summary: list(summary.client.degraded)),
    ("tokens_mismatch", lambda summary: list(summary.tokens.mismatch)),
    ("no_usage", _no_usage),
    ("cache_unverified", _cache),
    ("config_drift", _drifted_configuration),
    ("non_stationary", _drift),
    ("records_incomplete", _incomplete_records),
    ("worker_lost", lambda summary: list(summary.lost_workers)),
    ("invariant_violated", lambda summary: [f"{v.invariant} ({v.id or 'run'})" for v in summary.violations[:3]]),
)


def _exit_code(summary: Summary, axes: dict[str, Axis]) -> int:
    aborted = summary.state in ("aborted", "running")
    rules = (
        (HOST_UNSTABLE, axes["host"].state == "unstable"),
        (INTERRUPTED, summary.state == "interrupted"),
        (INCOMPLETE, aborted or axes["transport"].state != "completed"),
        (INVALID, axes["measurement"].state == "invalid"),
        (ANSWERS_FAILED, _failed(axes)),
        (UNVERIFIED, _undecided(axes)),
    )
    return next((code for code, applies in rules if applies), PASS)


def _failed(axes: dict[str, Axis]) -> bool:
    truncated = axes["stop"].asked and axes["stop"].state == "truncated"
    return axes["answers"].state == "wrong" or axes["slo"].state == "missed" or truncated


def _undecided(axes: dict[str, Axis]) -> bool:
    """Asked for, and neither passed nor failed. A sidecar that started by itself does not count as asking."""
    host = axes["host"].asked and axes["host"].state in ("unverified", "suspect")
    answers = axes["answers"].asked and axes["answers"].state == "unverified"
    return host or answers or axes["slo"].state == "inconclusive"


def _asked(summary: Summary, what: str) -> bool:
    return bool(summary.manifest.get("asked", {}).get(what))


def _headline(summary: Summary, axes: dict[str, Axis], word: Word, code: int) -> str:
    """One line: COMPLETED 24/24 · CORRECT 24/24 · HOST UNSTABLE (oom_kill +4 at 23:28:31) → FAIL (4)."""
    parts = [
        *_run_words(summary),
        f"COMPLETED {summary.whole.completed}/{summary.planned}",
        *_transport_words(summary),
        *_answer_words(summary),
        *_stop_words(axes["stop"]),
        *_slo_words(summary),
        _host_words(summary, axes["host"]),
        *_measurement_words(summary),
    ]
    return f"{' · '.join(part for part in parts if part)} → {word.upper()} ({code})"


def _run_words(summary: Summary) -> Iterator[str]:
    if summary.state == "interrupted":
        yield "INTERRUPTED"
    elif summary.state in ("aborted", "running"):
        reason = summary.manifest.get("ended_reason") or ("the run was killed" if summary.state == "running" else "")
        yield f"ABORTED ({reason})" if reason else "ABORTED"


def _transport_words(summary: Summary) -> Iterator[str]:
    whole = summary.whole
    failed = {name: count for name, count in whole.outcomes.items() if name not in ("completed", "cancelled")}
    if failed:
        yield "FAILED " + ", ".join(f"{count} {name}" for name, count in failed.items())
    if cancelled := whole.outcomes.get(Outcome.CANCELLED, 0):
        yield f"CANCELLED {cancelled}"
    if summary.skipped:
        yield f"SKIPPED {len(summary.skipped)}"
    if whole.tokens_unknown:
        yield f"TOKENS UNKNOWN {whole.tokens_unknown}"
    for stage in summary.stages:
        if stage.ways and stage.peak_in_flight < min(stage.ways, stage.group.attempted):
            yield f"CONCURRENCY {stage.peak_in_flight} OF {stage.ways}"


def _answer_words(summary: Summary) -> Iterator[str]:
    whole = summary.whole
    if whole.checked:
        wrong = [f"{count} {name}" for name, count in whole.answers.items() if name != "correct"]
        yield f"CORRECT {whole.correct}/{whole.checked}" + (f" ({', '.join(wrong)})" if wrong else "")
    elif _asked(summary, "answers"):
        yield "ANSWERS unverified"


def _stop_words(stop: Axis) -> Iterator[str]:
    if stop.state == "truncated":
        yield f"TRUNCATED ({', '.join(stop.reasons)})"


def _slo_words(summary: Summary) -> Iterator[str]:
    if summary.slos:
        met = sum(result.state == "met" for result in summary.slos)
        rest = [f"{result.objective.text} {result.state}" for result in summary.slos if result.state != "met"]
        yield f"SLO {met}/{len(summary.slos)}" + (f" ({', '.join(rest)})" if rest else "")


def _host_words(summary: Summary, host: Axis) -> str:
    if host.state == "unstable":
        events = _told_once([event for event in summary.host.events if event.state == "unstable"])
        first = [f"{event.text} at {_clock(event.wall_ns)}" for event in events[:2]]
        more = [f"{len(events) - 2} more"] if len(events) > 2 else []
        guard = [host.reasons[0]] if summary.host.guard_abort is not None else []
        return f"HOST UNSTABLE ({', '.join([*guard, *first, *more])})"
    if host.state == "stable":
        return f"HOST stable ({', '.join(host.reasons)})" if host.reasons else "HOST stable"
    word = "SUSPECT" if host.state == "suspect" else "unverified"
    return f"HOST {word} ({', '.join(host.reasons[:2])})"


def _told_once(events: list[HostEvent]) -> list[HostEvent]:
    """The counter's rise says how many were killed; the kernel's line for each of them stands in the report."""
    counted = any(event.rule == "oom_kill" for event in events)
    return [event for event in events if not (counted and event.rule == "killed process")]


def _measurement_words(summary: Summary) -> Iterator[str]:
    names = [name for name, _ in invalid_reasons(summary)]
    if names:
        yield f"MEASUREMENT INVALID ({', '.join(names)})"


def _clock(wall_ns: int) -> str:
    """Local time of day, as the kernel log on the same desk would show it."""
    return datetime.fromtimestamp(wall_ns / 1e9).astimezone().strftime("%H:%M:%S")
