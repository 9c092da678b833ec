"""The form of a scenario file. docs/reference/scenarios.md is made from these models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from loadkit.checks.spec import Check
from loadkit.schema import Model

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Names enter request ids and HTTP headers, so they keep to ASCII letters, digits, dot, dash and underscore."""


class Sampling(Model):
    """How the server draws tokens; `seed` left out takes `--sampling-seed`. `extra` goes into the body as it is."""

    temperature: float | None = Field(default=0.0, ge=0, description="0 is greedy; `null` leaves it to the server")
    seed: int | None = Field(default=None, description="sent with each request; `--sampling-seed` if left out")
    top_p: float | None = Field(default=None, gt=0, le=1, description="as in the OpenAI API; not sent if left out")
    top_k: int | None = Field(default=None, description="as vLLM has it; not sent if left out")
    min_p: float | None = Field(default=None, description="as vLLM has it (not with speculative decoding there)")
    presence_penalty: float | None = Field(default=None, description="as in the OpenAI API; not sent if left out")
    frequency_penalty: float | None = Field(default=None, description="as in the OpenAI API; not sent if left out")
    stop: tuple[str, ...] = Field(default=(), description="texts that end an answer")
    extra: dict[str, Any] = Field(default_factory=dict, description="any other fields of the request body")


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

    role: Literal["system", "user", "assistant"] = Field(description="who says it")
    content: str = Field(description="what is said")


class TurnFile(Model):
    """One turn of a conversation: what the user says, or which results the called tools give back."""

    text: str | None = Field(default=None, description="what the user says")
    tool_results: dict[str, str] = Field(default_factory=dict, description="what each tool gives back, by its name")
    checks: tuple[Check, ...] = Field(default=(), description="of the answer to this turn")
    max_tokens: int | None = Field(default=None, gt=0, description="budget of this turn, where it differs")

    @model_validator(mode="after")
    def _says_something(self) -> TurnFile:
        if self.text is None and not self.tool_results:
            raise ValueError("a turn has a text or tool_results")
        return self


class Prompt(Model):
    """One thing to ask: a `text`, whole `messages`, or `turns` of a conversation. `{name}` is a variable, `{{name}}` is not."""

    name: Name | None = Field(default=None, description="enters the names of its cases")
    text: str | None = Field(default=None, description="one user message")
    messages: tuple[Message, ...] = Field(default=(), description="a conversation so far, ending with what is asked")
    turns: tuple[TurnFile, ...] = Field(default=(), description="a conversation that the model takes part in, turn by turn")
    variables: dict[str, Variable] = Field(default_factory=dict, description="added to the scenario's")
    tools: tuple[str, ...] | None = Field(default=None, description="names of the scenario's tools; all of them if left out")
    tool_choice: str | None = Field(default=None, description="the scenario's if left out")
    checks: tuple[Check, ...] = Field(default=(), description="what a right answer is")
    max_tokens: int | None = Field(default=None, gt=0, description="budget, where it differs from the scenario's")

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

    path: str = Field(description="the JSONL file, beside the scenario file")
    form: Literal["plain", "chat", "sharegpt"] = Field(default="plain", description="what a line looks like")
    sample: int | None = Field(default=None, gt=0, description="draw so many lines by seed; all, in order, if left out")


class Tool(Model):
    """A function that the model may call, as the OpenAI API declares it."""

    name: Name = Field(description="what the model calls")
    description: str = Field(description="what it does; the model reads this")
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}, description="JSON schema of the arguments"
    )
    strict: bool = Field(default=True, description="vLLM keeps arguments to the schema only where this is set")


class Archive(Model):
    """Long documents that are generated and fitted to an exact token count.

    `rungs_k` are prompt lengths in units of 1024 tokens; a rung is min(K·1024, max_model_len − budget − 128). `questions` are
    asked in this order about each document: a depth (front, middle, back), or `absent` for a key that is not there.
    """

    kind: Literal["retrieval", "prefix"] = Field(
        default="retrieval", description="prefix asks each question once more cold, so that answers can be compared"
    )
    language: Literal["en", "zh"] = Field(default="en", description="of records and questions")
    rungs_k: tuple[float, ...] = Field(
        default=(8, 32, 64, 96, 128, 160, 192, 224, 256), min_length=1, description="lengths; `--rungs` if given"
    )
    documents: int = Field(default=2, gt=0, description="documents a length")
    depths: dict[str, float] = Field(
        default_factory=lambda: {"front": 0.05, "middle": 0.5, "back": 0.95},
        description="where the records that are asked for stand, as shares of the document's tokens",
    )
    questions: tuple[str, ...] = Field(
        default=("front", "middle", "back", "front", "absent"), description="in the order in which they are asked"
    )
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

    name: Name = Field(description="the file's name without `.yaml`")
    title: str = Field(default="", description="heads tables")
    about: str = Field(default="", description="for people who choose a scenario")
    workload: Literal["speed", "quality"] = Field(
        default="quality", description="quality: natural stop, answers checked; speed: fixed output length, no checks"
    )
    system: str | None = Field(default=None, description="a system message before every conversation")
    prompts: tuple[Prompt, ...] = Field(default=(), description="what is asked, in turn")
    file: File | None = Field(default=None, description="prompts from a file of your own")
    archive: Archive | None = Field(default=None, description="long documents, generated")
    mix: dict[str, float] = Field(default_factory=dict, description="other scenarios with their weights")
    variables: dict[str, Variable] = Field(default_factory=dict, description="drawn anew for each case, with the plan's seed")
    tools: tuple[Tool, ...] = Field(default=(), description="functions that the model may call")
    tool_choice: str | None = Field(default=None, description="auto, required, none, or the name of a tool")
    checks: tuple[Check, ...] = Field(default=(), description="added to the checks of every prompt")
    count: int | None = Field(default=None, gt=0, description="cases a round; one per prompt if left out")
    rounds: int | None = Field(default=None, gt=0, description="rounds; `--rounds` if left out")
    budget: int | Literal["short", "long"] = Field(
        default="short", description="output tokens: short is `--max-tokens`, long is `--long-max-tokens`, or a number"
    )
    sampling: Sampling = Field(default=Sampling(), description="how the server draws tokens")
    template: dict[str, Any] = Field(
        default_factory=lambda: {"reasoning_effort": "low", "enable_thinking": True},
        description="chat_template_kwargs, sent explicitly so that /tokenize can be asked with the same",
    )
    cache: Literal["fresh", "warm", "shared", "none"] = Field(
        default="fresh",
        description="fresh: a salt of its own per request; warm: primed, then measured; shared: one salt a run; none: no salt",
    )
    stream: bool = Field(default=True, description="without streaming there is no TTFT and no TPOT")
    slo: dict[str, str] = Field(default_factory=dict, description="limits as in `--slo`, for example `ttft_p95: 2s`")

    _path: str | None = PrivateAttr(default=None)

    @property
    def where(self) -> str:
        """What a mistake is charged to: the file that it was read from, if there is one."""
        return self._path or f"scenario {self.name}"

    def read_from(self, path: str) -> Scenario:
        """The same, knowing its file."""
        known = self.model_copy()
        known._path = path
        return known

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
