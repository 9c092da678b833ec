"""Writes docs/reference/modules.md: each module with its first sentence, in the order that tests/test_architecture.py keeps.

usage: python scripts/make_modules_reference.py        (scripts/make_references writes all pages; a test compares them)
"""

from __future__ import annotations

import ast
import sys

from reference_page import REFERENCE, ROOT, SOURCE, page, paragraph, table

sys.path.insert(0, str(ROOT / "tests"))

from test_architecture import ORDER


def pages() -> dict[str, str]:
    """File name → content."""
    return {"modules.md": modules_page()}


def modules_page() -> str:
    """The list that imports point up."""
    return page(
        "# Modules",
        paragraph(
            "In the order in which the data passes: a module imports only what stands above it. The picture, and what the order is good "
            "for, are in [Architecture](../explanation/architecture.md). The sentences are the modules' own."
        ),
        table(("module", "what it is"), [(f"`{name}`" + ("" if _is_file(name) else "/"), _sentence(name)) for name in ORDER]),
    )


def _is_file(name: str) -> bool:
    return (SOURCE / f"{name}.py").exists()


def _sentence(name: str) -> str:
    path = SOURCE / f"{name}.py" if _is_file(name) else SOURCE / name / "__init__.py"
    first, _, _ = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")
    return " ".join(first.split())


if __name__ == "__main__":
    for file_name, content in pages().items():
        (REFERENCE / file_name).write_text(content, encoding="utf-8")
