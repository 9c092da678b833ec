"""The same requests to the simulator and to a real vLLM, and what of their answers must be equal.

Texts, ids, times and token counts differ (another tokenizer, another model); names, order, types and arithmetic may not.
"""

import http.client
import json
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

OFF = {"chat_template_kwargs": {"enable_thinking": False}}
FIXED = {"ignore_eos": True, **OFF}
USAGE = {"stream_options": {"include_usage": True}}
RUNNING = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
SAY = [{"role": "user", "content": "Say hi."}]
LONG = [{"role": "user", "content": "Say hi to the whole harbour. " * 60}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 8}, "unit": {"enum": ["celsius"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@dataclass(frozen=True)
class Asked:
    """One request of the parity test."""

    name: str
    path: str = "/v1/chat/completions"
    method: str = "POST"
    body: dict[str, Any] | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


def chat(name: str, *, messages: Any = SAY, **fields: Any) -> Asked:
    return Asked(name, body={"model": "qwen-tiny", "messages": messages, "temperature": 0} | fields)


def text(name: str, **fields: Any) -> Asked:
    return Asked(name, path="/v1/completions", body={"model": "qwen-tiny", "prompt": "hello", "temperature": 0, **fields})


REQUESTS = (
    chat("plain, streamed", stream=True, max_tokens=5, ignore_eos=True, **OFF),
    chat("plain, whole", max_tokens=5, ignore_eos=True, **OFF),
    chat("usage", stream=True, max_tokens=5, ignore_eos=True, **USAGE, **OFF),
    chat("running usage", stream=True, max_tokens=5, ignore_eos=True, **RUNNING, **OFF),
    chat("running usage alone", stream=True, max_tokens=3, stream_options={"continuous_usage_stats": True}, **FIXED),
    chat("one token", stream=True, max_tokens=1, ignore_eos=True, **RUNNING, **OFF),
    chat("thinking, streamed", stream=True, max_tokens=5, ignore_eos=True, **RUNNING),
    chat("thinking, whole", max_tokens=5, ignore_eos=True),
    chat("thinking hidden", stream=True, max_tokens=5, ignore_eos=True, include_reasoning=False, **RUNNING),
    chat("token ids", stream=True, max_tokens=4, return_token_ids=True, return_prompt_text=True, **USAGE, **FIXED),
    chat("token ids, whole", max_tokens=4, ignore_eos=True, return_token_ids=True, return_prompt_text=True, **OFF),
    chat("two choices", stream=True, max_tokens=3, ignore_eos=True, n=2, temperature=1, seed=3, **USAGE, **OFF),
    chat("stream interval", stream=True, max_tokens=12, ignore_eos=True, stream_interval=4, **RUNNING, **OFF),
    chat("log probabilities", stream=True, max_tokens=2, ignore_eos=True, logprobs=True, top_logprobs=1, **OFF),
    chat("cold", messages=LONG, stream=True, max_tokens=2, ignore_eos=True, cache_salt="parity", **USAGE, **OFF),
    chat("warm", messages=LONG, stream=True, max_tokens=2, ignore_eos=True, cache_salt="parity", **USAGE, **OFF),
    chat("another salt", messages=LONG, max_tokens=2, ignore_eos=True, cache_salt="other", **OFF),
    chat("required tool", stream=True, max_tokens=26, tools=[TOOL], tool_choice="required", **RUNNING, **OFF),
    chat("named tool", stream=True, max_tokens=26, tools=[TOOL], tool_choice=NAMED, **RUNNING, **OFF),
    chat("tool not allowed", stream=True, max_tokens=4, ignore_eos=True, tools=[TOOL], tool_choice="none", **RUNNING, **OFF),
    text("text, streamed", stream=True, max_tokens=4, ignore_eos=True, **RUNNING),
    text("text, whole", max_tokens=4, ignore_eos=True),
    text("text, token ids", stream=True, max_tokens=3, ignore_eos=True, return_token_ids=True, **USAGE),
    chat("id by header", max_tokens=1, **OFF),
    Asked("tokenize", path="/tokenize", body={"messages": SAY, "return_token_strs": True}),
    Asked("tokenize a prompt", path="/tokenize", body={"prompt": "hello world"}),
    Asked("models", path="/v1/models", method="GET"),
    chat("wrong model", model="nope"),
    chat("no messages", messages=[]),
    chat("max_tokens 0", max_tokens=0),
    chat("max_tokens too big", max_tokens=200_000),
    chat("temperature", temperature=-1),
    chat("two greedy choices", n=2),
    chat("min over max", max_tokens=2, min_tokens=3),
    chat("empty salt", cache_salt=""),
    chat("stream options without stream", **USAGE),
    chat("tool choice without tools", tool_choice="auto"),
    chat("effort", reasoning_effort="huge"),
    Asked("bad json", body=b"{bad"),
    Asked("method", path="/v1/models", body=b"{}"),
)  # fmt: skip


@dataclass(frozen=True)
class Answered:
    """A server's answer, and how its counters moved."""

    status: int
    body: bytes
    streamed: bool
    moved: dict[str, float]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        parts = [part.removeprefix("data: ") for part in self.body.decode().split("\n\n") if part.startswith("data: ")]
        return [json.loads(part) for part in parts if part != "[DONE]"]


def ask(url: str, asked: Asked) -> Answered:
    before = counters(url)
    status, kind, body = send(url, asked)
    after = counters(url)
    moved = {name: after[name] - before.get(name, 0.0) for name in after if after[name] != before.get(name, 0.0)}
    return Answered(status, body, kind.startswith("text/event-stream"), moved)


def send(url: str, asked: Asked) -> tuple[int, str, bytes]:
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=100)
    raw = asked.body if isinstance(asked.body, bytes) else json.dumps(asked.body).encode() if asked.body is not None else None
    connection.request(asked.method, asked.path, raw, {"Content-Type": "application/json", **asked.headers})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, response.getheader("content-type") or "", body


def counters(url: str) -> dict[str, float]:
    """Counters of the engine: everything that only ever rises by what requests ask for."""
    from prometheus_client.parser import text_string_to_metric_families

    body = send(url, Asked("", path="/metrics", method="GET"))[2].decode()
    found = {}
    for family in text_string_to_metric_families(body):
        if not family.name.startswith("vllm:") or family.type not in ("counter", "histogram"):
            continue
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if key not in ("engine", "model_name")}
            if "le" not in labels and not sample.name.endswith("_created"):
                found[f"{sample.name}{sorted(labels.items())}"] = sample.value
    return found


