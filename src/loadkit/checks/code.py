"""Python in an answer: does it parse, does it define what was asked. It is never run."""

from __future__ import annotations

import ast
import re

from loadkit.checks.finding import CORRECT, Finding, malformed, no_answer, wrong
from loadkit.checks.spec import Code
from loadkit.record import Record

_BLOCK = re.compile(r"^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


def code(record: Record, check: Code) -> Finding:
    """The code blocks of the answer together (the whole answer where there is no block) define every name."""
    said = record.answer or ""
    if not said.strip():
        return no_answer(record)
    try:
        tree = ast.parse(_python_in(said))
    except (SyntaxError, ValueError, RecursionError) as problem:
        return malformed(f"does not parse: {problem}")
    defined = _definitions(tree)
    wanted = (check.defines,) if isinstance(check.defines, str) else check.defines
    missing = [name for name in wanted if name not in defined]
    if missing:
        return wrong(f"{missing[0]} is not defined; {', '.join(defined) or 'nothing'} is")
    if check.arguments is not None and (found := defined[wanted[0]]) != check.arguments:
        return wrong(f"{wanted[0]} takes {found}, not {check.arguments}")
    return CORRECT


def _python_in(text: str) -> str:
    blocks = [(language.lower(), block) for language, block in _BLOCK.findall(text)]
    python = [block for language, block in blocks if language in ("python", "py", "python3")]
    return "\n".join(python or [block for _, block in blocks] or [text])


def _definitions(tree: ast.Module) -> dict[str, tuple[str, ...] | None]:
    """Names that the module defines at its top level; functions with the names of their arguments."""
    found: dict[str, tuple[str, ...] | None] = {}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name, args=arguments) | ast.AsyncFunctionDef(name=name, args=arguments):
                found[name] = tuple(arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
            case ast.ClassDef(name=name):
                found[name] = None
            case ast.Assign(targets=targets):
                found |= {target.id: None for target in targets if isinstance(target, ast.Name)}
    return found
