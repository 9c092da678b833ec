"""What a run needs before its plan can be made, done where nothing is patched: a look at the server, cases of scenarios."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadkit import preflight
from loadkit.errors import UsageError
from loadkit.request import Target
from loadkit.secrets import masked_text

HEADER_VARIABLES = ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
"""Sent as headers with each request; a stray line break, as in a key file from Windows, would break them all."""


def target_at(host: str, model: str) -> Target:
    """The target that people mean with a host and the environment's key.

    Raises:
        UsageError: the address is none, or no header can carry the key.
    """
    for variable in HEADER_VARIABLES:
        value = os.environ.get(variable, "")
        if not (value.isascii() and value.isprintable()):
            raise UsageError("holds what no header can carry", where=variable, remedy="set it to the plain value, one line")
    return Target(base_url=base_url(host), model=model, api_key=os.environ.get("OPENAI_API_KEY"))


async def look(host: str, model: str, *, scenario: str | None = None, folder: str | None = None) -> dict[str, Any]:
    """Ask the server what it is: the fields of `preflight.Findings`, and `said` for people. With `scenario`, read that too.

    Raises:
        UsageError: the address is none, nobody answers there, or the model or the key is wrong (or no header can carry it);
            or there is no such scenario, or its file has a mistake.
    """
    if scenario is not None:
        from loadkit import scenario as scenarios  # brings pydantic and YAML

        scenarios.find(scenario, None if folder is None else Path(folder))
    findings = await preflight.look(target_at(host, model))
    return {**asdict(findings), "said": preflight.said(findings)}


def base_url(host: str) -> str:
    """The API's root for what people give as host: with or without scheme, `/v1` or a path prefix.

    Raises:
        UsageError: it is no http(s) address.
    """
    address = host.strip()
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{masked_text(host)!r} is no address of a server", where="--host", remedy="write http://host:8000")
    path = parts.path.rstrip("/")
    last = path.rsplit("/", 1)[-1]
    versioned = len(last) > 1 and last[0] == "v" and last[1:].isdecimal()
    path = path if versioned else f"{path}/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


async def cases(
    name: str,
    folder: str | None,
    drawing: dict[str, Any],
    *,
    target: dict[str, Any] | None = None,
    count: int | None = None,
    first: int = 0,
) -> dict[str, Any]:
    """Cases of a scenario, and what it says of the run: {"cases": [...], "files": {name: path}, "rounds", "slo"}.

    With a target, every prompt and its budget are held against the server's limit, which would else clamp them in silence.

    Raises:
        UsageError: there is no such scenario, its file has a mistake, or a prompt does not fit the server.
    """
    from loadkit import scenario  # brings pydantic and YAML: runs that draw no cases here do without
    from loadkit.scenario.file import locate

    where = None if folder is None else Path(folder)
    files = {name: str(locate(name, where))}

    def member(other: str) -> scenario.Scenario:
        files[other] = str(locate(other, where))
        return scenario.find(other, where)

    found = scenario.find(name, where)
    drawn = await asyncio.to_thread(  # the engine must see meanwhile whether Locust is still there
        scenario.cases, found, scenario.Drawing(**drawing), count=count, first=first, member=member
    )
    if target is not None:
        await preflight.check_limits(drawn, Target(**target))
    return {"cases": drawn, "files": files, "rounds": found.rounds, "slo": found.slo}
