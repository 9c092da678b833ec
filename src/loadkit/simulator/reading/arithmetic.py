"""Sums: expressions that are written out, and short stories with numbers, in English or Chinese."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from loadkit.simulator.reading.finding import Finding, is_chinese

NUMBER = r"\d+(?:\.\d+)?"
EXPRESSION = re.compile(
    rf"(?<![A-Za-z0-9_.])\(*\s*-?{NUMBER}\s*\)*(?:\s*(?:[-+*/×÷x·]|\*\*)\s*\(*\s*{NUMBER}\s*\)*)+(?![A-Za-z0-9_])"
)
ASKS_SUM = re.compile(
    r"how many|how much|cost|total|altogether|together|left|remain|sum|product|一共|总共|多少|还剩|合计|几个", re.IGNORECASE
)
WORDS = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "multiplied by": "*",
    "divided by": "/",
    "乘以": "*",
    "除以": "/",
    "加上?": "+",
    "减去?": "-",
}
EACH = rf"(?:for|at|with|of|holding|containing|that cost) (?P<b>{NUMBER})(?: [\w'-]+){{0,3}}? (?:each|apiece|per)"
PRODUCTS = (
    re.compile(rf"(?P<a>{NUMBER}) [\w' -]{{2,30}}? {EACH}", re.IGNORECASE),
    re.compile(rf"(?P<a>{NUMBER}) [a-z]+ (?:of|with) (?P<b>{NUMBER})\b", re.IGNORECASE),
    re.compile(rf"(?P<a>{NUMBER})\s*[个只本张盒箱排行][^\d，。]{{1,12}}[，,]?每[^\d，。]{{1,6}}(?P<b>{NUMBER})"),
)
LESS = re.compile(
    r"(?:\b(?:takes?|took|gives?|gave|sells?|sold|loses?|lost|removes?d?|uses?d?|eats?|ate|breaks?|broke)\s+(?:away\s+)?"
    rf"|(?:拿走|取走|卖出|用掉|吃掉|送出)了?\s*)(?P<n>{NUMBER})",
    re.IGNORECASE,
)
MORE = re.compile(
    r"(?:\b(?:gets?|got|receives?d?|buys?|bought|adds?|added|finds?|found|brings?|brought)\s+"
    rf"|(?:又?买了?|收到|增加了?|放入)\s*)(?P<n>{NUMBER})",
    re.IGNORECASE,
)

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def find_sum(text: str, question: str) -> Finding | None:
    """The result that a question asks for; numbers may stand in earlier turns (`text`), the question last."""
    written = expression_in(question)
    if written is not None:
        return _finding(written[1], f"{written[0]} = {{value}}")
    if not ASKS_SUM.search(question):
        return None
    result = story_result(question)
    if result is None:
        result = story_result(text)
    if result is None:
        return None
    value, how = result
    sentence = (
        f"计算如下：{how}，结果是{{value}}。" if is_chinese(question) else f"We work it out as {how}. That gives {{value}}."
    )
    return _finding(value, sentence)


def expression_in(question: str) -> tuple[str, float] | None:
    """The last arithmetic expression, as it is written and its value."""
    plain = question
    for word, sign in WORDS.items():
        plain = re.sub(rf"(?<=[\d\s])\s*{word}\s*(?=[\d\s])", f" {sign} ", plain)
    for match in reversed(list(EXPRESSION.finditer(plain))):
        shown = " ".join(match[0].split())
        if re.fullmatch(r"\d{4}-\d{1,2}(-\d{1,2})?", shown):
            continue  # a date
        value = evaluate(shown.replace("×", "*").replace("·", "*").replace("x", "*").replace("÷", "/"))
        if value is not None:
            return shown, value
    return None


def evaluate(expression: str) -> float | None:
    """The value of + - * / on numbers; `None` if it is anything else."""
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, ValueError):
        return None


def story_result(story: str) -> tuple[float, str] | None:
    """A product ("12 boxes with 10 maps each") and what is then taken or added; the result, and how it came about."""
    for form in PRODUCTS:
        matches = list(form.finditer(story))
        if not matches:
            continue
        match = matches[-1]
        a, b = float(match["a"]), float(match["b"])
        value, how = a * b, f"{plain(a)} × {plain(b)} = {plain(a * b)}"
        for change, sign in ((LESS, -1), (MORE, 1)):
            for step in change.finditer(story, match.end()):
                amount = float(step["n"])
                how += f", then {plain(value)} {'-' if sign < 0 else '+'} {plain(amount)} = {plain(value + sign * amount)}"
                value += sign * amount
        return value, how
    return None


def plain(value: float) -> str:
    """A number as one writes it: whole ones without a point."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def _finding(value: float, sentence: str) -> Finding:
    slips = (value + 1, value - 10, value * 10)
    return Finding(value=plain(value), sentence=sentence, others=tuple(plain(slip) for slip in slips))


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("not arithmetic")
