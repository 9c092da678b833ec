"""Fitted documents on disk: saved once with their hashes, replayed for both sides of a comparison."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from loadkit.documents.document import Document, Question
from loadkit.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedDocument:
    """A document in the inputs folder. `tier` is its rung ("32K"), `number` counts the documents of a rung from 1."""

    tier: str
    number: int
    file: str
    sha256: str
    asked_tokens: int
    exact: bool
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything that was made for one scenario, and for which server it was fitted."""

    scenario: str
    model: str
    seed: int
    budget: int
    template: dict[str, Any]
    exact: bool
    documents: tuple[SavedDocument, ...]
    notes: tuple[str, ...] = field(default=())


def save_document(folder: Path, scenario: str, tier: str, number: int, document: Document) -> SavedDocument:
    """Write the text to `<scenario>-<tier>-<number>.txt`."""
    file = f"{scenario}-{tier}-{number}.txt"
    (folder / file).write_bytes(document.text.encode())
    return SavedDocument(
        tier=tier,
        number=number,
        file=file,
        sha256=document.sha256,
        asked_tokens=document.asked_tokens,
        exact=document.exact,
        questions=document.questions,
    )


def save(folder: Path, inputs: Inputs) -> None:
    """Write `<scenario>.json` beside the documents."""
    content = orjson.dumps(asdict(inputs), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    (folder / f"{inputs.scenario}.json").write_bytes(content)


def load(folder: Path, scenario: str) -> Inputs:
    """The saved inputs of a scenario, each document checked against its hash. `folder` may be a run folder, too.

    Raises:
        UsageError: there are none, or a document is not the one that was saved.
    """
    place = folder if (folder / f"{scenario}.json").exists() else folder / "inputs"
    manifest = place / f"{scenario}.json"
    try:
        inputs: Inputs = TypeAdapter(Inputs).validate_json(manifest.read_bytes())
    except OSError as problem:
        remedy = "give the inputs folder of a run that used this scenario"
        raise UsageError(f"holds no {scenario}.json", where=f"--inputs {folder}", remedy=remedy) from problem
    except ValidationError as problem:
        raise UsageError("is no manifest of inputs", where=str(manifest), remedy="make the inputs anew") from problem
    for document in inputs.documents:
        _verify(place / document.file, document.sha256)
    return inputs


def copy(source: Path, folder: Path, inputs: Inputs) -> None:
    """Put replayed inputs into this run's folder, so that it holds what was asked."""
    place = source if (source / f"{inputs.scenario}.json").exists() else source / "inputs"
    for document in inputs.documents:
        (folder / document.file).write_bytes((place / document.file).read_bytes())
    save(folder, inputs)


def _verify(path: Path, sha256: str) -> None:
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as problem:
        raise UsageError(f"can't be read: {problem.strerror}", where=str(path)) from problem
    if found != sha256:
        raise UsageError("is not the document that was saved: its hash differs", where=str(path), remedy="make the inputs anew")
