"""Writes docs/reference/scenarios.md from the models of scenario files, so that the page can't say what the code doesn't do.

usage: python scripts/make_scenario_reference.py        (a test compares the page with what this makes)
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from loadkit.checks.spec import CHECKS
from loadkit.scenario import schema
from loadkit.schema import Model

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "scenarios.md"

PARTS: tuple[tuple[str, type[Model]], ...] = (
    ("A scenario file", schema.Scenario),
    ("`prompts[]`", schema.Prompt),
    ("`prompts[].messages[]`", schema.Message),
    ("`prompts[].turns[]`", schema.TurnFile),
    ("`variables.<name>`", schema.Variable),
    ("`file`", schema.File),
    ("`archive`", schema.Archive),
    ("`tools[]`", schema.Tool),
    ("`sampling`", schema.Sampling),
)

HEAD = """\
# Scenario files

<!-- made by scripts/make_scenario_reference.py: change the models, not this page -->

A scenario file says what is asked and what a right answer is. It is YAML, named `<name>.yaml`, and checked whole before the
first request: an unknown key or a wrong value ends with one line that names file, key and remedy. Try it:

```console
$ loadkit scenario check scenarios/short.yaml
scenarios/short.yaml: ok: 3 case(s), 3 request(s), 3 check(s)
$ loadkit scenario show short                      # what would be sent, with token counts (estimated, or --host for exact ones)
```

How to write one, step by step: [](../how-to/write-a-scenario.md); checks: [](../how-to/write-a-check.md).
"""

CHECK_HEAD = """\
## Checks

A check is one entry of a list `checks`; the key `check` says which kind it is. Checks look at the answer and its tool calls,
never at the thinking. Each finds one of: `correct`, `wrong`, `hedged` (the right value among others), `wrong_distractor` (a
near-duplicate's value, with its depth), `refused`, `no_answer`, `malformed` (not the form that was asked for). Where several
look at one answer, the worst counts. Places like `{total}` are filled with the case's variables.
"""


def pages() -> dict[str, str]:
    """File name → content."""
    return {PAGE.name: page()}


def page() -> str:
    """The whole page."""
    parts = [HEAD, *(_part(f"## {title}", model) for title, model in PARTS), CHECK_HEAD]
    parts += [_part(f"### `check: {_kind(model)}`", model, skip=("check",)) for model in CHECKS]
    return "\n".join(parts)


def _part(heading: str, model: type[Model], skip: tuple[str, ...] = ()) -> str:
    rows = [_row(name, field) for name, field in model.model_fields.items() if name not in skip]
    about = re.sub(r"\s*\n\s*", " ", inspect.getdoc(model) or "").strip()
    table = ["| key | value | default | meaning |", "|---|---|---|---|", *rows] if rows else []
    return "\n".join([heading, "", about, "", *table, ""])


def _row(name: str, field: Any) -> str:
    default = _default(field)
    meaning = (field.description or "").replace("|", "\\|")
    return f"| `{field.alias or name}` | {_type(field.annotation)} | {default} | {meaning} |"


def _default(field: Any) -> str:
    if field.is_required():
        return "**needed**"
    value = field.default if field.default is not PydanticUndefined else field.default_factory()
    if value is None or value in ((), {}, ""):
        return "–"
    plain = value.model_dump(exclude_defaults=True) if isinstance(value, Model) else value
    return "as below" if plain == {} else f"`{json.dumps(plain, ensure_ascii=False)}`"


def _type(annotation: Any) -> str:
    """The annotation in words a writer of YAML knows."""
    text = str(annotation).replace("typing.", "")
    text = re.sub(r"^Optional\[(Annotated.*)\]$", r"\1", text)
    text = re.sub(r"Annotated\[(\w+), .*\)\]\)?\]?", r"\1", text)
    text = re.sub(r"^(?:Union|Optional)\[(.*)\]$", lambda found: found[1].replace(", Literal", " | Literal"), text)
    if "CHECK" in text or "Exact" in text:
        return "list of checks"
    for pattern, word in (
        (r"<class '(?:\w+\.)*(\w+)'>", r"\1"),
        (r"(?:\w+\.)+(\w+)", r"\1"),
        (r"tuple\[(\w+), \.\.\.\]", r"list of \1"),
        (r"tuple\[int, int\]", "two numbers"),
        (r"dict\[str, (\w+)\]", r"mapping of \1"),
        (r"Literal\[([^\]]*)\]", lambda found: found[1].replace("'", "`").replace(", ", " · ")),
        (r" \| None", ""),
        (r"\bstr\b", "text"),
        (r"\bint\b", "whole number"),
        (r"\bfloat\b", "number"),
        (r"\bbool\b", "true or false"),
        (r"\bAny\b", "anything"),
        (r"\bTurnFile\b", "turn"),
        (r" \| ", " or "),
    ):
        text = re.sub(pattern, word, text)
    return text.replace("|", "\\|")


def _kind(model: type[Model]) -> str:
    return str(model.model_fields["check"].annotation).split("'")[1]


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
