"""`loadkit scenario …`: check scenario files, show what one would send, list what there is. Exit codes: 0, 2 for a mistake."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.table import Table

from loadkit import scenario
from loadkit.case import Case
from loadkit.engine.preparation import target_at
from loadkit.preflight import look
from loadkit.record import Slot
from loadkit.report.terminal import console_for
from loadkit.request import Target, conversation, first_request
from loadkit.scenario import Drawing, Scenario
from loadkit.server import Server
from loadkit.tokens import Estimate, Prompt, ServerTokenizer, bundled_estimate

app = typer.Typer(help="Check a scenario file, or show what it would send.", no_args_is_help=True)

Folder = Annotated[Path | None, typer.Option("--scenarios", help="Folder of scenario files; the bundled ones are found, too.")]
SHOWN_CHARS = 400


@app.command()
def check(files: Annotated[list[str], typer.Argument(help="Scenario files, or names.")], scenarios: Folder = None) -> None:
    """Read each file whole, draw its cases, and say what it holds; the first mistake ends it with file, key and remedy."""
    for name in files:
        found = scenario.find(name, scenarios)
        typer.echo(f"{name}: {_described(found, scenarios)}")


@app.command("list")
def listed(scenarios: Folder = None) -> None:
    """The scenarios that can be named."""
    table = Table(box=None)
    for column in ("name", "workload", "cache", "title"):
        table.add_column(column)
    for name in scenario.names(scenarios):
        found = scenario.find(name, scenarios)
        table.add_row(name, found.workload, found.cache, found.title)
    console_for(sys.stdout).print(table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A scenario file, or a name.")],
    scenarios: Folder = None,
    count: Annotated[int | None, typer.Option(help="How many cases.")] = None,
    seed: Annotated[int, typer.Option("--plan-seed", help="Seed that prompts are drawn with.")] = 0,
    host: Annotated[str | None, typer.Option(help="Ask this server for exact token counts.")] = None,
    model: Annotated[str, typer.Option(help="Model to ask; the first one if left out.")] = "",
    bodies: Annotated[bool, typer.Option(help="Print whole request bodies, one JSON line each.")] = False,
) -> None:
    """What would be sent, with token counts: exact from a server (--host), otherwise estimates, labelled so."""
    found = scenario.find(name, scenarios)
    if found.archive is not None:
        typer.echo(_described(found, scenarios))
        return
    cases = scenario.cases(found, Drawing(seed=seed), count=count, member=lambda other: scenario.find(other, scenarios))
    if bodies:
        _print_bodies(cases)
        return
    tokens, exact = asyncio.run(_tokens(cases, host, model))
    for case, number in zip(cases, tokens, strict=True):
        _print_case(case, number, exact=exact)


def _described(found: Scenario, folder: Path | None) -> str:
    if found.archive is not None:
        archive = found.archive
        rungs = ", ".join(f"{rung:g}K" for rung in archive.rungs_k)
        return (
            f"{found.archive.kind}, {archive.documents} document(s) of each length ({rungs}), questions "
            f"{', '.join(archive.questions)}; documents are made and fitted when a run begins"
        )
    cases = scenario.cases(found, member=lambda other: scenario.find(other, folder))
    turns = sum(len(case.turns) for case in cases)
    checks = sum(len(turn.checks) for case in cases for turn in case.turns)
    return f"ok: {len(cases)} case(s), {turns} request(s), {checks} check(s)"


async def _tokens(cases: tuple[Case, ...], host: str | None, model: str) -> tuple[list[int], bool]:
    prompts = [Prompt.of_body(case.body, conversation(case)) for case in cases]
    if host is None:
        return await _counted(bundled_estimate(), prompts), False
    findings = await look(target_at(host, model))
    async with Server(findings.target) as server:
        if server.speaks.tokenize is None:
            return await _counted(bundled_estimate(), prompts), False
        return await _counted(ServerTokenizer(server), prompts), True


async def _counted(tokenizer: ServerTokenizer | Estimate, prompts: list[Prompt]) -> list[int]:
    return [(await tokenizer.count(prompt)).tokens for prompt in prompts]


def _print_bodies(cases: tuple[Case, ...]) -> None:
    target = Target(base_url="", model="MODEL")
    for case in cases:
        request = first_request(case, id=case.facts.case, target=target, slot=Slot(), run_id="RUN")
        typer.echo(request.body.decode())


def _print_case(case: Case, tokens: int, *, exact: bool) -> None:
    source = "tokens by the server" if exact else "tokens, estimated"
    budget = case.facts.max_tokens
    typer.secho(f"{case.facts.case}  {tokens} {source}, budget {budget}, cache {case.facts.cache}", bold=True)
    settings = {key: value for key, value in case.body.items() if key != "tools"}
    typer.echo(f"  {orjson.dumps(settings).decode()}")
    if tools := case.body.get("tools"):
        typer.echo(f"  tools: {', '.join(tool['function']['name'] for tool in tools)}")
    for turn in case.turns:
        for message in turn.messages:
            typer.echo(f"  {message['role']}: {_shortened(message['content'])}")
        for tool, result in turn.tool_results.items():
            typer.echo(f"  tool {tool}: {_shortened(result)}")
        for spec in turn.checks:
            typer.echo(f"  check: {_check_line(spec)}")


def _check_line(spec: dict[str, Any]) -> str:
    return orjson.dumps({key: value for key, value in spec.items() if key not in ("schema", "distractors")}).decode()


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]}… ({len(line)} characters)"
