"""What a right answer is, as data: one model per kind of check, told apart by the key `check`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, field_validator

from loadkit.schema import Model

Words = str | tuple[str, ...]


class Exact(Model):
    """The whole answer, without space around it, is `value`."""

    check: Literal["exact"]
    value: str = Field(description="the answer")
    ignore_case: bool = Field(default=False, description="capital letters don't count")


class Contains(Model):
    """The answer holds all of `all`, at least one of `any` (if given), and none of `none`."""

    check: Literal["contains"]
    all: tuple[str, ...] = Field(default=(), description="each of these")
    any: tuple[str, ...] = Field(default=(), description="at least one of these")
    none: tuple[str, ...] = Field(default=(), description="none of these; beside a right text it is a hedge")
    ignore_case: bool = Field(default=True, description="capital letters don't count")


class Number(Model):
    """The last number of the answer is `value`, give or take `tolerance`; thousands separators are understood."""

    check: Literal["number"]
    value: float | str = Field(description="the number, or a place for a variable")
    tolerance: float = Field(default=0.0, ge=0, description="how far off is still right")

    @field_validator("value")
    @classmethod
    def _number_or_template(cls, value: float | str) -> float | str:
        if isinstance(value, str) and "{" not in value:
            return float(value)
        return value


class Regex(Model):
    """The pattern is found somewhere in the answer (`re.search`, `^` and `$` match at lines)."""

    check: Literal["regex"]
    pattern: str = Field(description="a regular expression of Python's")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as problem:
            raise ValueError(f"is no regular expression: {problem}") from problem
        return pattern


class Distractor(Model):
    """A value that stands in the prompt and looks right, but is not; `depth` says where it stands (0 to 1)."""

    value: str
    depth: float | None = None


class AnswerLine(Model):
    """The last line reads `ANSWER: <value>`, and no other line of that form contradicts it.

    `absent` says that the right answer is that there is none (`value` is then the word for it).
    """

    check: Literal["answer_line"]
    value: str = Field(description="a number, a code or a word")
    distractors: tuple[Distractor, ...] = Field(default=(), description="values of near-duplicates: `value` and `depth`")
    absent: bool = Field(default=False, description="the right answer is that there is none")
    ignore_case: bool = Field(default=True, description="capital letters don't count")


class JSONSchema(Model):
    """The answer is JSON (a code fence around it is allowed) and valid against `schema`."""

    check: Literal["json_schema"]
    json_schema: dict[str, Any] = Field(alias="schema", description="JSON schema, draft 2020-12")
    equals: Any = Field(default=None, description="the whole value, where it is known")


class ToolCallCheck(Model):
    """The answer calls exactly `count` tools; the one that is asked for has `name` and the expected argument values.

    Arguments have to be valid against the parameters' schema of the tool as the request declared it (`schema`, filled in
    from the scenario's tools), and every value in `arguments` has to be there. Texts are compared without case.
    """

    check: Literal["tool_call"]
    name: str = Field(description="the tool that is to be called")
    arguments: dict[str, Any] = Field(default_factory=dict, description="values that have to be there")
    parameters: dict[str, Any] | None = Field(
        default=None, alias="schema", description="of the arguments; the tool's own if left out"
    )
    count: int = Field(default=1, gt=0, description="calls in all")


class LanguageCheck(Model):
    """At least `share` of the letters of the answer belong to the language's script."""

    check: Literal["language"]
    language: Literal["zh", "en"] = Field(description="Chinese or English")
    share: float = Field(default=0.5, gt=0, le=1, description="of the letters outside code blocks")


class Code(Model):
    """The answer holds Python that parses and defines every name in `defines`; its arguments are checked if given."""

    check: Literal["code"]
    defines: Words = Field(description="one name or several, at the top level")
    arguments: tuple[str, ...] | None = Field(default=None, description="names of the arguments of the first one")
    language: Literal["python"] = Field(default="python", description="of the code")


Check = Annotated[
    Exact | Contains | Number | Regex | AnswerLine | JSONSchema | ToolCallCheck | LanguageCheck | Code,
    Field(discriminator="check"),
]
"""One check of a scenario file."""

CHECKS: tuple[type[Model], ...] = (
    Exact, Contains, Number, Regex, AnswerLine, JSONSchema, ToolCallCheck, LanguageCheck, Code,
)  # fmt: skip

ADAPTER: TypeAdapter[Any] = TypeAdapter(Check)
"""Reads a check from a plain JSON object."""


def plain(check: Model) -> dict[str, Any]:
    """The JSON object that travels with a request."""
    return check.model_dump(mode="json", by_alias=True, exclude_defaults=True)
