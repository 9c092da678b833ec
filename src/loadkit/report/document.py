"""A run's report as sections of tables and lines, in the reader's language: what terminal and Markdown both set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from loadkit.language import Language, gloss, say
from loadkit.report import content, figures, prior_work, retrieval, streams
from loadkit.report.content import Table
from loadkit.summary import Judged, Summary
from loadkit.verdict import Verdict

FAILURES_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands under it: tables, and plain lines."""

    title: str
    parts: tuple[Table | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The whole report. `headline` comes first, `sections` follow; the last one says what was not verified."""

    title: str
    headline: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]


def document(summary: Summary, verdict: Verdict, language: Language) -> Document:
    """Everything that a report says; sections without anything to say are left out."""
    built = (
        ("Result of the earlier experiment, row by row", prior_work.tables(summary, language)),
        ("Figures", _figures(summary, language)),
        ("Retrieval", retrieval.tables(summary, language)),
        ("Verdict", _axes(verdict, language)),
        ("Failed and wrong", list(_failures(summary, language))),
        ("Host", list(_host(summary, language))),
        ("Can the figures be believed?", _believed(summary, language)),
        ("What was not verified", [gloss(say(sentence, language), language) for sentence in summary.not_verified]),
    )
    return Document(
        title=str(summary.manifest.get("label") or summary.manifest.get("run_id") or summary.folder),
        headline=gloss(verdict.headline, language),
        lead=tuple(_lead(summary, language)),
        sections=tuple(
            Section(title=say(title, language), parts=tuple(part for part in parts if part))
            for title, parts in built
            if any(parts)
        ),
    )


def _figures(summary: Summary, language: Language) -> list[Table | str | None]:
    return [
        content.stages(summary, language),
        content.scenarios(summary, language),
        content.tiers(summary, language),
        content.percentiles(summary, language),
        streams.gaps(summary, language),
        streams.rates(summary, language),
        _open_loop(summary, language),
        content.slos(summary, language),
        _goodput(summary, language),
        content.outcomes(summary, language),
        _retries(summary, language),
    ]


def _open_loop(summary: Summary, language: Language) -> Table | None:
    """From the planned start, so that a late client can't hide a slow server; the headline of an open loop."""
    rows = []
    for stage in (stage for stage in summary.stages if stage.load == "open"):
        ttft, e2e = stage.group.distribution("ttft_from_due"), stage.group.distribution("e2e_from_due")
        figures_of = [
            figures.duration(value) for one in (ttft, e2e) for value in (one.median, one.percentile(0.95), one.maximum)
        ]
        rows.append((stage.name or ", ".join(stage.scenarios), *figures_of, str(stage.group.outcomes.get("not_sent", 0))))
    names = ("TTFT median", "TTFT p95", "TTFT maximum", "e2e median", "e2e p95", "e2e maximum", "not sent")
    head = tuple(say(name, language) for name in ("stage", *names))
    return Table(title=say("Open loop, from the planned start", language), head=head, rows=tuple(rows)) if rows else None


def _goodput(summary: Summary, language: Language) -> Table | None:
    """Requests a second that are completed, not wrong and within every objective, and their share of all attempted."""
    if not summary.slos:
        return None
    rows = tuple(
        (
            stage.name or ", ".join(stage.scenarios),
            say(stage.goodput_label, language),
            content.spread(stage.goodput_per_s),
            f"{stage.group.good}/{stage.group.attempted}",
            figures.share(stage.group.good / stage.group.attempted),
        )
        for stage in summary.stages
        if stage.group.attempted
    )
    head = tuple(say(name, language) for name in ("stage", "meaning", "requests/s", "good", "SLO attainment"))
    return Table(title=say("Goodput", language), head=head, rows=rows, words=frozenset({1}))


def _retries(summary: Summary, language: Language) -> str:
    again = summary.retries
    if again is None:
        return ""
    return say(
        "Retries, listed apart and in no figure: {attempted} attempts, {completed} completed, {correct} correct.", language,
        attempted=again.attempted, completed=again.completed, correct=again.correct,
    )  # fmt: skip


def _axes(verdict: Verdict, language: Language) -> list[Table | str | None]:
    rows = tuple(
        (
            say(axis.name, language),
            say(axis.state, language),
            say("yes", language) if axis.asked else say("no", language),
            "; ".join(gloss(reason, language) for reason in axis.reasons[:6]),
        )
        for axis in verdict.axes
    )
    head = tuple(say(name, language) for name in ("axis", "state", "asked for", "why"))
    return [Table(title=say("Axes", language), head=head, rows=rows, words=frozenset({1, 2, 3}))]


def _failures(summary: Summary, language: Language) -> Iterator[Table | str]:
    found = [r for r in summary.requests if r.counts and (not r.completed or (r.answer is not None and r.answer != "correct"))]
    if not found:
        return
    rows = tuple(_failure(request, language) for request in found[:FAILURES_SHOWN])
    head = tuple(say(name, language) for name in ("request", "scenario", "stage", "outcome", "answer", "why"))
    yield Table(title="", head=head, rows=rows, words=frozenset(range(1, 6)))
    if len(found) > FAILURES_SHOWN:
        yield say("The first {shown} of {total}; all are in the records.", language, shown=FAILURES_SHOWN, total=len(found))


def _failure(request: Judged, language: Language) -> tuple[str, ...]:
    record = request.record
    failure = record.failure
    why = f"{failure.kind}: {failure.message}" if failure is not None else request.detail
    answer = "" if request.answer is None else say(request.answer.value, language)
    scenario = f"{record.case.scenario} {record.case.tier or ''}".strip()
    return (record.id, scenario, record.slot.stage, say(record.outcome.value, language), answer or figures.DASH, why[:160])


def _host(summary: Summary, language: Language) -> Iterator[Table | str]:
    host = summary.host
    if not host.samples:
        yield say("No sidecar watched the server's host.", language)
        return
    rows = tuple(
        (_moment(event.wall_ns), say(event.state, language), gloss(event.text, language), str(len(event.charged)))
        for event in host.events
    )
    if rows:
        head = tuple(say(name, language) for name in ("time", "state", "event", "requests in flight"))
        yield Table(title=say("Host events", language), head=head, rows=rows, words=frozenset({1, 2}))
    for incident in host.told:
        yield f"{_moment(incident.wall_ns)}: {gloss(incident.words, language)}"
    if host.mem_available_min_bytes is not None:
        yield say(
            "Lowest MemAvailable: {size} at {time}.", language,
            size=figures.size(host.mem_available_min_bytes), time=_moment(host.mem_available_min_wall_ns or 0),
        )  # fmt: skip
    for note in host.notes:
        yield say("Note: {note}.", language, note=say(note, language))


def _believed(summary: Summary, language: Language) -> list[Table | str | None]:
    doubts = [f"{one.invariant} ({one.id or 'run'}) {one.detail}".strip() for one in summary.violations[:20]]
    if summary.whole.estimated:
        doubts.append(say("TPOT is estimated: the server gives no running usage, so k1 is taken as 1.", language))
    if summary.whole.failed_tokens:
        doubts.append(
            say(
                "{tokens} tokens of requests that did not complete are in no figure.",
                language,
                tokens=("≥ " if summary.whole.failed_tokens_bound else "") + figures.count(summary.whole.failed_tokens),
            )
        )
    return [
        content.client(summary, language),
        content.tokens(summary, language),
        say("Self-test: {words}.", language, words=self_test_words(summary, language)),
        *doubts,
    ]


def self_test_words(summary: Summary, language: Language) -> str:
    """The last self-test of this machine in a few words, or that there is none."""
    found = summary.selftest
    if found is None:
        return say("none on this machine", language)
    word = say("met" if found.get("passed", found.get("exit_code") == 0) else "not met", language)
    when = str(found.get("at") or _moment(int(found.get("wall_ns", 0))))
    rate = found.get("trusted_events_per_s")
    most = [say("up to {rate} chunks/s", language, rate=figures.count(rate))] if isinstance(rate, (int, float)) else []
    return f"{word} ({', '.join([when, *most])})"


def _lead(summary: Summary, language: Language) -> Iterator[str]:
    manifest = summary.manifest
    target = manifest.get("target", {})
    if target:
        server = "the embedded simulator" if target.get("embedded_simulator") else target.get("base_url", "?")
        yield say("Server: {server}, model {model}", language, server=say(server, language), model=target.get("model", "?"))
    whole = summary.whole
    yield say(
        "Beside these figures: prefix hits {hits} of the prompt tokens; stamp error {median} (median), {top} (maximum); "
        "self-test {test}.", language,
        hits=figures.share(whole.hit_share), median=figures.duration(summary.client.stamp_error.median),
        top=figures.duration(summary.client.stamp_error.maximum), test=self_test_words(summary, language),
    )  # fmt: skip


def _moment(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / 1e9).astimezone().strftime("%Y-%m-%d %H:%M:%S")
