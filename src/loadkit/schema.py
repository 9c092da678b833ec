"""Checked models of files that people write: an unknown key or a wrong value names file, key and remedy."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from loadkit.errors import UsageError

M = TypeVar("M", bound="Model")


class Model(BaseModel):
    """A frozen part of a file; keys that it does not know are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _only_known_keys(cls, data: Any) -> Any:
        """Found here rather than by `extra="forbid"`, because here the known keys are at hand for the remedy."""
        if isinstance(data, dict):
            known = [name for key, field in cls.model_fields.items() for name in {key, field.alias or key}]
            for key in data:
                if key not in known:
                    raise PydanticCustomError("unknown_key", "unknown key", {"key": str(key), "known": known})
        return data


def parse(model: type[M], data: Any, *, where: str) -> M:
    """`data` as a checked `model`.

    Raises:
        UsageError: the first mistake, with `where`, the dotted key and what to do.
    """
    if not isinstance(data, dict):
        raise UsageError(f"holds {_kind(data)} where keys with values are expected", where=where, remedy="write `key: value`")
    try:
        return model.model_validate(data)
    except ValidationError as mistakes:
        raise usage_error(mistakes, where) from None


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, in which no key stands twice.

    Raises:
        UsageError: the file can't be read, is no YAML, or repeats a key; the line is named.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"can't be read: {problem.strerror}", where=str(path), remedy="check the path") from problem
    except UnicodeDecodeError as problem:
        raise UsageError("is not UTF-8 text", where=str(path), remedy="save it as UTF-8") from problem
    try:
        return yaml.load(text, Loader=_Strict)
    except RecursionError:
        raise UsageError("is nested too deeply to be read", where=str(path), remedy="check its brackets") from None
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UsageError(f"is no valid YAML: {getattr(problem, 'problem', problem)}", where=place) from problem


class _Strict(yaml.SafeLoader):
    """YAML lets a repeated key overwrite the first in silence; here it is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def did_you_mean(word: str, known: list[str] | tuple[str, ...], *, else_say: str = "one of {known}") -> str:
    """A remedy: the closest known word, or the list of what there is."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else else_say.format(known=", ".join(sorted(known)))


def usage_error(mistakes: ValidationError, where: str, at: tuple[int | str, ...] = ()) -> UsageError:
    """The first mistake as one line; `at` is where the thing that was validated stands in the file."""
    first = mistakes.errors(include_url=False)[0]
    context: dict[str, Any] = dict(first.get("ctx") or {})
    key = dotted((*at, *first["loc"]))
    match first["type"]:
        case "unknown_key":
            key = f"{key}.{context['key']}" if key else context["key"]
            return UsageError("unknown key", where=where, key=key, remedy=did_you_mean(context["key"], context["known"]))
        case "union_tag_invalid":
            tags = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
            return UsageError(
                f"unknown value {context['tag']!r}", where=where, key=key, remedy=did_you_mean(context["tag"], tags)
            )
        case "union_tag_not_found":
            name = context["discriminator"].strip("'")
            return UsageError(f"has no key {name!r}", where=where, key=key, remedy=f"say which kind it is with `{name}: …`")
        case "missing":
            return UsageError("is missing", where=where, key=key, remedy="add it")
        case "literal_error":
            allowed = [word.strip(" '") for word in context["expected"].replace(" or ", ", ").split(",")]
            return UsageError(
                f"unknown value {first['input']!r}", where=where, key=key, remedy=did_you_mean(str(first["input"]), allowed)
            )
        case "value_error":
            return UsageError(str(context["error"]), where=where, key=key)
    return UsageError(f"{first['msg'][:1].lower()}{first['msg'][1:]}, not {first['input']!r}", where=where, key=key)


def dotted(place: tuple[int | str, ...]) -> str:
    """`prompts[0].text`; the tags that pydantic adds for unions are left out, as nobody wrote them."""
    text = ""
    for part, before in zip(place, (None, *place), strict=False):
        if isinstance(part, int):
            text += f"[{part}]"
        elif not (isinstance(before, int) and before is not None and part in _TAGS):
            text += f".{part}" if text else part
    return text


_TAGS = frozenset(["exact", "contains", "number", "regex", "answer_line", "json_schema", "tool_call", "language", "code"])
"""Values of a check's discriminator, which pydantic puts into the place of an error."""


def _kind(data: Any) -> str:
    return {list: "a list", str: "text", type(None): "nothing"}.get(type(data), f"a {type(data).__name__}")
