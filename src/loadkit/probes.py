"""What preflight sends: one-token requests, and GETs of the routes that tell what a server is."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import httpx2
import orjson

from loadkit.errors import UsageError
from loadkit.secrets import masked_json
from loadkit.server import Reply, Server, mapping, whole

MESSAGES = [{"role": "user", "content": "Preflight of a load test: please answer with a single word."}]

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_STARTED = re.compile(r"process_start_time_seconds(?:\{.*\})? ([0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)\s*$")
_DROPS_A_BLOCK = ("mtp", "eagle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What a one-token request showed; `None` where a field was absent."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    running_usage: bool = False
    system_fingerprint: str | None = None


async def one_token(server: Server, template: dict[str, Any], *, salt: str) -> Probe:
    """A streamed request for one token, with the template arguments and options that the run will use.

    Raises:
        UsageError: the server refuses it.
    """
    speaks = server.speaks
    running = {"continuous_usage_stats": True} if speaks.running_usage else {}
    reply = await _ask(
        server,
        {
            "messages": MESSAGES,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True, **running},
            **({"chat_template_kwargs": template} if speaks.template_arguments else {}),
        },
        salt,
    )
    where = f"{server.target.base_url}/chat/completions"
    if not reply.ok:
        raise UsageError(
            f"refuses a request for one token ({reply.status}): {reply.said}", where=where, remedy=_remedy(reply.status)
        )
    chunks = _chunks(reply.text)
    errors = [chunk["error"] for chunk in chunks if chunk.get("error")]
    if errors:
        said = str(mapping(errors[0]).get("message") or errors[0])[:200]
        raise UsageError(f"fails on a request for one token: {said}", where=server.target.base_url, remedy="see its log")
    if not chunks and "choices" not in mapping(reply.data):
        raise UsageError(
            f"answers a request for one token with no stream: {reply.said}",
            where=where,
            remedy="check that --host is a server of the OpenAI API, and what stands between it and here",
        )
    return _probe(chunks)


def _remedy(status: int) -> str:
    if status in (429, 503):
        return "wait until the server has room for a request"
    return "see the server's log" if status >= 500 else "check --model and OPENAI_API_KEY, and the server's log"


async def tools_understood(server: Server, *, salt: str) -> bool | None:
    """Whether a request with a tool is accepted (`tool_choice: auto` needs flags on vLLM); `None` if the server is busy."""
    tool = {"type": "function", "function": {"name": "note", "description": "Notes a word.", "parameters": {"type": "object"}}}
    reply = await _ask(server, {"messages": MESSAGES, "tools": [tool], "tool_choice": "auto", "stream": False}, salt)
    return True if reply.ok else False if 400 <= reply.status < 500 and reply.status != 429 else None


async def facts(server: Server) -> dict[str, Any]:
    """Version, start time, cache configuration, arguments: what the side routes tell, and nothing that they don't."""
    version, metrics, info = await asyncio.gather(
        _quiet(server, "/version"), _quiet(server, "/metrics"), _quiet(server, "/server_info?config_format=json")
    )
    found: dict[str, Any] = {"metrics": metrics is not None and metrics.ok}
    if version is not None and version.ok and isinstance(version.data, dict):
        found["version"] = str(version.data.get("version") or "") or None
    if metrics is not None and metrics.ok:
        found |= _from_metrics(metrics.text)
    if info is not None and info.ok and isinstance(info.data, dict):
        found["arguments"] = masked_json(info.data)
        found |= _speculation(info.data)
    return found


def _from_metrics(text: str) -> dict[str, Any]:
    """Only the few wanted lines: a whole parse of a scrape costs more than it tells."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("vllm:cache_config_info{"):
            found["cache_config"] = dict(_LABEL.findall(line))
        elif started := _STARTED.match(line):
            found["process_start_time_s"] = float(started[1])
        elif line.startswith("vllm:spec_decode_num_drafts"):
            found["speculates"] = True
    if "speculates" not in found and "vllm:" in text:
        found["speculates"], found["drops_last_block"] = False, False
    return found


def _speculation(info: dict[str, Any]) -> dict[str, Any]:
    """Whether the draft model is one that costs each hit a block, where the server tells its configuration."""
    config = info.get("vllm_config")
    speculative = config.get("speculative_config") if isinstance(config, dict) else None
    method = speculative.get("method") if isinstance(speculative, dict) else None
    if not isinstance(method, str):
        return {}
    return {"speculative_method": method, "drops_last_block": any(word in method.lower() for word in _DROPS_A_BLOCK)}


async def _ask(server: Server, fields: dict[str, Any], salt: str) -> Reply:
    body = {
        "model": server.target.model,
        "max_tokens": 1,
        **({"cache_salt": salt} if server.speaks.cache_salt else {}),
        **fields,
    }
    try:
        return await server.post(f"{server.target.base_url}/chat/completions", body)
    except httpx2.TransportError as problem:
        raise UsageError(
            f"takes no requests: {str(problem) or type(problem).__name__}",
            where=f"{server.target.base_url}/chat/completions",
            remedy="wait until the server is healthy",
        ) from problem


async def _quiet(server: Server, route: str) -> Reply | None:
    """A route that may be missing."""
    try:
        return await server.get(server.root + route)
    except httpx2.TransportError:
        return None


def _chunks(text: str) -> list[dict[str, Any]]:
    """The JSON objects of a short SSE stream."""
    found = []
    for line in text.splitlines():
        if line.startswith("data:") and "[DONE]" not in line:
            try:
                found.append(orjson.loads(line[5:]))
            except ValueError:
                continue
    return [chunk for chunk in found if isinstance(chunk, dict)]


def _probe(chunks: list[dict[str, Any]]) -> Probe:
    usages = [usage for chunk in chunks if (usage := mapping(chunk.get("usage")))]
    last: dict[str, Any] = usages[-1] if usages else {}
    prints = [found for chunk in chunks if isinstance(found := chunk.get("system_fingerprint"), str) and found]
    thought = mapping(last.get("completion_tokens_details")).get("reasoning_tokens", last.get("reasoning_tokens"))
    return Probe(
        prompt_tokens=whole(last.get("prompt_tokens")),
        cached_tokens=whole(mapping(last.get("prompt_tokens_details")).get("cached_tokens")),
        reasoning_tokens=whole(thought),
        running_usage=any(chunk.get("choices") and chunk.get("usage") for chunk in chunks),
        system_fingerprint=prints[-1] if prints else None,
    )
