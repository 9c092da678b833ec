"""Request bodies: the fields of vLLM 0.32 that matter here, checked in its order and refused in its words.

Unknown fields are ignored in silence, as vLLM does.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from loadkit.simulator.refusal import Refusal, bad_json, from_pydantic

INT64 = 2**63
GREEDY_BELOW = 1e-5
SALT_FORBIDDEN = frozenset("@/\\\0")


class StreamOptions(BaseModel):
    """What of usage a stream carries."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class Sampling(BaseModel):
    """What chat and text completions have in common."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model: str | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    max_tokens: int | None = None
    n: int | None = 1
    presence_penalty: float | None = None
    seed: Annotated[int | None, Field(ge=-INT64, lt=INT64)] = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    echo: bool | None = False
    request_id: str | None = None
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    priority: int = 0
    stream_interval: Annotated[int | None, Field(ge=1)] = None


class ChatBody(Sampling):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]]
    logprobs: bool | None = False
    top_logprobs: Annotated[int, BeforeValidator(lambda value: 0 if value is None else value)] = 0
    max_completion_tokens: int | None = None
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = "none"
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    thinking_token_budget: int | None = None
    include_reasoning: bool = True
    parallel_tool_calls: bool | None = True
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    return_prompt_text: bool | None = None


class CompletionBody(Sampling):
    """POST /v1/completions."""

    prompt: str | list[str] | list[int] | list[list[int]] | None = None
    logprobs: int | None = None
    max_tokens: int | None = 16
    add_special_tokens: bool = True


class TokenizeChatBody(BaseModel):
    """POST /tokenize with messages. There is no reasoning_effort here: a top-level one is ignored, as by vLLM."""

    model: str | None = None
    messages: list[dict[str, Any]]
    add_generation_prompt: bool = True
    return_token_strs: bool | None = False
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None


class TokenizePromptBody(BaseModel):
    """POST /tokenize with a prompt."""

    model: str | None = None
    prompt: str
    return_token_strs: bool | None = False


class DetokenizeBody(BaseModel):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0)]]


Body = TypeVar("Body", bound=BaseModel)


def read_json(raw: bytes) -> dict[str, Any]:
    """The body as a JSON object.

    Raises:
        Refusal: it is none.
    """
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise bad_json(raw) from None
    if not isinstance(data, dict):
        raise bad_json(raw)
    return data


def checked(data: dict[str, Any], kind: type[Body]) -> Body:
    """The body as a model of `kind`.

    Raises:
        Refusal: with pydantic's findings in vLLM's form.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as problem:
        raise from_pydantic(problem) from None


def check_chat(data: dict[str, Any]) -> ChatBody:
    """A chat body: vLLM's own rules run on the raw object before the fields are validated; then the sampling limits."""
    _check_salt(data.get("cache_salt"))
    _check_stream_options(data)
    _check_logprobs(data)
    _check_tools(data)
    if data.get("continue_final_message") and data.get("add_generation_prompt"):
        raise Refusal("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    body = checked(data, ChatBody)
    if body.thinking_token_budget is not None and body.thinking_token_budget < -1:
        raise Refusal.of("thinking_token_budget must be a non-negative integer or -1.", "thinking_token_budget")
    return body


def check_completion(data: dict[str, Any]) -> CompletionBody:
    """A text completion's body, by the same rules."""
    _check_salt(data.get("cache_salt"))
    _check_stream_options(data)
    if data.get("prompt") is None:
        raise Refusal.of("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    return checked(data, CompletionBody)


def check_sampling(body: Sampling, max_tokens: int) -> None:
    """vLLM's SamplingParams._verify_args, the rules with a figure that people get wrong.

    Raises:
        Refusal: the first rule that is broken.
    """
    count = 1 if body.n is None else body.n
    temperature = 1.0 if body.temperature is None else body.temperature
    top_p = 1.0 if body.top_p is None else body.top_p
    if count < 1:
        raise Refusal(f"n must be at least 1, got {count}.")
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(body, name) or 0.0
        if not -2.0 <= value <= 2.0:
            raise Refusal(f"{name} must be in [-2, 2], got {value}.")
    if temperature < 0:
        raise Refusal.of(f"temperature must be non-negative, got {temperature}.", "temperature", temperature)
    if temperature > 2:
        raise Refusal.of(f"temperature must be in [0, 2], got {temperature}.", "temperature", temperature)
    if not 0 < top_p <= 1:
        raise Refusal.of(f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    if body.top_k is not None and body.top_k < -1:
        raise Refusal(f"top_k must be 0 (disable), or at least 1, got {body.top_k}.")
    if body.min_p is not None and not 0 <= body.min_p <= 1:
        raise Refusal(f"min_p must be in [0, 1], got {body.min_p}.")
    if max_tokens < 1:
        raise Refusal.of(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens", max_tokens)
    if body.min_tokens < 0:
        raise Refusal(f"min_tokens must be greater than or equal to 0, got {body.min_tokens}.")
    if body.min_tokens > max_tokens:
        raise Refusal(f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {body.min_tokens}.")
    if body.stop is not None and "" in ([body.stop] if isinstance(body.stop, str) else body.stop):
        raise Refusal("stop cannot contain an empty string.")
    if count > 1 and temperature < GREEDY_BELOW:
        raise Refusal(f"n must be 1 when using greedy sampling, got {count}.")


def _check_salt(salt: object) -> None:
    if salt is None:
        return
    if not isinstance(salt, str) or not salt:
        raise Refusal.of("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
    if len(salt) > 128 or SALT_FORBIDDEN & set(salt):
        raise Refusal.of(
            "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL.", "cache_salt"
        )


def _check_stream_options(data: dict[str, Any]) -> None:
    if data.get("stream_options") and not data.get("stream"):
        raise Refusal.of("Stream options can only be defined when `stream=True`.", "stream_options")


def _check_logprobs(data: dict[str, Any]) -> None:
    top = data.get("top_logprobs")
    if top is None:
        return
    if not isinstance(top, int | float):
        raise Refusal.of("`top_logprobs` must be an integer.", "top_logprobs", top)
    if top < 0 and top != -1:
        raise Refusal.of("`top_logprobs` must be a positive value or -1.", "top_logprobs", top)
    if (top == -1 or top > 0) and not data.get("logprobs"):
        raise Refusal.of("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs")


def _check_tools(data: dict[str, Any]) -> None:
    if data.get("tools") == []:
        raise Refusal.of(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.", "tools"
        )
    if "tool_choice" not in data and data.get("tools"):
        data["tool_choice"] = "auto"
    choice = data.get("tool_choice")
    if choice is None or choice == "none":
        return
    if data.get("tools") is None:
        raise Refusal.of("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if isinstance(choice, dict):
        _check_named_tool(choice, data["tools"])
    elif choice not in ("auto", "required"):
        raise Refusal.of(
            f'Invalid value for `tool_choice`: {choice}! Only named tools, "none", "auto" or "required" are supported.',
            "tool_choice",
        )


def _check_named_tool(choice: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    usage = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'
    function = choice.get("function")
    if not isinstance(function, dict):
        raise Refusal.of(f"Invalid value for `function`: `{function}` in `tool_choice`! {usage}", "tool_choice.function")
    if "name" not in function:
        raise Refusal.of(f"Expected field `name` in `function` in `tool_choice`! {usage}", "tool_choice.function.name")
    if function["name"] not in [tool.get("function", {}).get("name") for tool in tools]:
        raise Refusal.of("The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice")
