"""Asks a simulator over a plain socket: nothing between the test and the bytes."""

import http.client
import json
import urllib.parse
from dataclasses import dataclass
from typing import Any

from simulator_process import Simulator

HELLO = [{"role": "user", "content": "Hello there."}]


@dataclass(frozen=True)
class Answer:
    """A response that was read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[str]:
        """The data of each SSE event, `[DONE]` included."""
        return [part.removeprefix("data: ") for part in self.body.decode().split("\n\n") if part.startswith("data: ")]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        return [json.loads(event) for event in self.events if event != "[DONE]"]

    @property
    def usage(self) -> dict[str, Any]:
        return self.chunks[-1]["usage"] if self.headers["content-type"].startswith("text/event-stream") else self.json["usage"]

    def text(self, kind: str = "content") -> str:
        """The text of one kind, put together from the deltas."""
        return "".join(chunk["choices"][0]["delta"].get(kind) or "" for chunk in self.chunks if chunk["choices"])

    @property
    def finish(self) -> list[str]:
        found = [chunk["choices"][0]["finish_reason"] for chunk in self.chunks if chunk["choices"]]
        return [reason for reason in found if reason]


def request(sim: Simulator, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
    parts = urllib.parse.urlsplit(sim.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.request(method, parts.path + path, body, headers or {})
        response = connection.getresponse()
        return Answer(response.status, {key.lower(): value for key, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def get(sim: Simulator, path: str, **headers: str) -> Answer:
    return request(sim, "GET", path, headers=headers)


def post(sim: Simulator, path: str, body: dict[str, Any] | bytes, **headers: str) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
    return request(sim, "POST", path, raw, named)


def chat(
    sim: Simulator, text: str | list[dict[str, Any]] = "Hello there.", *, fault: str | None = None, **fields: Any
) -> Answer:
    """A chat completion; streamed with running usage unless `stream=False` is given."""
    messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
    body: dict[str, Any] = {"messages": messages, "stream": True, "temperature": 0, **fields}
    if body["stream"] and "stream_options" not in fields:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    headers = {"X_Loadkit_Fault": fault} if fault else {}
    return post(sim, "/v1/chat/completions", body, **headers)


def metrics(sim: Simulator) -> dict[str, float]:
    """Every sample of /metrics by its full name, labels of the engine left out."""
    from prometheus_client.parser import text_string_to_metric_families

    found = {}
    for family in text_string_to_metric_families(get(sim, "/metrics").body.decode()):
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if key not in ("engine", "model_name")}
            shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            found[sample.name + (f"{{{shown}}}" if shown else "")] = sample.value
    return found
