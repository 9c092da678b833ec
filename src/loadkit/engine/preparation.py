"""What a run needs before its plan can be made, done where nothing is patched: a look at the server, cases of scenarios."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from loadkit.errors import UsageError
from loadkit.request import Target
from loadkit.server import Server


async def look(host: str, model: str) -> dict[str, Any]:
    """Ask the server what it is: {"target": …, "server": …, …} as preflight found it.

    Raises:
        UsageError: the address is none, nobody answers there, or the model or the key is wrong.
    """
    target = Target(base_url=base_url(host), model=model, api_key=os.environ.get("OPENAI_API_KEY"))
    return await _models(target)


async def _models(target: Target) -> dict[str, Any]:
    url = f"{target.base_url}/models"
    try:
        async with Server(target, timeout_s=10) as server:
            reply = await server.get(url)
    except httpx2.TransportError as problem:
        remedy = "start the server, or check address and port"
        raise UsageError(f"no answer from {url} ({problem})", where="--host", remedy=remedy) from problem
    if reply.status in (401, 403):
        raise UsageError(f"{url} refuses the key (HTTP {reply.status})", where="OPENAI_API_KEY", remedy="set the server's key")
    models = [model["id"] for model in (reply.data or {}).get("data", [])] if reply.ok else []
    if not models:
        remedy = "check that this is an OpenAI-compatible server, and its path"
        raise UsageError(f"{url} lists no model (HTTP {reply.status})", where="--host", remedy=remedy)
    if target.model and target.model not in models:
        raise UsageError(f"the server has no model {target.model!r}", where="--model", remedy=f"choose {' or '.join(models)}")
    first = reply.data["data"][0]
    return {
        "target": {
            "base_url": target.base_url,
            "model": target.model or models[0],
            "max_model_len": first.get("max_model_len"),
            "dialect": "vllm",
        },
        "server": {},
    }


def base_url(host: str) -> str:
    """The API's root for what people give as host: with or without scheme, `/v1` or a path prefix.

    Raises:
        UsageError: it is no http(s) address.
    """
    address = host.strip().rstrip("/")
    parts = urlsplit(address if "://" in address else f"http://{address}")
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{host!r} is no address of a server", where="--host", remedy="write http://host:8000")
    last = parts.path.rsplit("/", 1)[-1]
    versioned = len(last) > 1 and last[0] == "v" and last[1:].isdecimal()
    path = parts.path if versioned else f"{parts.path}/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def cases(name: str, folder: str | None, drawing: dict[str, Any], count: int | None = None, first: int = 0) -> dict[str, Any]:
    """Cases of a scenario by name, with the files that they came from: {"cases": [...], "files": {name: path}}.

    Raises:
        UsageError: there is no such scenario, or its file has a mistake.
    """
    from loadkit import scenario  # brings pydantic and YAML: runs that draw no cases here do without
    from loadkit.scenario.file import locate

    where = None if folder is None else Path(folder)
    files = {name: str(locate(name, where))}

    def member(other: str) -> scenario.Scenario:
        files[other] = str(locate(other, where))
        return scenario.find(other, where)

    found = scenario.find(name, where)
    drawn = scenario.cases(found, scenario.Drawing(**drawing), count=count, first=first, member=member)
    return {"cases": drawn, "files": files, "workload": found.workload}
