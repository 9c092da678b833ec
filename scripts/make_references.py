"""Writes every page of docs/reference/ that is made from the code.

usage: scripts/make_references [--check]
"""

from __future__ import annotations

import sys

import make_api_reference
import make_csv_reference
import make_metrics_reference
import make_modules_reference
import make_options_reference
import make_records_reference
import make_scenario_reference
import make_sidecar_reference
import make_simulator_reference
from reference_page import REFERENCE

MAKERS = (
    make_api_reference,
    make_csv_reference,
    make_metrics_reference,
    make_modules_reference,
    make_options_reference,
    make_records_reference,
    make_scenario_reference,
    make_sidecar_reference,
    make_simulator_reference,
)


def pages() -> dict[str, str]:
    """File name in docs/reference/ → content, of all makers."""
    return {name: content for maker in MAKERS for name, content in maker.pages().items()}


def main() -> int:
    """Write the pages, or with --check only name those that differ."""
    made = pages()
    stale = [name for name, content in made.items() if not _is(name, content)]
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"docs/reference/{name} is not what the code says: run scripts/make_references")
        return 1 if stale else 0
    for name in stale:
        (REFERENCE / name).write_text(made[name], encoding="utf-8")
        print(f"wrote docs/reference/{name}")
    return 0


def _is(name: str, content: str) -> bool:
    path = REFERENCE / name
    return path.exists() and path.read_text(encoding="utf-8") == content


if __name__ == "__main__":
    sys.exit(main())
