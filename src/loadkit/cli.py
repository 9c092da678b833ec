"""`loadkit …`: finds the subcommand, turns a `LoadkitError` into one line and an exit code.

A subcommand is a module in `loadkit.commands` with a `typer.Typer` named `app`; it is imported only when it is called.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module

import click
import typer

from loadkit.errors import LoadkitError, UsageError

COMMANDS = {
    "report": "print a run again from its files alone: tables, verdict, HTML",
    "runs": "list run folders with label, verdict and headline",
    "compare": "compare two configurations, with intervals and a verdict in words",
    "experiment": "run a whole A/B: launches, waits, order by seeded coin, restore",
    "scenario": "check a scenario file, or show what it would send",
    "locustfiles": "list the bundled locustfiles, or copy them",
    "sidecar": "watch the server's host: memory, kernel log, container, /metrics; guard",
    "sim": "serve a simulated vLLM on loopback",
    "selftest": "prove on this machine that the client's figures can be believed",
}


class Passed(click.Command):
    """Hands everything behind its name to the subcommand, which ends by itself.

    typer brings its own copy of click: its help, its `Exit` and its usage errors mean nothing to the click that runs the group.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def invoke(self, ctx: click.Context) -> None:
        app: typer.Typer = import_module(f"loadkit.commands.{self.name}").app
        typer.main.get_command(app).main(args=ctx.args, prog_name=ctx.command_path, standalone_mode=True)


class Lazy(click.Group):
    """A group that knows its commands' names and one-line helps without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        return Passed(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loadkit")
def loadkit() -> None:
    """Load generation for language-model servers, with figures that can be believed."""


def main() -> None:
    """The console entry point. Exit codes: 2 for usage; each subcommand documents its own."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without µ and · must not cost a report
    try:
        loadkit(standalone_mode=True)
    except LoadkitError as problem:
        click.echo(f"loadkit: {problem}", err=True)
        sys.exit(2 if isinstance(problem, UsageError) else 3)
