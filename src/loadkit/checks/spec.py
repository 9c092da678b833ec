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
    value: str
    ignore_case: bool = False


class Contains(Model):
    """The answer holds all of `all`, at least one of `any` (if given), and none of `none`."""

    check: Literal["contains"]
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    ignore_case: bool = True


class Number(Model):
    """The last number of the answer is `value`, give or take `tolerance`; thousands separators are understood."""

    check: Literal["number"]
    value: float | str
    tolerance: float = 0.0

    @field_validator("value")
    @classmethod
    def _number_or_template(cls, value: float | str) -> float | str:
        if isinstance(value, str) and "{" not in value:
            return float(value)
        return value


class Regex(Model):
    """The pattern is found somewhere in the answer (`re.search`, `^` and `$` match at lines)."""

    check: Literal["regex"]
    pattern: str

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
    value: str
    distractors: tuple[Distractor, ...] = ()
    absent: bool = False
    ignore_case: bool = True


class JSONSchema(Model):
    """The answer is JSON (a code fence around it is allowed) and valid against `schema`."""

    check: Literal["json_schema"]
    json_schema: dict[str, Any] = Field(alias="schema")
    equals: Any = None


class ToolCallCheck(Model):
    """The answer calls exactly `count` tools; the one that is asked for has `name` and the expected argument values.

    Arguments have to be valid against the parameters' schema of the tool as the request declared it (`schema`, filled in
    from the scenario's tools), and every value in `arguments` has to be there. Texts are compared without case.
    """

    check: Literal["tool_call"]
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    parameters: dict[str, Any] | None = Field(default=None, alias="schema")
    count: int = 1


class LanguageCheck(Model):
    """At least `share` of the letters of the answer belong to the language's script."""

    check: Literal["language"]
    language: Literal["zh", "en"]
    share: float = 0.5


class Code(Model):
    """The answer holds Python that parses and defines every name in `defines`; its arguments are checked if given."""

    check: Literal["code"]
    defines: Words
    arguments: tuple[str, ...] | None = None
    language: Literal["python"] = "python"


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
