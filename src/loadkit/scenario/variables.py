"""Variables of a prompt: drawn with a seed, put into texts and checks."""

from __future__ import annotations

import ast
import operator
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from loadkit.scenario.schema import Variable
from loadkit.schema import did_you_mean

Place = tuple[str | int, ...]
"""Where something stands in a file: keys and positions, outermost first."""

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
_UNDERSTOOD = "use numbers, variables, + - * // %, min, max"
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max}


class Mistake(ValueError):
    """A variable or a place for one is wrong: what, where under the thing that was handed in, and what to do."""

    def __init__(self, problem: str, *, at: Place = (), remedy: str | None = None):
        super().__init__(problem)
        self.problem = problem
        self.at = at
        self.remedy = remedy


def draw(variables: Mapping[str, Variable], rng: random.Random) -> dict[str, Any]:
    """A value for each variable; formulas come after those they use, in the order of the file.

    Raises:
        Mistake: a formula uses something that is no number, variable or allowed operation; its place begins with the name.
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
            try:
                values[name] = evaluate(variable.formula, values)
            except Mistake as mistake:
                raise Mistake(mistake.problem, at=(name, "formula"), remedy=mistake.remedy) from None
    return values


def fill(thing: Any, values: Mapping[str, Any], at: Place = ()) -> Any:
    """Texts inside `thing` (text, list or mapping) with their `{name}` places filled; a text that is one place keeps its type.

    Raises:
        Mistake: a place names a variable that does not exist; it tells `at` and where in `thing`.
    """
    if isinstance(thing, str):
        whole = _PLACE.fullmatch(thing)
        if whole and whole[1]:
            return look_up(whole[1], values, at)
        return _PLACE.sub(lambda place: _words(place[1], values, at) if place[1] else place[0][0], thing)
    if isinstance(thing, Mapping):
        return {key: fill(value, values, (*at, key)) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [fill(value, values, (*at, number)) for number, value in enumerate(thing)]
    return thing


def _words(path: str, values: Mapping[str, Any], at: Place) -> str:
    value = look_up(path, values, at)
    if isinstance(value, Mapping):
        one = next(iter(value), "key")
        raise Mistake(f"{{{path}}} has several values", at=at, remedy=f"name one of them, as in {{{path}.{one}}}")
    return str(value)


def look_up(path: str, values: Mapping[str, Any], at: Place = ()) -> Any:
    """The value of `name` or `name.key`.

    Raises:
        Mistake: there is no such variable, or it has no such key.
    """
    name, _, key = path.partition(".")
    if name not in values:
        literal = "declare it in variables, or write {{{{name}}}} for the text {{name}}"
        raise Mistake(f"there is no variable {name!r}", at=at, remedy=did_you_mean(name, list(values), else_say=literal))
    value = values[name]
    if not key:
        return value
    if not isinstance(value, Mapping):
        raise Mistake(f"variable {name!r} is {value!r} and has no keys", at=at, remedy=f"write {{{name}}}")
    if key not in value:
        raise Mistake(f"variable {name!r} has no {key!r} in {dict(value)!r}", at=at, remedy=did_you_mean(key, list(value)))
    return value[key]


def evaluate(formula: str, values: Mapping[str, Any]) -> Any:
    """The value of an arithmetic formula; nothing but numbers, variables, + - * // %, min and max is understood.

    Raises:
        Mistake: it is no such formula, a variable is missing or no number, or it divides by nought.
    """
    try:
        return _value(ast.parse(formula, mode="eval").body, values)
    except SyntaxError:
        raise Mistake(f"{formula!r} is no formula", remedy=_UNDERSTOOD) from None
    except ZeroDivisionError:
        raise Mistake(f"{formula!r} divides by nought, with {dict(values)!r}") from None


def _value(node: ast.AST, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return _number(name, values)
        case ast.Attribute(value=ast.Name(id=name), attr=key):
            return _number(f"{name}.{key}", values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left, values), _value(right, values))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(operand, values))
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_] as args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(arg, values) for arg in args))
    raise Mistake(f"{ast.unparse(node)!r} is not understood in a formula", remedy=_UNDERSTOOD)


def _number(path: str, values: Mapping[str, Any]) -> Any:
    value = look_up(path, values)
    if not isinstance(value, int | float):
        raise Mistake(f"{path!r} is {value!r}, and a formula needs a number")
    return value
