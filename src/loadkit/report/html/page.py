"""One run as one HTML page that opens offline, or as a section of another page.

What a server or a model said is untrusted: text reaches the page through autoescaping templates, `Markup.format` or JSON in
which no `<` is left, and the page's policy runs no script but the two that it names by hash.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from loadkit import __version__, assets
from loadkit.language import Language, language_of, table
from loadkit.report.html import detail, timeline
from loadkit.report.html.sections import sections
from loadkit.report.html.view import View
from loadkit.run_folder import Run
from loadkit.summary import Summary
from loadkit.verdict import Axis, Verdict

_GOOD = {"completed", "natural", "as planned", "correct", "stable", "valid", "met"}
_UNSURE = {"unverified", "suspect", "inconclusive"}
_AXES = {
    "transport": "transport",
    "stop": "stop",
    "answers": "answers",
    "host": "host",
    "measurement": "measurement",
    "slo": "SLO",
}


@dataclass(frozen=True, slots=True)
class ShownAxis:
    """One axis of the verdict in the reader's language; `tone` is good, bad or unsure."""

    name: str
    value: str
    tone: str
    reasons: tuple[str, ...]


def render(run: Run, summary: Summary, verdict: Verdict, *, language: Language | None = None) -> str:
    """The whole page."""
    view = View(run, summary, verdict, language or language_of())
    inside = Markup(_section(view, theme="", alone=True))
    return _templates().get_template("page.html").render(
        language=view.language, title=_title(view), headline=view.gloss(verdict.headline), section=inside,
        scripts=_script_hashes(),
    )  # fmt: skip


def section(run: Run, summary: Summary, verdict: Verdict, *, language: Language | None = None) -> str:
    """The same as a `<div>` for another page (Locust's report): put it before the last `</body>`."""
    return _section(View(run, summary, verdict, language or language_of()), theme="inherit", alone=False)


def _section(view: View, *, theme: str, alone: bool) -> str:
    return _templates().get_template("section.html").render(
        language=view.language, theme=theme, alone=alone, say=view.say, title=_title(view), subtitle=_subtitle(view),
        tone={"pass": "good", "fail": "bad"}.get(view.verdict.word, "unsure"), headline=view.gloss(view.verdict.headline),
        axes=[_axis(view, axis) for axis in view.verdict.axes if axis.asked or axis.name != "slo"],
        sections=sections(view), version=__version__, folder=view.run.folder.name, data=_data(view),
        style=_style(), library=assets.script(assets.UPLOT_SCRIPT), script=assets.script("report.js"),
    )  # fmt: skip


def _data(view: View) -> dict[str, Markup]:
    events = [(event.to_ns, event.state, view.gloss(event.text)) for event in view.summary.host.events]
    return {
        "words": _json(table(view.language)),
        "timeline": _json(timeline.columns(view.run, events)),
        "requests": _json(detail.rows(detail.choose(view.worth_showing))),
    }


def _json(value: Any) -> Markup:
    """JSON that can stand inside a script element whatever the texts in it."""
    text = orjson.dumps(_sendable(value)).decode()
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028"))


def _sendable(value: Any) -> Any:
    """Lone surrogates, which a broken server may send as escapes, become question marks: orjson refuses them."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _sendable(part) for name, part in value.items()}
    return (
        [_sendable(part) for part in value]
        if isinstance(value, list | tuple) and value and not isinstance(value[0], int)
        else value
    )


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("loadkit.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _style() -> Markup:
    return Markup("").join(assets.style(name) for name in ("palette.css", assets.UPLOT_STYLE, "report.css"))


def _script_hashes() -> str:
    def digest(name: str) -> str:
        return base64.b64encode(hashlib.sha256(assets.script(name).encode()).digest()).decode()

    return " ".join(f"'sha256-{digest(name)}'" for name in (assets.UPLOT_SCRIPT, "report.js"))


def _title(view: View) -> str:
    manifest = view.summary.manifest
    label = manifest.get("label") or view.run.folder.name
    plan = manifest.get("plan", {}).get("name") or ""
    return f"loadkit · {label}" + (f" · {plan}" if plan and plan != label else "")


def _subtitle(view: View) -> str:
    manifest, target = view.summary.manifest, view.summary.manifest.get("target", {})
    server = manifest.get("server", {})
    created = manifest.get("created_wall_ns")
    when = datetime.fromtimestamp(created / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC") if isinstance(created, int) else ""
    simulator = view.say("embedded simulator, no real server") if target.get("embedded_simulator") else ""
    version = f"{target.get('dialect') or ''} {server.get('version') or ''}".strip()
    return " · ".join(
        filter(None, (when, str(target.get("model") or ""), str(target.get("base_url") or ""), version, simulator))
    )


def _axis(view: View, axis: Axis) -> ShownAxis:
    tone = "good" if axis.state in _GOOD else "unsure" if axis.state in _UNSURE else "bad"
    reasons = tuple(view.gloss(reason) for reason in axis.reasons)
    return ShownAxis(view.say(_AXES.get(axis.name, axis.name)), view.say(axis.state), tone, reasons)
