"""Writes docs/reference/api.md and locustfiles.md from signatures and docstrings in the source, which is not imported.

usage: python scripts/make_api_reference.py        (scripts/make_references writes all pages; a test compares them)
"""

from __future__ import annotations

import ast
from pathlib import Path

from reference_page import REFERENCE, ROOT, SOURCE, code, definitions, page, paragraph, said, signature, split

import loadkit

LOCUSTFILES = ROOT / "locustfiles"
FRONT = (
    ("LLMUser", "front/users.py", ("ask", "check")),
    ("PlanShape", "front/shapes.py", ("plan",)),
    ("Job", "front/job.py", ("cases", "documents", "rounds", "apart", "apart_cases")),
    ("Reply", "front/bridge.py", ()),
)
BUILDERS = ("comparison", "cases_of_comparison", "sequence", "stage", "ladder", "joined")
GROUPS = (
    ("Ask one thing", ("Target", "Client", "chat", "Request", "Timeouts", "Record", "Outcome")),
    ("Ask many", ("Closed", "closed_loop", "Open", "open_loop")),
    ("What to ask", ("find_scenario", "cases", "Case", "requests_of")),
    ("What it comes to", ("summary_of", "read_run", "summarise", "judge")),
)


def pages() -> dict[str, str]:
    """File name → content."""
    return {"api.md": api_page(), "locustfiles.md": locustfiles_page()}


def api_page() -> str:
    """The names that `loadkit` exports, in the order in which one needs them."""
    parts = [
        "# Library",
        paragraph(
            "`import loadkit` imports nothing heavy and never Locust; each name below is imported when it is first used. Times are "
            "integer nanoseconds. Examples that run stand in [Use it from Python](../how-to/use-it-from-python.md). Every other module "
            "can be imported too, but only these names are kept stable. This page is made from the code."
        ),
    ]
    for title, names in GROUPS:
        parts.append(f"## {title}")
        for name in names:
            home, original = _home(name)
            node = definitions(home)[original]
            shown = signature(node).replace(original, name, 1)
            parts += [f"### {name}", code(_folded(shown), "text"), said(node)]
            if name == "Client":
                parts += _methods(node, ("send", "attempt", "refuse", "catch_up", "aclose"))
    return page(*parts)


def locustfiles_page() -> str:
    """The bundled locustfiles, and what one of your own can use."""
    parts = [
        "# Locustfiles",
        paragraph(
            "Each is a short file to copy. `loadkit locustfiles` lists those that came with the package and where they are; "
            "`loadkit locustfiles smoke` prints one's path, for `locust -f`. [Options](options.md) are the same for all. This page is "
            "made from the code."
        ),
        "## Those that come along",
    ]
    for path in sorted(LOCUSTFILES.glob("*.py")):
        title, _, rest = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")
        parts += [f"### {path.name}", title, *_usage(rest)]
    parts += [
        "## Your own",
        paragraph(
            "`from loadkit.front import Job, LLMUser, PlanShape` makes a locustfile one of loadkit's: it gets the options, a run folder, "
            "records, statistics and a verdict. One shape and at least one user class, or users with tasks and no shape."
        ),
        code((LOCUSTFILES / "ask.py").read_text(encoding="utf-8").split('"""', 2)[2].strip(), "python"),
    ]
    for name, file, methods in FRONT:
        node = definitions(SOURCE / file)[name]
        parts += [f"### {name}", said(node), *_methods(node, methods)]
    parts += ["### Builders of plans", "From `loadkit.plan`; all of them are pure."]
    plan = definitions(SOURCE / "plan.py")
    parts += [part for name in BUILDERS for part in (code(_folded(signature(plan[name])), "text"), said(plan[name]))]
    return page(*parts)


def _home(name: str) -> tuple[Path, str]:
    """The file that defines an exported name, and its name there; packages are searched."""
    module, _, original = loadkit._HOMES[name].partition(":")
    wanted = original or name
    path = SOURCE / f"{module}.py"
    files = [path] if path.exists() else sorted((SOURCE / module).glob("*.py"))
    return next(file for file in files if wanted in definitions(file)), wanted


def _methods(node: ast.AST, names: tuple[str, ...]) -> list[str]:
    found = {part.name: part for part in getattr(node, "body", ()) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
    parts: list[str] = []
    for name in names:
        method = found[name]
        is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in method.decorator_list)
        shown = f"{name} -> {ast.unparse(method.returns)}" if is_property and method.returns else signature(method)
        parts += [code(f".{_folded(shown)}".replace(".await ", "await .", 1), "text"), said(method)]
    return [part for part in parts if part]


def _usage(rest: str) -> list[str]:
    """Lines that begin with `locust` are a block of commands, others are text."""
    return [code(block, "sh") if block.startswith("locust ") else block for block in rest.split("\n\n") if block]


def _folded(shown: str) -> str:
    """A long signature with one argument a line."""
    if len(shown) <= 100:
        return shown
    if "(" not in shown:
        return shown.replace(", ", "\n")
    head, _, rest = shown.partition("(")
    inside, _, result = rest.rpartition(")")
    return f"{head}(\n" + "".join(f"    {argument},\n" for argument in split(inside)) + f"){result}"


def unlisted() -> set[str]:
    """Exported names that no group of the page holds, and the other way round."""
    return set(loadkit.__all__) ^ {name for _, names in GROUPS for name in names}


if __name__ == "__main__":
    for file_name, content in pages().items():
        (REFERENCE / file_name).write_text(content, encoding="utf-8")
