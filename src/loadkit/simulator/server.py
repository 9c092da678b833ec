"""The simulated server: its routes, and its life from the free port to the last connection."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from loadkit.simulator.body import DetokenizeBody, TokenizeChatBody, TokenizePromptBody, checked, read_json
from loadkit.simulator.connection import Connection, Exchange
from loadkit.simulator.engine import Engine
from loadkit.simulator.faults.choice import Faults
from loadkit.simulator.faults.outlet import FaultyOutlet
from loadkit.simulator.generation import Generation
from loadkit.simulator.metrics import Metrics, cache_config
from loadkit.simulator.mind import Mind
from loadkit.simulator.prompt import render_chat
from loadkit.simulator.refusal import ENGINE_DEAD, Refusal, invalid, unknown_model
from loadkit.simulator.settings import VERSION, Settings
from loadkit.simulator.truth import TruthLog
from loadkit.simulator.vocabulary import Vocabulary

Route = Callable[[Exchange], Awaitable[None] | None]
UNCOUNTED = ("/metrics", "/health", "/ping", "/version", "/load", "/server_info")
METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class Server:
    """One simulated vLLM. `await start()` gives the port; `await stop()` drops what is under way."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.truth = TruthLog(settings.truth)
        self.keep_alive_interval_s = settings.keep_alive_interval_s
        self._loop = asyncio.get_running_loop()
        self._vocabulary = Vocabulary()
        self.metrics = Metrics(settings)
        self.engine = Engine(settings, self._vocabulary, self.metrics, self._loop)
        self.metrics.scheduler = self.engine.scheduler
        self._faults = Faults(settings.faults, header=settings.header_faults)
        mind = Mind(settings.manners)
        generation = Generation(settings, self._vocabulary, self.engine, mind, self.metrics.rejected)
        self._routes = self._table(generation)
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen; returns the port (a free one where the settings say 0)."""
        self._listener = await self._loop.create_server(
            lambda: Connection(self, self._loop, self._connections), self.settings.host, self.settings.port, backlog=2048
        )
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)
        self.engine.close()
        self.truth.close()

    def accept_delay_s(self) -> float:
        """How long a new connection is left unread (the fault slow-accept)."""
        fault = self._faults.for_connection()
        return fault.number("s") if fault else 0.0

    def handle(self, exchange: Exchange) -> None:
        """Answer a request; what a route refuses becomes vLLM's error body."""
        path = exchange.path.split("?")[0].removeprefix(self.settings.root_path)
        try:
            exchange.fault = self._faults.for_request(path, exchange.headers)
            if exchange.fault is not None:
                faulty = FaultyOutlet(exchange, exchange.fault, self.die)
                exchange.outlet = faulty
                if faulty.refuse():
                    return
            work = self._route(exchange, path)(exchange)
        except Refusal as refusal:
            exchange.outlet.answer(refusal.status, refusal.body())
            work = None
        if work is not None:
            task = self._loop.create_task(self._finish(exchange, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def requested(self, exchange: Exchange, size: int) -> None:
        """A response is over: the HTTP figures of /metrics, which leave out the same paths as vLLM's."""
        path = exchange.path.split("?")[0].removeprefix(self.settings.root_path)
        if path not in UNCOUNTED:
            handler = path if path in self._routes else "none"
            seconds = (time.monotonic_ns() - exchange.began_ns) / 1e9
            self.metrics.requested(
                exchange.method, handler, exchange.witness.status or 200, seconds, (len(exchange.body), size)
            )

    def die(self, refused_after_s: float) -> None:
        """The engine core is gone: streams fail, /health says so, and after a while nobody listens any more."""
        self.engine.kill(ENGINE_DEAD)

        def leave() -> None:
            if self._listener is not None:
                self._listener.close()
            for connection in list(self._connections):
                connection.abort()

        self._loop.call_later(refused_after_s, leave)

    async def _finish(self, exchange: Exchange, work: Awaitable[None]) -> None:
        try:
            await work
        except Refusal as refusal:
            exchange.outlet.answer(refusal.status, refusal.body())

    def _route(self, exchange: Exchange, path: str) -> Route:
        key = self.settings.api_key
        guarded = path.startswith(("/v1", "/v2", "/inference", "/cohere"))
        if key and guarded and exchange.headers.get("authorization") != f"Bearer {key}":
            return _constant(401, b'{"error":"Unauthorized"}')
        methods = self._routes.get(path)
        if methods is None:
            return _constant(404, b'{"detail":"Not Found"}')
        route = methods.get(exchange.method)
        if route is None:
            return _constant(405, b'{"detail":"Method Not Allowed"}', extra=f"allow: {', '.join(methods)}")
        return route

    def _table(self, generation: Generation) -> dict[str, dict[str, Route]]:
        routes: dict[str, dict[str, Route]] = {
            "/v1/chat/completions": {"POST": generation.chat},
            "/v1/completions": {"POST": generation.completion},
            "/v1/models": {"GET": self._models},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health, "POST": self._health},
            "/load": {"GET": _constant(200, b'{"server_load":0}')},
            "/version": {"GET": _constant(200, orjson.dumps({"version": VERSION}))},
            "/metrics": {"GET": self._metrics},
        }
        disabled = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."
        refusal = Refusal(disabled, kind="PermissionDeniedError", status=403)
        routes["/v1/chat/completions/render"] = {"POST": _constant(403, refusal.body())}
        if self.settings.dev_mode:
            routes["/reset_prefix_cache"] = {"POST": self._reset}
            routes["/server_info"] = {"GET": self._server_info}
        return routes

    def _models(self, exchange: Exchange) -> None:
        now = int(time.time())
        permission = {
            "id": "modelperm-0000000000000000", "object": "model_permission", "created": now, "allow_create_engine": False,
            "allow_sampling": True, "allow_logprobs": True, "allow_search_indices": False, "allow_view": True,
            "allow_fine_tuning": False, "organization": "*", "group": None, "is_blocking": False,
        }  # fmt: skip
        card = {
            "id": self.settings.model, "object": "model", "created": now, "owned_by": "vllm", "root": self.settings.model,
            "parent": None, "max_model_len": self.settings.max_model_len, "permission": [permission],
        }  # fmt: skip
        exchange.outlet.answer(200, orjson.dumps({"object": "list", "data": [card]}))

    async def _tokenize(self, exchange: Exchange) -> None:
        data = read_json(exchange.body)
        if "messages" not in data and "prompt" not in data:
            missing: list[dict[str, Any] | str] = [
                {"type": "missing", "loc": ("body", name), "msg": "Field required", "input": data}
                for name in ("prompt", "messages")
            ]
            raise invalid(missing)
        body = checked(data, TokenizePromptBody) if "prompt" in data else checked(data, TokenizeChatBody)
        if body.model is not None and body.model != self.settings.model:
            raise unknown_model(body.model, self.settings.model)

        def work() -> bytes:
            text = body.prompt if isinstance(body, TokenizePromptBody) else render_chat(body, body.chat_template_kwargs or {})
            tokens = self._vocabulary.encode_prompt(text).tolist()
            names = [self._vocabulary.name_of(token) for token in tokens] if body.return_token_strs else None
            facts = {"count": len(tokens), "max_model_len": self.settings.max_model_len, "tokens": tokens, "token_strs": names}
            return orjson.dumps(facts)

        exchange.outlet.answer(200, await self._loop.run_in_executor(None, work))

    def _detokenize(self, exchange: Exchange) -> None:
        body = checked(read_json(exchange.body), DetokenizeBody)
        exchange.outlet.answer(200, orjson.dumps({"prompt": self._vocabulary.decode(body.tokens)}))

    def _health(self, exchange: Exchange) -> None:
        exchange.outlet.answer(503 if self.engine.dead else 200, b"", kind="")

    def _metrics(self, exchange: Exchange) -> None:
        exchange.outlet.answer(200, self.metrics.render(), kind=METRICS_TYPE)

    def _reset(self, exchange: Exchange) -> None:
        exchange.outlet.answer(200, orjson.dumps({"success": self.engine.pool.reset()}))

    def _server_info(self, exchange: Exchange) -> None:
        settings = self.settings
        config = {
            "model_config": {
                "model": settings.model,
                "max_model_len": settings.max_model_len,
                "enforce_eager": settings.enforce_eager,
            },
            "cache_config": cache_config(settings),
            "scheduler_config": {
                "max_num_seqs": settings.max_num_seqs,
                "max_num_batched_tokens": settings.max_num_batched_tokens,
            },
            "speculative_config": {"method": settings.draft_method, "num_speculative_tokens": settings.drafts}
            if settings.drafts
            else None,
        }
        exchange.outlet.answer(200, orjson.dumps({"vllm_config": config, "vllm_env": {}, "system_env": {}}))


def _constant(status: int, body: bytes, *, extra: str = "") -> Route:
    def answer(exchange: Exchange) -> None:
        exchange.outlet.answer(status, body, extra=extra)

    return answer


async def serve(settings: Settings, ready: Callable[[int], None], until: asyncio.Event) -> None:
    """Serve until `until` is set; `ready` is called with the port as soon as requests are accepted.

    Raises:
        OSError: the port can't be bound.
    """
    server = Server(settings)
    ready(await server.start())
    with contextlib.suppress(asyncio.CancelledError):
        await until.wait()
    await server.stop()
