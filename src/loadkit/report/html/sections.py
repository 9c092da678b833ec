"""The sections of the page in their order, each a function of the view; one that has nothing to show is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from loadkit.report import content, figures
from loadkit.report.html import pictures, tables
from loadkit.report.html.detail import failure_text, is_wrong
from loadkit.report.html.view import View
from loadkit.summary import Judged

FAILURES_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with an anchor, and what stands under it."""

    anchor: str
    title: str
    body: Markup


def sections(view: View) -> list[Section]:
    """All sections that this run fills."""
    return [
        Section(anchor, view.say(title), body)
        for anchor, title, build in SECTIONS
        if (body := build(view)) is not None and body != ""
    ]


def comparison(view: View) -> Markup:
    """Stages and scenarios: the tables that a reader came for."""
    summary, language = view.summary, view.language
    return (
        pictures.throughput(view)
        + tables.of(content.stages(summary, language))
        + tables.of(content.scenarios(summary, language))
        + tables.of(content.tiers(summary, language))
        + tables.of(content.slos(summary, language))
        + tables.of(content.outcomes(summary, language))
        + _beside_the_figures(view)
    )


def _beside_the_figures(view: View) -> Markup:
    """Hit share, stamp error, cache state and self-test stand beside every latency."""
    client, whole = view.summary.client, view.summary.whole
    words = view.say(
        "Beside these figures: prefix hits {hits} of the prompt tokens; stamp error {median} (median), {top} (maximum); "
        "self-test {test}.",
        hits=figures.share(whole.hit_share), median=figures.duration(client.stamp_error.median),
        top=figures.duration(client.stamp_error.maximum), test=self_test(view),
    )  # fmt: skip
    return tables.paragraph(words, "note")


def self_test(view: View) -> str:
    """The last self-test in a few words."""
    found = view.summary.selftest
    if found is None:
        return view.say("none on this machine")
    word = view.say("met") if found.get("passed", found.get("exit_code") == 0) else view.say("not met")
    return f"{word} ({found.get('at') or found.get('when') or _moment(found.get('wall_ns'))})"


def timeline(view: View) -> Markup:
    """Where the script draws requests, memory, KV cache and events on one axis; the events also as text."""
    host = view.summary.host
    rows = [
        (_clock(event.wall_ns), view.say(event.state), view.gloss(event.text), str(len(event.charged))) for event in host.events
    ]
    head = (view.say("time"), view.say("state"), view.say("event"), view.say("requests in flight"))
    events = tables.table(head, rows, caption=view.say("Host events"), words=(2,)) if rows else Markup("")
    lowest = host.mem_available_min_bytes
    note = (
        tables.paragraph(view.say("Lowest MemAvailable: {size}.", size=figures.size(lowest)), "note") if lowest else Markup("")
    )
    holder = Markup('<div class="timeline" data-lk-timeline role="group" aria-label="{}"></div>').format(view.say("Timeline"))
    return holder + note + events


def requests(view: View) -> Markup | None:
    """A list to choose one request from; the script shows its gaps and texts."""
    if not view.summary.requests:
        return None
    options = Markup("").join(
        Markup('<option value="{}">{}</option>').format(value, view.say(words))
        for value, words in (
            ("", "all shown"),
            ("failed", "failed"),
            ("wrong", "wrong"),
            ("slow", "slow"),
            ("sampled", "sampled"),
        )
    )
    lead = view.say(
        "The failed, wrong, slowest and some sampled requests, at most 200, each with every gap between its chunks."
    )
    return tables.paragraph(lead, "note") + Markup(
        '<div class="tools"><label>{} <select data-lk-filter>{}</select></label></div>'
        '<div class="chooser"><div class="list" role="listbox" aria-label="{}" data-lk-list></div>'
        "<div data-lk-request></div></div>"
    ).format(view.say("Show"), options, view.say("Requests"))


