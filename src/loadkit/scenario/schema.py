"""The form of a scenario file. docs/reference/scenarios.md is made from these models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from loadkit.checks.spec import Check
from loadkit.schema import Model

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Names enter request ids and HTTP headers, so they keep to ASCII letters, digits, dot, dash and underscore."""


class Sampling(Model):
    """How the server draws tokens; `seed` left out takes `--sampling-seed`. `extra` goes into the body as it is."""

    temperature: float | None = Field(default=0.0, ge=0)
    seed: int | None = None
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)


class Variable(Model):
    """A value drawn anew for each case: exactly one of the keys. A plain list is short for `of`."""

    of: tuple[Any, ...] | None = Field(default=None, min_length=1, description="one of these; mappings give `{name.key}`")
    range: tuple[int, int] | None = Field(default=None, description="a whole number between the two, both included")
    code: int | None = Field(default=None, gt=0, le=32, description="that many random capital letters and digits")
    formula: str | None = Field(default=None, description="arithmetic over other variables: + - * // % ( ) min max")

    @model_validator(mode="before")
    @classmethod
    def _list_is_of(cls, data: Any) -> Any:
        return {"of": data} if isinstance(data, list) else data

    @model_validator(mode="after")
    def _exactly_one(self) -> Variable:
        given = [key for key in ("of", "range", "code", "formula") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError("a variable has exactly one of the keys of, range, code, formula")
        if self.range is not None and self.range[0] > self.range[1]:
            raise ValueError("a range goes from the smaller to the larger number")
        return self


class Message(Model):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class TurnFile(Model):
    """One turn of a conversation: what the user says, or which results the called tools give back."""

    text: str | None = None
    tool_results: dict[str, str] = Field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    max_tokens: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _says_something(self) -> TurnFile:
        if self.text is None and not self.tool_results:
            raise ValueError("a turn has a text or tool_results")
        return self


class Prompt(Model):
    """One thing to ask: a `text`, whole `messages`, or `turns` of a conversation. `{name}` is a variable, `{{name}}` is not."""

    name: Name | None = None
    text: str | None = None
    messages: tuple[Message, ...] = ()
    turns: tuple[TurnFile, ...] = ()
    variables: dict[str, Variable] = Field(default_factory=dict)
    tools: tuple[str, ...] | None = Field(default=None, description="names of the scenario's tools; all of them if left out")
    tool_choice: str | None = None
    checks: tuple[Check, ...] = ()
    max_tokens: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _one_form(self) -> Prompt:
        if sum((self.text is not None, bool(self.messages), bool(self.turns))) != 1:
            raise ValueError("a prompt has exactly one of the keys text, messages, turns")
        if self.turns and self.checks:
            raise ValueError("a conversation has its checks at its turns")
        if self.turns and self.turns[0].text is None:
            raise ValueError("the first turn has a text")
        return self


class File(Model):
    """Prompts from a JSONL file of one's own; the path is relative to the scenario file.

    plain: `{"prompt": "…"}` a line (or a JSON string); chat: `{"messages": […]}`; sharegpt: `{"conversations": [{"from":
    "human", "value": "…"}, …]}`, where each human turn is asked in its place. A key `answer` beside a plain or chat prompt
    adds an exact check, a key `checks` any others.
    """

    path: str
    form: Literal["plain", "chat", "sharegpt"] = "plain"
    sample: int | None = Field(default=None, gt=0, description="draw so many lines by seed; all, in order, if left out")


class Tool(Model):
    """A function that the model may call, as the OpenAI API declares it."""

    name: Name
    description: str
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool = True


class Archive(Model):
    """Long documents that are generated and fitted to an exact token count; see docs/reference/scenarios.md.

    `rungs_k` are prompt lengths in units of 1024 tokens; a rung is min(K·1024, max_model_len − budget − 128). `questions` are
    asked in this order about each document: a depth (front, middle, back), or `absent` for a key that is not there.
    """

    kind: Literal["retrieval", "prefix"] = "retrieval"
    language: Literal["en", "zh"] = "en"
    rungs_k: tuple[float, ...] = Field(default=(8, 32, 64, 96, 128, 160, 192, 224, 256), min_length=1)
    documents: int = Field(default=2, gt=0, description="documents a length")
    depths: dict[str, float] = Field(default_factory=lambda: {"front": 0.05, "middle": 0.5, "back": 0.95})
    questions: tuple[str, ...] = ("front", "middle", "back", "front", "absent")
    distractors: int = Field(default=3, ge=0, description="near-duplicates of each needle")

    @model_validator(mode="after")
    def _questions_have_depths(self) -> Archive:
        for question in self.questions:
            if question != "absent" and question not in self.depths:
                raise ValueError(f"question {question!r} has no depth; depths are {', '.join(self.depths)}, or say 'absent'")
        if any(not 0 < depth < 1 for depth in self.depths.values()):
            raise ValueError("a depth lies between 0 and 1")
        return self


class Scenario(Model):
    """One scenario file. Exactly one of `prompts`, `file`, `archive` and `mix` says where the prompts come from."""

    name: Name
    title: str = ""
    about: str = ""
    workload: Literal["speed", "quality"] = "quality"
    system: str | None = Field(default=None, description="a system message before every conversation")
    prompts: tuple[Prompt, ...] = ()
    file: File | None = None
    archive: Archive | None = None
    mix: dict[str, float] = Field(default_factory=dict, description="other scenarios with their weights")
    variables: dict[str, Variable] = Field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    tool_choice: str | None = Field(default=None, description="auto, required, none, or the name of a tool")
    checks: tuple[Check, ...] = Field(default=(), description="added to the checks of every prompt")
    count: int | None = Field(default=None, gt=0, description="cases a round; one per prompt if left out")
    rounds: int | None = Field(default=None, gt=0, description="rounds; `--rounds` if left out")
    budget: int | Literal["short", "long"] = Field(
        default="short", description="output tokens: short is `--max-tokens`, long is `--long-max-tokens`, or a number"
    )
    sampling: Sampling = Sampling()
    template: dict[str, Any] = Field(
        default_factory=lambda: {"reasoning_effort": "low", "enable_thinking": True},
        description="chat_template_kwargs, sent explicitly so that /tokenize can be asked with the same",
    )
    cache: Literal["fresh", "warm", "shared", "none"] = Field(
        default="fresh",
        description="fresh: a salt of its own per request; warm: primed, then measured; shared: one salt a run; none: no salt",
    )
    stream: bool = True
    slo: dict[str, str] = Field(default_factory=dict, description="limits as in `--slo`, for example `ttft_p95: 2s`")

    @model_validator(mode="after")
    def _one_source(self) -> Scenario:
        sources = {"prompts": self.prompts, "file": self.file, "archive": self.archive, "mix": self.mix}
        given = [key for key, value in sources.items() if value]
        if len(given) != 1:
            raise ValueError(f"has {len(given)} of the keys prompts, file, archive and mix; give exactly one")
        if any(weight <= 0 for weight in self.mix.values()):
            raise ValueError("a weight in mix is above 0")
        return self

    @model_validator(mode="after")
    def _tools_exist(self) -> Scenario:
        known = {tool.name for tool in self.tools}
        choices = {self.tool_choice, *(prompt.tool_choice for prompt in self.prompts)} - {None, "auto", "required", "none"}
        used = {name for prompt in self.prompts for name in prompt.tools or ()} | {c for c in choices if c}
        if unknown := sorted(used - known):
            raise ValueError(f"uses the tool {unknown[0]!r}, which `tools` does not declare")
        return self
