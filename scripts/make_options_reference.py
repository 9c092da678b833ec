"""Writes docs/reference/options.md and commands.md: the options of a run from front/options.py, those of each command from typer.

usage: python scripts/make_options_reference.py        (scripts/make_references writes all pages; a test compares them)
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import typer
from reference_page import REFERENCE, code, page, paragraph, table

from loadkit.cli import COMMANDS
from loadkit.front.options import ENTRIES, Entry

ENVIRONMENT = (
    ("OPENAI_API_KEY", "the server's key; it is never an argument and never written down"),
    ("OPENAI_ORG_ID, OPENAI_PROJECT_ID", "sent as the headers that OpenAI's own client sends"),
    ("LOADKIT_SIDECAR_TOKEN", "shared secret of the sidecar and those who read it"),
    ("LOADKIT_LANG", "language of tables, reports and the web tab: en or zh; else LC_ALL, LANG"),
    (
        "HTTPS_PROXY, HTTP_PROXY, NO_PROXY",
        "as usual; a request through a proxy takes the ordinary transport, and its record says so",
    ),
    ("DOCKER_HOST", "the Docker engine that the sidecar asks"),
)


def pages() -> dict[str, str]:
    """File name → content."""
    return {"options.md": options_page(), "commands.md": commands_page()}


def options_page() -> str:
    """What a run can be told."""
    return page(
        "# Options of a run",
        paragraph(
            "Each locustfile that imports `loadkit.front` has these options beside [Locust's own]"
            "(https://docs.locust.io/en/stable/configuration.html) (`--host`, `--headless`, `--processes`, `--csv`, `--html`, `--json`, "
            "`--autostart` …). Each can be given as an environment variable, in Locust's configuration file, and, where the last "
            "column says so, in the web form. A wrong value is one line and exit code 2, before anything is started. This page is "
            "made from the code."
        ),
        table(("option", "variable", "default", "meaning", "in the form"), map(_row, ENTRIES)),
        paragraph(
            "`--host URL` is the server, with or without `/v1` or a path prefix. Without it the embedded simulator is started "
            "(preset `fast`), and said so. A locustfile uses only the options that make sense for it: `--ways` means nothing to "
            "`smoke.py`, `--rungs` only to those with long documents."
        ),
        "## Environment",
        table(("variable", "meaning"), [(", ".join(f"`{one}`" for one in names.split(", ")), words) for names, words in ENVIRONMENT]),
    )  # fmt: skip


def commands_page() -> str:
    """Every command with its arguments."""
    parts = [
        "# Commands",
        paragraph(
            "`loadkit COMMAND --help` says the same. Exit code 2 is a mistake in what was typed; the other [codes](exit-codes.md) "
            "are those of the run. `loadkit sidecar` has [a page of its own](sidecar.md), and so has [the simulator](simulator.md). "
            "This page is made from the code."
        ),
    ]
    for name, meaning in COMMANDS.items():
        parts += _command(name, meaning)
    return page(*parts)


def _command(name: str, meaning: str) -> list[str]:
    found: Any = typer.main.get_command(import_module(f"loadkit.commands.{name}").app)
    commands = getattr(found, "commands", {"": found})
    parts = [f"## `loadkit {name}`", "" if "" in commands else f"{meaning[0].upper()}{meaning[1:]}."]
    for title, command in commands.items():
        full = f"loadkit {name} {title}".strip()
        if title:
            parts += [f"### `{full}`"]
        parts += [(command.help or "").strip(), code(f"{full} {_usage(command)}"), command_options(command)]
    return [part for part in parts if part]


def _usage(command: Any) -> str:
    words = ["[OPTIONS]"]
    words += [_metavar(one) for one in command.params if one.param_type_name == "argument"]
    return " ".join(words)


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return f"{name} …" if argument.nargs == -1 and "…" not in name else name


def command_options(command: Any) -> str:
    """The options of a typer command as a table; empty where it has none."""
    rows = []
    for one in command.params:
        if one.param_type_name == "argument" or "--help" in one.opts:
            continue
        default = "" if one.default in (None, False, "") or callable(one.default) else f"`{_shown(one.default)}`"
        rows.append((f"`{' / '.join([*one.opts, *one.secondary_opts])}`", default, one.help or ""))
    return table(("option", "default", "meaning"), rows) if rows else ""


def _shown(default: object) -> str:
    return os.fspath(default) if isinstance(default, os.PathLike) else str(default)


def _row(entry: Entry) -> tuple[str, ...]:
    default = "off" if entry.is_switch else f"`{entry.text}`" if entry.text else ""
    return (f"`{entry.flag}`", f"`{entry.env_var}`", default, entry.help, "yes" if entry.in_form else "–")


if __name__ == "__main__":
    for file_name, content in pages().items():
        (REFERENCE / file_name).write_text(content, encoding="utf-8")
