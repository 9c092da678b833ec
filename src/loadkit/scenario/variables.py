"""Variables of a prompt: drawn with a seed, put into texts and checks."""

from __future__ import annotations

import ast
import operator
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from loadkit.scenario.schema import Variable

CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Capital letters and digits that nobody mistakes for each other (no I, O, 0, 1): 5 bits each."""

_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*(?:\.\w+)?)\}")

_OPERATIONS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max}


def draw(variables: Mapping[str, Variable], rng: random.Random) -> dict[str, Any]:
    """A value for each variable; formulas come after those they use, in the order of the file.

    Raises:
        ValueError: a formula uses something that is no number, variable or allowed operation.
    """
    values: dict[str, Any] = {}
    for name, variable in variables.items():
        if variable.of is not None:
            values[name] = rng.choice(variable.of)
        elif variable.range is not None:
            values[name] = rng.randint(*variable.range)
        elif variable.code is not None:
            values[name] = "".join(rng.choices(CODE_LETTERS, k=variable.code))
        elif variable.formula is not None:
            values[name] = evaluate(variable.formula, values)
    return values


def fill(thing: Any, values: Mapping[str, Any]) -> Any:
    """Texts inside `thing` (text, list or mapping) with their `{name}` places filled; a text that is one place keeps its type.

    Raises:
        KeyError: a place names a variable that does not exist.
    """
    if isinstance(thing, str):
        whole = _PLACE.fullmatch(thing)
        if whole and whole[1]:
            return look_up(whole[1], values)
        return _PLACE.sub(lambda place: str(look_up(place[1], values)) if place[1] else place[0][0], thing)
    if isinstance(thing, Mapping):
        return {key: fill(value, values) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [fill(value, values) for value in thing]
    return thing


def look_up(path: str, values: Mapping[str, Any]) -> Any:
    """The value of `name` or `name.key`."""
    name, _, key = path.partition(".")
    value = values[name]
    return value[key] if key else value


def evaluate(formula: str, values: Mapping[str, Any]) -> Any:
    """The value of an arithmetic formula; nothing but numbers, variables, + - * // %, min and max is understood."""
    return _value(ast.parse(formula, mode="eval").body, values)


def _value(node: ast.AST, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.Attribute(value=ast.Name(id=name), attr=key):
            return values[name][key]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left, values), _value(right, values))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(operand, values))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(arg, values) for arg in args))
    raise ValueError(f"{ast.unparse(node)!r} is not understood in a formula; use numbers, variables, + - * // %, min, max")
