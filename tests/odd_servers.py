"""A small HTTP server on loopback that speaks like servers other than ours, and lacks what they lack."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Odd:
    """What the server has. `answers` replaces what a path would answer; `seen` collects (path, body) of every POST.

    `slow_s` seconds pass before it says which models it has.
    """

    owned_by: str = "vllm"
    models: tuple[str, ...] = ("m",)
    max_model_len: int | None = 4096
    key: str | None = None
    prompt_tokens: int = 20
    counted: int = 20
    tokenize: bool = True
    usage: bool = True
    details: bool = True
    running: bool = True
    tools: bool = True
    status: int = 200
    metrics: str = ""
    slow_s: float = 0.0
    info: dict[str, Any] | None = None
    answers: dict[str, Any] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@contextmanager
def serving(odd: Odd) -> Iterator[str]:
    """The base URL of a running server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(odd))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def _handler(odd: Odd) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if odd.key and self.headers.get("Authorization") != f"Bearer {odd.key}" and self.path.startswith("/v1"):
                self.reply(401, {"error": "Unauthorized"})
            elif self.path in odd.answers:
                self.reply(200, odd.answers[self.path])
            elif self.path == "/v1/models":
                time.sleep(odd.slow_s)
                self.reply(odd.status, {"data": [self.model(name) for name in odd.models]})
            elif self.path == "/metrics" and odd.metrics:
                self.reply(200, odd.metrics)
            elif self.path.startswith("/server_info") and odd.info is not None:
                self.reply(200, odd.info)
            else:
                self.reply(404, {"detail": "Not Found"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            odd.seen.append((self.path, body))
            if self.path in odd.answers:
                self.reply(200, odd.answers[self.path])
            elif self.path == "/tokenize" and odd.tokenize:
                self.reply(200, {"count": odd.counted, "tokens": list(range(odd.counted)), "max_model_len": odd.max_model_len})
            elif self.path == "/apply-template":
                self.reply(200, {"prompt": "".join(message["content"] for message in body["messages"])})
            elif self.path == "/v1/chat/completions" and "tools" in body and not odd.tools:
                self.reply(400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice'}})
            elif self.path == "/v1/chat/completions":
                self.reply(200, self.stream() if body.get("stream") else {"choices": []})
            else:
                self.reply(404, {"detail": "Not Found"})

        def model(self, name: str) -> dict[str, Any]:
            limit = {} if odd.max_model_len is None else {"max_model_len": odd.max_model_len}
            return {"id": name, "owned_by": odd.owned_by, **limit}

        def stream(self) -> str:
            usage: dict[str, Any] = {"prompt_tokens": odd.prompt_tokens, "completion_tokens": 1}
            if odd.details:
                usage |= {"prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 1}}
            first: dict[str, Any] = {"choices": [{"index": 0, "delta": {"reasoning": "Hm"}}]}
            if odd.running:
                first["usage"] = {"prompt_tokens": odd.prompt_tokens, "completion_tokens": 1}
            last = [{"choices": [], "usage": usage, "system_fingerprint": "fp-1"}] if odd.usage else []
            return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [first, *last]) + "data: [DONE]\n\n"

        def reply(self, status: int, body: Any) -> None:
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            with suppress(BrokenPipeError):  # a client that found enough
                self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    return Handler
