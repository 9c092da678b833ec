"""Writes docs/reference/records.md: the run folder and every line in it, from the dataclasses and their docstrings.

usage: python scripts/make_records_reference.py        (scripts/make_references writes all pages; a test compares them)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields

from reference_page import REFERENCE, attributes, page, paragraph, prose, table

from loadkit import record
from loadkit.plan import Plan
from loadkit.provenance import manifest, plan_facts
from loadkit.request import Target

KINDS = (
    record.Start, record.Record, record.AnswerVerdict, record.Heartbeat, record.AnchorLine, record.Sample,
    record.Slot, record.CaseFacts, record.Usage, record.Events, record.Failure, record.ToolCall,
)  # fmt: skip
WORDS = (record.Outcome, record.Answer, record.Phase, record.ErrorPhase)
FILES = (
    ("`manifest.json`", "master or single process, replaced atomically", "provenance: see below"),
    ("`plan.jsonl`", "master or single process", "the plan as it was run: see below"),
    ("`records.jsonl`, `records-<worker>.jsonl`", "each engine, line by line", "`anchor`, `start`, `record`, `check`, `heartbeat` lines"),
    ("`samples.jsonl`", "the sidecar, or copied from it", "`sample` lines; [their keys](sidecar.md)"),
    ("`inputs/`", "master or single process", "documents and questions as they were asked, with their hashes; `--inputs` replays them"),
    ("`scenarios/`", "master or single process", "the scenario files of the run"),
    ("`summary.json`, `report.md`, `report.html`", "the read half, any time", "derived; can be deleted and made again"),
)  # fmt: skip
PLAN = (
    ("`stage_begin`, `stage_end`", "`stage`, `round`, `phase`, `ways`, `at_ns`"),
    ("`skipped`", "`id`, `stage`, `reason`: an item of the plan that was not sent; it stays in the denominator"),
    ("`stop`", "`reason`, `at_ns`: why nothing more was begun"),
)
MANIFEST = {
    "run_id": "drawn for each run; seeds the cache salts",
    "label": "`--label`",
    "loadkit_version": "version that measured",
    "created_wall_ns": "when the run began",
    "boot_id": "boot of the client's kernel",
    "argv": "the command, secrets masked",
    "options": "every option with its value",
    "target": "base URL, model, dialect, its limit, whether it is the embedded simulator",
    "server": "version, arguments, image digest, system_fingerprint, start time, cache configuration: what is known",
    "preflight": "what else preflight found",
    "host": "kernel, processors, memory, driver of the client's host",
    "client": "versions of Python and of the packages that figures pass through",
    "plan": "name, seed, hash, ways, rounds, items",
    "scenarios": "name → sha256 of its file",
    "asked": "what a verdict was asked for: answers, slo, host, truncation",
    "slo": "the objectives",
    "clock": "offset of the sidecar's clock ± its error",
    "state": "running, finished, interrupted, aborted; `running` in a folder that nobody writes to: it was killed",
    "ended_reason": "why it ended early",
    "exit_code": "the run's exit code",
    "headline": "the verdict in a line",
}


def pages() -> dict[str, str]:
    """File name → content."""
    return {"records.md": records_page()}


def records_page() -> str:
    """Files, lines and fields."""
    return page(
        "# Records and the run folder",
        paragraph(
            "A run writes plain files into `<run-dir>/<UTC time>-<label>/`; everything else is computed from them. Lines are appended "
            "and flushed one by one, so a crash costs at most the line that was being written. `loadkit.read_run(folder)` reads them "
            "back. This page is made from the code."
        ),
        table(("file", "written by", "holds"), FILES),
        "## Record lines",
        _docstring(record.__doc__ or ""),
        *(part for kind in KINDS for part in _kind(kind)),
        "## Words",
        *(part for word in WORDS for part in _word(word)),
        "## `plan.jsonl`",
        "One JSON object a line, with a key `kind`:",
        table(("kind", "keys"), PLAN),
        "## `manifest.json`",
        table(("key", "meaning"), [(f"`{key}`", MANIFEST[key]) for key in manifest_keys()]),
    )  # fmt: skip


def manifest_keys() -> list[str]:
    """The keys of a manifest as the code writes it; `plan_facts` fills `plan`."""
    target = Target(base_url="http://127.0.0.1/v1", model="m")
    made = manifest(run_id="", created_wall_ns=0, options={}, target=target, found={}, embedded_simulator=False, argv=())
    assert set(plan_facts(Plan(stages=()))) >= {"name", "seed", "hash", "ways", "rounds", "items"}
    return list(made)


def _kind(kind: type) -> Iterator[str]:
    meanings = attributes(kind)
    yield f"### {kind.__name__}"
    yield _docstring(prose(kind))
    rows = [(f"`{item.name}`", f"`{item.type}`", _default(item), meanings.get(item.name, "")) for item in fields(kind)]
    if meanings:
        yield table(("key", "type", "default", "meaning"), rows)
    else:
        yield table(("key", "type", "default"), [row[:3] for row in rows])


def _word(word: type) -> Iterator[str]:
    yield f"### {word.__name__}"
    yield _docstring(word.__doc__ or "")
    yield ", ".join(f"`{one.value}`" for one in word)  # type: ignore[attr-defined]


def _default(item: Field) -> str:
    if item.default_factory is not MISSING:
        return f"`{item.default_factory()}`"
    if item.default is MISSING:
        return "**needed**"
    if item.default is None:
        return "`null`"
    return "" if item.default in ((), "") or hasattr(item.default, "__dataclass_fields__") else f"`{item.default}`"


def _docstring(text: str) -> str:
    """Indented blocks become fenced ones; the rest is text."""
    parts = []
    for block in text.strip().split("\n\n"):
        if block.startswith("    "):
            parts.append("```text\n" + "\n".join(line.removeprefix("    ") for line in block.splitlines()) + "\n```")
        else:
            parts.append(" ".join(line.strip() for line in block.splitlines()))
    return "\n\n".join(parts)


if __name__ == "__main__":
    for file_name, content in pages().items():
        (REFERENCE / file_name).write_text(content, encoding="utf-8")
