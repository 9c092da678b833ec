"""Writes docs/reference/simulator.md: options, presets, faults and the truth log of `loadkit sim`, from the code.

usage: python scripts/make_simulator_reference.py        (scripts/make_references writes all pages; a test compares them)
"""

from __future__ import annotations

import typer
from make_options_reference import command_options
from reference_page import REFERENCE, code, page, paragraph, table

from loadkit.commands.sim import app
from loadkit.simulator import truth
from loadkit.simulator.faults.table import COMMON, KINDS, Kind
from loadkit.simulator.speed import PRESETS


def pages() -> dict[str, str]:
    """File name → content."""
    return {"simulator.md": simulator_page()}


def simulator_page() -> str:
    """The whole page."""
    log = (truth.__doc__ or "").split(":\n\n")[1]
    return page(
        "# Simulator",
        paragraph(
            "`loadkit sim` serves a simulated vLLM 0.32 on loopback: a scheduler with continuous batching and chunked prefill, a "
            "prefix cache, thinking, tool calls, `/tokenize` and `/metrics` under vLLM's names. It answers what it finds in the text, as "
            "a model would: it is told nothing of right answers. A locustfile without `--host` starts one by itself, with the preset "
            "`fast`. When it is ready it prints one line of JSON on stdout. This page is made from the code."
        ),
        code('$ loadkit sim --port 8000 --preset spark\n{"url":"http://127.0.0.1:8000","pid":4711,"model":"loadkit-sim","preset":"spark"}', "console"),
        "## Presets",
        table(("preset", "speed"), [(f"`{name}`", preset.sentence) for name, preset in PRESETS.items()]),
        "`--speed 20` runs any of them 20 times as fast.",
        "## Options",
        command_options(typer.main.get_command(app)),
        "## Faults",
        paragraph(
            "A fault is written `name` or `name:key=value,key=value`: on the command line (`--fault`, repeatable), in a file "
            "(`--fault-file`, one a line), or, with `--enable-faults`, for one request in its header `X-Loadkit-Fault`."
        ),
        table(("fault", "what happens", "parameters"), [_fault(name, kind) for name, kind in KINDS.items()]),
        "Every fault on the command line or in a file also takes:",
        table(("parameter", "default", "meaning"), [(f"`{name}`", f"`{_number(value)}`", words) for name, (value, words) in COMMON.items()]),
        code('$ loadkit sim --fault "cut:after=5,rate=0.1" --fault "slow-first-byte:s=3,path=/metrics"', "console"),
        "## Truth log",
        paragraph(
            "`--truth FILE` appends what was really written, and when: one JSON line per request when it is over. Times are nanoseconds "
            "of CLOCK_MONOTONIC, which clients on the same host read too. `loadkit selftest` compares the client with it."
        ),
        code("\n".join(line.removeprefix("    ") for line in log.splitlines())),
    )  # fmt: skip


def _fault(name: str, kind: Kind) -> tuple[str, str, str]:
    given = ", ".join(f"`{key}={_number(value)}`" for key, value in kind.parameters.items())
    return f"`{name}`", kind.sentence, given


def _number(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else value


if __name__ == "__main__":
    for file_name, content in pages().items():
        (REFERENCE / file_name).write_text(content, encoding="utf-8")