def skeleton(value: Any) -> Any:
    """What is left of an answer without its texts and numbers: names, types, nulls, nesting."""
    if isinstance(value, dict):
        return {key: skeleton(part) for key, part in value.items()}
    if isinstance(value, list):
        shapes = [skeleton(part) for part in value]
        return [shapes[0]] if shapes and all(shape == shapes[0] for shape in shapes) else shapes
    return (
        value
        if value is None
        else "number"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else type(value).__name__
    )


def shape_of_stream(answered: Answered) -> list[list[str]]:
    """Per choice the chunks' skeletons in order, runs of equal ones once; then the chunks without a choice.

    How the chunks of several choices interleave is the scheduler's business. The last text may come with finish_reason or
    before it.
    """
    shapes: dict[int, list[str]] = {}
    for chunk in answered.chunks:
        bare = skeleton(chunk)
        for choice, full in zip(bare.get("choices", []), chunk.get("choices", []), strict=False):
            choice["finish_reason"] = full["finish_reason"]
            if full["finish_reason"] and "delta" in choice:
                choice["delta"] = "delta"
        index = chunk["choices"][0]["index"] if chunk.get("choices") else 99
        shown = json.dumps(bare)
        of_choice = shapes.setdefault(index, [])
        if not of_choice or of_choice[-1] != shown:
            of_choice.append(shown)
    return [shapes[index] for index in sorted(shapes)]


def arithmetic(answered: Answered) -> dict[str, bool]:
    """Whether the sums of usage, chunks and counters hold."""
    usages = (
        [chunk["usage"] for chunk in answered.chunks if chunk.get("usage")]
        if answered.streamed
        else [json.loads(answered.body)["usage"]]
    )
    if not usages:
        return {}
    last, moved = usages[-1], answered.moved
    details = last.get("prompt_tokens_details") or {}
    running = [usage["completion_tokens"] for usage in usages]
    return {
        "total": last["total_tokens"] == last["prompt_tokens"] + last["completion_tokens"],
        "running usage rises": running == sorted(running),
        "prompt counter": moved.get("vllm:prompt_tokens_total[]") == last["prompt_tokens"],
        "generation counter": moved.get("vllm:generation_tokens_total[]") == last["completion_tokens"],
        "queries": moved.get("vllm:prefix_cache_queries_total[]") == last["prompt_tokens"],
        "hits": moved.get("vllm:prefix_cache_hits_total[]", 0.0) == (details.get("cached_tokens") or 0),
        "blocks": (details.get("cached_tokens") or 0) % 128 == 0,
        "reasoning": (last.get("completion_tokens_details") or {}).get("reasoning_tokens", 0) <= last["completion_tokens"],
    }
