"""Prompts from a JSONL file of one's own: plain prompts, chat messages, ShareGPT conversations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson

from loadkit.errors import UsageError
from loadkit.scenario.schema import File, Prompt, Scenario
from loadkit.schema import parse

_ASKED_BY = ("human", "user")


def read_prompts(scenario: Scenario, seed: int) -> tuple[Prompt, ...]:
    """The file's prompts in order, or `sample` of them drawn with the seed.

    Raises:
        UsageError: the file can't be read, or a line is not of the form that the scenario says; file and line are named.
    """
    file = scenario.file
    if file is None:
        return ()
    lines = _lines(Path(file.path))
    if file.sample is not None and file.sample < len(lines):
        rng = random.Random(f"{seed}/{scenario.name}/sample")
        lines = [lines[index] for index in sorted(rng.sample(range(len(lines)), file.sample))]
    return tuple(_prompt(data, file, where) for where, data in lines)


def _lines(path: Path) -> list[tuple[str, Any]]:
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise UsageError(f"can't be read: {problem.strerror}", where=str(path), remedy="check `file.path`") from problem
    found = []
    for number, line in enumerate(raw.split(b"\n"), 1):
        if line.strip():
            try:
                found.append((f"{path}:{number}", orjson.loads(line)))
            except ValueError as problem:
                raise UsageError(f"is no JSON: {problem}", where=f"{path}:{number}") from problem
    if not found:
        raise UsageError("holds no prompts", where=str(path))
    return found


def _prompt(data: Any, file: File, where: str) -> Prompt:
    if file.form == "plain" and isinstance(data, str):
        data = {"prompt": data}
    if not isinstance(data, dict):
        raise UsageError("a line is a JSON object", where=where)
    checks = [*data.get("checks", [])]
    if "answer" in data:
        checks.append({"check": "exact", "value": str(data["answer"])})
    match file.form:
        case "plain":
            form = {"text": _needed(data, "prompt", where), "checks": checks}
        case "chat":
            form = {"messages": _needed(data, "messages", where), "checks": checks}
        case "sharegpt":
            form = {"turns": _human_turns(_needed(data, "conversations", where), where)}
    return parse(Prompt, form, where=where)


def _human_turns(conversation: Any, where: str) -> list[dict[str, str]]:
    """What the person said, turn by turn; the answers are the measured model's own."""
    turns = [{"text": said["value"]} for said in conversation if isinstance(said, dict) and said.get("from") in _ASKED_BY]
    if not turns:
        raise UsageError("has no turn from a human", where=where, key="conversations")
    return turns


def _needed(data: dict[str, Any], key: str, where: str) -> Any:
    if key not in data:
        raise UsageError("is missing", where=where, key=key, remedy="see `file.form` in the scenario reference")
    return data[key]
