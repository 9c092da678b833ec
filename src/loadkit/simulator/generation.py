"""From a request body to sequences in the engine: the routes that generate."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from loadkit.simulator.blocks import block_hashes
from loadkit.simulator.body import ChatBody, CompletionBody, Sampling, check_chat, check_completion, check_sampling, read_json
from loadkit.simulator.connection import Exchange
from loadkit.simulator.engine import Engine, Overflow
from loadkit.simulator.faults.wishes import spoiled_thought, spoiled_wishes
from loadkit.simulator.frames import ChatFrames, TextFrames
from loadkit.simulator.mind import Mind, Question
from loadkit.simulator.prompt import render_chat, template_kwargs
from loadkit.simulator.refusal import Refusal, backlog_full, busy, engine_dead, invalid, over_budget, too_long, unknown_model
from loadkit.simulator.reply import Asked, Choice, Reply
from loadkit.simulator.script import Limits, write
from loadkit.simulator.sequence import Sequence
from loadkit.simulator.settings import Settings
from loadkit.simulator.vocabulary import Vocabulary

IN_THREAD_BYTES = 20_000
"""Longer bodies are tokenised and read in a thread, so that running streams keep their pace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prompt that has been tokenised and read."""

    text: str
    tokens: array[int]
    hashes: list[int]


class Generation:
    """The generating routes of one server."""

    def __init__(self, settings: Settings, vocabulary: Vocabulary, engine: Engine, mind: Mind, rejected: Callable[[str], None]):
        self._settings = settings
        self._vocabulary = vocabulary
        self._engine = engine
        self._mind = mind
        self._rejected = rejected

    async def chat(self, exchange: Exchange) -> None:
        """POST /v1/chat/completions."""
        arrived_ns = exchange.began_ns
        body = check_chat(_json_of(exchange))
        self._check_model(body.model)
        kwargs = template_kwargs(body)
        prepared = await self._prepare(exchange, lambda: render_chat(body, kwargs), body.cache_salt)
        asked_tokens = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
        limits = self._limits(body, asked_tokens, prepared, kwargs)
        question = self._question(body, kwargs)
        frames = ChatFrames(
            self._id("chatcmpl", exchange, body), int(time.time()), self._settings.model, self._settings.fingerprint
        )
        reply = Reply(
            frames, spoiled_wishes(exchange.fault, self._asked(body, prepared)), exchange.outlet, prepared.tokens.tolist()
        )
        await self._submit(exchange, reply, body, prepared, limits, question, arrived_ns=arrived_ns, asked_tokens=asked_tokens)

    async def completion(self, exchange: Exchange) -> None:
        """POST /v1/completions: one prompt (of a list, the first)."""
        arrived_ns = exchange.began_ns
        body = check_completion(_json_of(exchange))
        self._check_model(body.model)
        text = self._prompt_text(body)
        prepared = await self._prepare(exchange, lambda: text, body.cache_salt)
        limits = self._limits(body, body.max_tokens, prepared, {})
        frames = TextFrames(
            self._id("cmpl", exchange, body), int(time.time()), self._settings.model, self._settings.fingerprint
        )
        asked = spoiled_wishes(exchange.fault, replace(self._asked(body, prepared), reasoning_details=False))
        reply = Reply(frames, asked, exchange.outlet, prepared.tokens.tolist())
        question = Question(messages=({"role": "user", "content": text},), seed=_seed(body), thinks=False)
        await self._submit(
            exchange, reply, body, prepared, limits, question, arrived_ns=arrived_ns, asked_tokens=body.max_tokens
        )

    def _check_model(self, name: str | None) -> None:
        if name is not None and name != self._settings.model:
            raise unknown_model(name, self._settings.model)
        if self._engine.dead:
            raise engine_dead()

    async def _prepare(self, exchange: Exchange, render: Callable[[], str], salt: str | None) -> Prepared:
        def work() -> Prepared:
            text = render()
            tokens = self._vocabulary.encode_prompt(text)
            return Prepared(text=text, tokens=tokens, hashes=block_hashes(tokens, self._settings.block_size, salt))

        if len(exchange.body) < IN_THREAD_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(None, work)

    def _limits(self, body: Sampling, asked: int | None, prepared: Prepared, kwargs: dict[str, Any]) -> Limits:
        """The output's limits, with vLLM's checks: what is over max_model_len is refused, or clamped in silence.

        Raises:
            Refusal: as vLLM words it.
        """
        whole, prompt = self._settings.max_model_len, len(prepared.tokens)
        if asked is not None and asked > whole:
            message = f"max_tokens={asked} cannot be greater than max_model_len={whole}. Please request fewer output tokens."
            raise Refusal.of(message, "max_tokens", asked)
        if prompt > whole:
            raise too_long(whole, prompt)
        if asked is not None and prompt + asked > whole and not self._settings.clamp_max_tokens:
            raise over_budget(whole, prompt, asked)
        max_tokens = whole - prompt if asked is None else min(asked, whole - prompt)
        check_sampling(body, max_tokens)
        stops = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
        budget = body.thinking_token_budget if isinstance(body, ChatBody) else None
        return Limits(
            max_tokens=max_tokens,
            min_tokens=body.min_tokens,
            ignore_eos=body.ignore_eos,
            stops=stops,
            stop_token_ids=tuple(body.stop_token_ids or ()),
            # without <think> in the prompt vLLM 0.32 ignores the budget in silence
            thinking_budget=budget if budget is not None and budget >= 0 and kwargs.get("enable_thinking") else None,
        )

    def _question(self, body: ChatBody, kwargs: dict[str, Any]) -> Question:
        named = body.tool_choice["function"]["name"] if isinstance(body.tool_choice, dict) else None
        return Question(
            messages=tuple(body.messages),
            seed=_seed(body),
            thinks=self._settings.reasoning and kwargs.get("enable_thinking", True) is not False,
            effort=kwargs.get("reasoning_effort"),
            tools=tuple(body.tools or ()) if self._settings.tools and body.tool_choice != "none" else (),
            tool_choice=named or str(body.tool_choice),
            named=named is not None,
            form=body.response_format if (body.response_format or {}).get("type", "text") != "text" else None,
        )

    def _asked(self, body: Sampling, prepared: Prepared) -> Asked:
        options = body.stream_options
        usage = self._settings.force_include_usage or bool(options and options.include_usage)
        chat = body if isinstance(body, ChatBody) else None
        return Asked(
            stream=bool(body.stream),
            usage=usage,
            running_usage=usage and bool(options and options.continuous_usage_stats),
            reasoning_details=self._settings.reasoning,
            prompt_details=self._settings.prompt_tokens_details,
            token_ids=bool(body.return_token_ids),
            prompt_text=prepared.text if chat and chat.return_prompt_text else None,
            include_reasoning=chat is None or chat.include_reasoning,
            named_tool=chat is not None and isinstance(chat.tool_choice, dict),
            forced_tool=chat is not None and (chat.tool_choice == "required" or isinstance(chat.tool_choice, dict)),
            interval=max(self._settings.stream_interval, body.stream_interval or 1),
            metrics=self._settings.per_request_metrics,
            logprobs=bool(chat and chat.logprobs),
        )

    async def _submit(
        self, exchange: Exchange, reply: Reply, body: Sampling, prepared: Prepared, limits: Limits, question: Question,
        *, arrived_ns: int, asked_tokens: int | None,
    ) -> None:  # fmt: skip
        count = 1 if body.n is None else body.n
        self._admit(count)
        exchange.witness.id = reply.frames.id
        if reply.asked.stream:
            reply.outlet.begin_stream()
        seed = zlib.crc32(prepared.tokens.tobytes()) ^ question.seed
        thoughts = await self._think(exchange, question, count)
        sequences: list[Sequence] = []
        mode = ("streaming" if reply.asked.stream else "non_streaming") if question.tools else None
        for index in range(count):
            filler = self._mind.filler(question, index)
            thought = spoiled_thought(exchange.fault, thoughts[index], question.tools)
            script = write(thought, limits, self._vocabulary, filler)
            choice = Choice(reply, index, script)
            choice.sequence = Sequence(
                id=reply.frames.id, prompt=prepared.tokens, hashes=list(prepared.hashes), salt=body.cache_salt, script=script,
                sink=choice, max_tokens=limits.max_tokens, asked_max_tokens=asked_tokens, random=random.Random(seed + index),
                tool_mode=mode, siblings=sequences, arrived_ns=arrived_ns,
            )  # fmt: skip
            reply.choices.append(choice)
            sequences.append(choice.sequence)

        def abort() -> None:
            for sequence in sequences:
                self._engine.abort(sequence)

        exchange.gone = abort
        if exchange.over:
            return
        if exchange.fault is not None and exchange.fault.name == "role-first" and reply.asked.stream:
            reply.begin()
        if self._engine.dead:
            reply.fail(engine_dead().message)
            return
        for sequence in sequences:
            self._engine.submit(sequence)

    async def _think(self, exchange: Exchange, question: Question, count: int) -> list[Any]:
        def think() -> list[Any]:
            return [self._mind.think(question, index) for index in range(count)]

        if len(exchange.body) < IN_THREAD_BYTES:
            return think()
        return await asyncio.get_running_loop().run_in_executor(None, think)

    def _admit(self, count: int) -> None:
        try:
            self._engine.admit(count)
        except Overflow as full:
            self._rejected(full.reason)
            raise (busy() if full.reason == "max_num_queued_reqs" else backlog_full()) from None

    def _prompt_text(self, body: CompletionBody) -> str:
        prompt = body.prompt
        if isinstance(prompt, str):
            return prompt
        first = prompt[0] if prompt else ""
        if isinstance(first, str):
            return first
        ids = first if isinstance(first, list) else prompt
        return self._vocabulary.decode(ids)  # type: ignore[arg-type]

    @staticmethod
    def _id(kind: str, exchange: Exchange, body: Sampling) -> str:
        """X-Request-Id wins over the body's request_id, as in vLLM."""
        return f"{kind}-{exchange.headers.get('x-request-id') or body.request_id or secrets.token_hex(8)}"


def _json_of(exchange: Exchange) -> dict[str, Any]:
    media = exchange.headers.get("content-type", "").lower().split(";")[0]
    if media != "application/json":
        raise invalid(["Unsupported Media Type: Only 'application/json' is allowed"])
    return read_json(exchange.body)


def _seed(body: Sampling) -> int:
    """Repeatable where the request is: a seed, or temperature 0; else a fresh one."""
    if body.seed is not None:
        return body.seed
    return 0 if body.temperature == 0 else secrets.randbits(31)