def failures(view: View) -> Markup | None:
    """Requests that did not complete or were answered wrongly, with their text; readable without a script."""
    found = [request for request in view.counting if not request.completed or is_wrong(request)]
    if not found:
        return None
    more = len(found) - FAILURES_SHOWN
    lead = (
        view.say("The first {shown} of {total}; all are in the records.", shown=FAILURES_SHOWN, total=len(found))
        if more > 0
        else view.say("{total} requests.", total=len(found))
    )
    return tables.paragraph(lead, "note") + Markup("").join(_failure(view, request) for request in found[:FAILURES_SHOWN])


def _failure(view: View, request: Judged) -> Markup:
    record = request.record
    word = record.outcome.value if not request.completed else (request.answer or record.outcome).value
    place = " · ".join(filter(None, (record.id, record.case.scenario, record.case.case, record.slot.stage)))
    texts = [("Failure", failure_text(record)), ("Check", request.detail), ("Answer", record.answer or "")]
    body = Markup("").join(
        Markup("<h3>{}</h3><pre>{}</pre>").format(view.say(name), text[:4000]) for name, text in texts if text
    )
    empty = tables.paragraph(view.say("no text"), "note")
    return Markup("<details><summary><b>{}</b> {}</summary>{}</details>").format(view.say(word), place, body or empty)


def believed(view: View) -> Markup:
    """The client's measured error, the self-test, the audits: whether the figures can be believed."""
    summary, language = view.summary, view.language
    doubts = [f"{violation.invariant} ({violation.id or 'run'}) {violation.detail}" for violation in summary.violations[:20]]
    doubts += [view.gloss(reason) for reason in view.verdict.measurement.reasons]
    sources = ", ".join(f"{view.say(name)} {count}" for name, count in summary.client.stamp_sources.items())
    facts = [
        (view.say("stamps"), sources or figures.DASH),
        (view.say("self-test"), self_test(view)),
        (view.say("broken lines in the records"), str(summary.broken_lines)),
    ]
    verdict = view.say("The measurement is {state}.", state=view.say(view.verdict.measurement.state))
    return (
        tables.paragraph(verdict)
        + (tables.bullets(doubts) if doubts else Markup(""))
        + tables.of(content.client(summary, language))
        + tables.facts(facts)
        + tables.of(content.tokens(summary, language))
    )


def provenance(view: View) -> Markup:
    """The manifest as it was written, secrets masked there already."""
    manifest = view.summary.manifest
    plain = {name: value for name, value in manifest.items() if not isinstance(value, Mapping)}
    parts = {"run": plain, **{name: value for name, value in manifest.items() if isinstance(value, Mapping) and value}}
    return Markup('<div class="columns">{}</div>').format(
        Markup("").join(
            Markup("<div><h3>{}</h3>{}</div>").format(view.say(name), tables.facts(_flat(value)))
            for name, value in parts.items()
        )
    )


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from _flat(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _plain(part)


def _plain(value: Any) -> str:
    if value is None:
        return figures.DASH
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def unverified(view: View) -> Markup:
    """What this run does not show."""
    return tables.bullets(view.gloss(view.say(sentence)) for sentence in view.summary.not_verified)


SECTIONS: tuple[tuple[str, str, Callable[[View], Markup | None]], ...] = (
    ("figures", "Figures", comparison),
    ("latency", "Latency", pictures.distributions),
    ("length", "Prompt length", pictures.ttft_by_length),
    ("retrieval", "Retrieval", pictures.retrieval),
    ("timeline", "Timeline", timeline),
    ("requests", "Single requests", requests),
    ("failures", "Failed and wrong", failures),
    ("believed", "Can the figures be believed?", believed),
    ("provenance", "Provenance", provenance),
    ("unverified", "What was not verified", unverified),
)


def _clock(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / 1e9).astimezone().strftime("%H:%M:%S")


def _moment(wall_ns: Any) -> str:
    if not isinstance(wall_ns, int):
        return "?"
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")
