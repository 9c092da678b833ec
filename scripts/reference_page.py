"""What the reference scripts share: Markdown parts, and reading signatures and docstrings from source without importing it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "loadkit"
REFERENCE = ROOT / "docs" / "reference"

Node = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def page(*parts: str) -> str:
    """Parts with a blank line between them."""
    return "\n\n".join(parts) + "\n"


def paragraph(text: str) -> str:
    """Wrapped at 120 columns."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)])


def code(text: str, language: str = "") -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"


def definitions(path: Path) -> dict[str, Node]:
    """The classes and functions of a source file by name."""
    return {node.name: node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, Node)}


def signature(node: Node) -> str:
    """As it is called: `name(arguments) -> result`; a class by its `__init__`, or by its fields."""
    if not isinstance(node, ast.ClassDef):
        before = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{before}{node.name}({_arguments(node.args)}){result}"
    made = next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
    if made is not None:
        return f"{node.name}({_arguments(made.args)})"
    fields = [ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)]
    words = [ast.unparse(part.targets[0]) for part in node.body if isinstance(part, ast.Assign)]
    return f"{node.name}({', '.join(fields)})" if fields else ", ".join(f"{node.name}.{word}" for word in words)


def split(arguments: str) -> list[str]:
    """The arguments of a signature, one by one: commas inside brackets don't count."""
    depth, parts = 0, [""]
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def said(node: Node) -> str:
    """The docstring as Markdown: sections such as `Args:` and `Raises:` become lists."""
    return "\n".join(_sections((ast.get_docstring(node) or "").splitlines()))


def attributes(kind: type[object]) -> dict[str, str]:
    """Field → meaning, from the section `Attributes:` of a class's docstring. `a, b: …` explains both."""
    _, _, section = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        head = re.match(r"    ([\w, `]+): (.*)", line)
        if head:
            names = [name.strip(" `") for name in head[1].split(",")]
            found |= dict.fromkeys(names, head[2])
        elif line.startswith("        "):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        elif line.strip():
            break
    return found


def prose(kind: type[object]) -> str:
    """The docstring without its section `Attributes:`."""
    text, _, _ = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    return text.strip()


def _arguments(given: ast.arguments) -> str:
    parts = [re.sub(r"(: [^=]*[^ =])=(?!=)", r"\1 = ", part, count=1) for part in split(ast.unparse(given))]
    return ", ".join(part for part in parts if part != "self")


def _sections(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if re.fullmatch(r"(Args|Raises|Returns|Attributes):", line):
            yield f"*{line[:-1]}:*\n"
        elif re.match(r"    [\w`][\w., ]*: ", line):
            name, _, rest = line.strip().partition(": ")
            yield f"- `{name}`: {rest}"
        elif line.startswith("        "):
            yield f"  {line.strip()}"
        else:
            yield line.strip() if line.startswith("    ") else line
