"""Before any measured request: is the server there, is it the right one, what does it lack, and which flag would bring that."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from loadkit import dialect, probes
from loadkit.case import Case
from loadkit.errors import UsageError
from loadkit.probes import Probe
from loadkit.request import Target, conversation
from loadkit.schema import did_you_mean
from loadkit.secrets import masked_text
from loadkit.server import Reply, Server, mapping, whole
from loadkit.tokens import Prompt, ServerTokenizer

TEMPLATE = {"reasoning_effort": "low", "enable_thinking": True}
"""The template arguments that requests carry unless a scenario says otherwise."""


UNSECURE = "write http:// if the server speaks no TLS; SSL_CERT_FILE names an authority of your own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something that is missing or not as it should be, and what brings it."""

    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What preflight found. Plain data: it goes into the manifest and to the workers.

    Attributes:
        target: the server with its model, limit and dialect filled in; without the key.
        server: what is known of it: version, system_fingerprint, process_start_time_s, cache_config, arguments.
        lacks: what its dialect does not have, one sentence each.
        remarks: what is missing on this server, with the flag that brings it.
        counts_agree: whether usage.prompt_tokens of a one-token request equals /tokenize; `None` where one of them is unknown.
        cached_tokens_reported, running_usage, reasoning_tokens_reported, tools_understood: what the one-token requests showed.
        block_size: of the prefix cache, in tokens.
        drops_last_block: whether a draft model costs each hit a block; `None` where the server speculates in an unknown way.
    """

    target: Target
    server: dict[str, Any] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    counts_agree: bool | None = None
    cached_tokens_reported: bool = False
    running_usage: bool = False
    reasoning_tokens_reported: bool = False
    tools_understood: bool | None = None
    block_size: int | None = None
    drops_last_block: bool | None = None


async def look(target: Target, *, template: dict[str, Any] | None = None) -> Findings:
    """Look at the server. `target.model` may be empty: the first model of /v1/models is taken.

    Nothing that a run asks is sent, and what is sent has a salt of its own, so nothing is warmed.

    Raises:
        UsageError: the server can't be reached, has no such model, or refuses the key; the message says what to do.
    """
    async with Server(target) as server:
        models = await _models(server)
        known = _with_model(target, models)
    async with Server(known) as server:
        arguments = TEMPLATE if template is None else template
        probe, tools, count, facts = await asyncio.gather(
            probes.one_token(server, arguments, salt=uuid.uuid4().hex),
            probes.tools_understood(server, salt=uuid.uuid4().hex),
            _count(server, arguments),
            probes.facts(server),
        )
    return _findings(known, probe, tools, count, facts)


def said(findings: Findings) -> str:
    """The findings for people, a line each; printed by `--preflight-only`."""
    target = findings.target
    limit = "unknown" if target.max_model_len is None else f"{target.max_model_len} tokens"
    version = findings.server.get("version")
    lines = [
        f"server      {target.base_url}",
        f"dialect     {dialect.named(target.dialect).title}" + (f" {version}" if version else ""),
        f"model       {target.model}",
        f"limit       {limit}",
        f"counts      {_agreement(findings.counts_agree)}",
        f"cache       block size {findings.block_size or 'unknown'}, cached tokens "
        + ("reported" if findings.cached_tokens_reported else "not reported"),
    ]
    lines += [f"lacks       {sentence}" for sentence in findings.lacks]
    lines += [f"missing     {remark.text}" + (f"; {remark.remedy}" if remark.remedy else "") for remark in findings.remarks]
    return "\n".join(lines)


async def check_limits(cases: Sequence[Case], target: Target) -> None:
    """prompt + budget ≤ max_model_len for every case's first request; vLLM 0.32 would clamp the budget in silence.

    A token has at least one byte, so that most prompts are known to fit without being counted.

    Raises:
        UsageError: one does not fit.
    """
    limit = target.max_model_len
    if limit is None:
        return
    async with Server(target) as server:
        for case in cases:
            budget = case.facts.max_tokens or 0
            tokens = case.facts.planned_prompt_tokens or _most_tokens(case)
            if tokens + budget > limit and case.facts.planned_prompt_tokens is None and case.document is None:
                tokens = await _counted(case, server)
            if tokens + budget > limit:
                raise UsageError(
                    f"{case.facts.case} makes a prompt of {tokens} tokens; with a budget of {budget} that is over the server's "
                    f"limit of {limit}",
                    where=f"scenario {case.facts.scenario}",
                    remedy="lower --max-tokens, or raise the server's --max-model-len",
                )


def _most_tokens(case: Case) -> int:
    texts = [str(message.get("content") or "") for message in conversation(case)]
    return sum(len(text.encode()) + 16 for text in texts) + len(str(case.body.get("tools", "")).encode())


async def _counted(case: Case, server: Server) -> int:
    if server.speaks.tokenize is None:
        return 0  # the server itself is the only judge, and says so with a 400
    counted = await ServerTokenizer(server).count(Prompt.of_body(case.body, conversation(case)))
    return counted.tokens


async def _models(server: Server) -> list[dict[str, Any]]:
    url = f"{server.target.base_url}/models"
    where = masked_text(url)
    try:
        reply = await server.get(url)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as problem:
        raise UsageError(f"is no URL of a server: {problem}", where="--host", remedy="write http://name:port") from problem
    except httpx2.TransportError as problem:
        raise UsageError(
            f"can't be reached: {str(problem) or type(problem).__name__}",
            where=masked_text(server.target.base_url),
            remedy=UNSECURE if "SSL" in str(problem) else "start the server, or check --host",
        ) from problem
    _check_status(reply, where)
    listed = mapping(reply.data).get("data")
    models = [model for model in listed if isinstance(mapping(model).get("id"), str)] if isinstance(listed, list) else []
    if not models:
        raise UsageError("lists no models", where=where, remedy="check that --host is a server of the OpenAI API")
    return models


def _check_status(reply: Reply, where: str) -> None:
    if reply.status in (401, 403):
        raise UsageError(f"refuses the key ({reply.status})", where=where, remedy="set OPENAI_API_KEY to the server's key")
    if reply.status == 404:
        raise UsageError("is not there (404)", where=where, remedy="give the server's address up to /v1 as --host")
    if reply.location:
        there = masked_text(reply.location)
        raise UsageError(
            f"points to {there} ({reply.status})", where=where, remedy="give the address that it is served at as --host"
        )
    if not reply.ok:
        raise UsageError(f"answers {reply.status}: {reply.said}", where=where, remedy="wait until the server is healthy")


def _with_model(target: Target, models: list[dict[str, Any]]) -> Target:
    names = [model["id"] for model in models]
    if target.model and target.model not in names:
        raise UsageError(f"the server has no model {target.model!r}", where="--model", remedy=did_you_mean(target.model, names))
    chosen = next(model for model in models if not target.model or model["id"] == target.model)
    limit = whole(chosen.get("max_model_len")) or whole(mapping(chosen.get("meta")).get("n_ctx"))
    owner = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp"}.get(str(chosen.get("owned_by")).lower(), "plain")
    return replace(target, model=chosen["id"], max_model_len=limit or target.max_model_len, dialect=owner)


async def _count(server: Server, template: dict[str, Any]) -> int | None:
    """The server's count of the one-token request's prompt."""
    if server.speaks.tokenize is None:
        return None
    arguments = template if server.speaks.template_arguments else {}
    try:
        counted = await ServerTokenizer(server).count(Prompt(messages=probes.MESSAGES, template=arguments))
    except (UsageError, httpx2.TransportError):
        return None
    return counted.tokens


def _findings(target: Target, probe: Probe, tools: bool | None, count: int | None, facts: dict[str, Any]) -> Findings:
    speaks = dialect.named(target.dialect)
    agree = None if count is None or probe.prompt_tokens is None else count == probe.prompt_tokens
    fingerprint = {"system_fingerprint": probe.system_fingerprint} if probe.system_fingerprint else {}
    cache = facts.get("cache_config") or {}
    block = str(cache.get("block_size", ""))
    return Findings(
        target=replace(target, api_key=None),
        server={**facts, **fingerprint},
        lacks=speaks.lacks,
        remarks=tuple(_remarks(speaks, probe, tools, count, cache, facts)),
        counts_agree=agree,
        cached_tokens_reported=probe.cached_tokens is not None,
        running_usage=probe.running_usage,
        reasoning_tokens_reported=probe.reasoning_tokens is not None,
        tools_understood=tools,
        block_size=int(block) if block.isdigit() else None,
        drops_last_block=facts.get("drops_last_block"),
    )


def _remarks(
    speaks: dialect.Dialect, probe: Probe, tools: bool | None, count: int | None, cache: dict[str, Any], facts: dict[str, Any]
) -> list[Remark]:
    """Each missing thing with the flag that brings it."""
    found: list[Remark] = []
    flags = FLAGS.get(speaks.name, {})

    def missing(text: str, what: str) -> None:
        found.append(Remark(text=text, remedy=flags.get(what, "")))

    if probe.prompt_tokens is None:
        missing("no usage: tokens are unknown, and nothing is ever counted from chunks", "usage")
    if count is not None and probe.prompt_tokens is not None and count != probe.prompt_tokens:
        missing(f"/tokenize counts {count} tokens where usage says {probe.prompt_tokens}: planned lengths are wrong", "counts")
    if count is None and speaks.tokenize:
        missing("/tokenize does not answer: prompt lengths can't be planned", "tokenize")
    if probe.cached_tokens is None:
        missing("cached tokens are not reported: cold and warm can't be verified", "cached")
    if str(cache.get("enable_prefix_caching", "")).lower() == "false":
        missing("the prefix cache is off: warm requests will be cold", "prefix")
    if speaks.running_usage and not probe.running_usage:
        missing("no running usage: tokens of each chunk are unknown, so there is no ITL", "running")
    if probe.reasoning_tokens is None:
        missing("thinking tokens are not reported: truncation can't be told apart by count", "reasoning")
    if tools is False:
        missing("tools are refused: scenarios with tools will fail", "tools")
    if not facts.get("metrics"):
        missing("no /metrics: the server's own counters can't be compared", "metrics")
    return found


FLAGS: dict[str, dict[str, str]] = {
    "vllm": {
        "usage": "check that no proxy strips stream_options",
        "counts": "serve with a chat template that takes its arguments from chat_template_kwargs",
        "tokenize": "reach vLLM itself: a proxy may hide the route",
        "cached": "start vLLM with --enable-prompt-tokens-details",
        "prefix": "start vLLM with --enable-prefix-caching",
        "running": "use a vLLM that has continuous_usage_stats, or --token-times off",
        "reasoning": "start vLLM with --reasoning-parser for a model that thinks",
        "tools": "start vLLM with --enable-auto-tool-choice and --tool-call-parser",
        "metrics": "reach vLLM itself: a proxy may hide the route",
    },
    "sglang": {
        "cached": "start SGLang with --enable-cache-report",
        "reasoning": "start SGLang with --reasoning-parser",
        "tools": "start SGLang with --tool-call-parser",
        "metrics": "start SGLang with --enable-metrics",
    },
    "llama.cpp": {
        "tools": "start llama-server with --jinja",
        "metrics": "start llama-server with --metrics",
        "reasoning": "llama.cpp does not report them",
    },
}
"""What brings each missing thing, by dialect (vLLM `--help`; SGLang `server_args.py`; llama.cpp `tools/server/README.md`)."""


def _agreement(agree: bool | None) -> str:
    return {True: "usage agrees with /tokenize", False: "usage does NOT agree with /tokenize", None: "not verified"}[agree]
