"""Which tool to call, and with what: arguments are taken from the text by their schema."""

from __future__ import annotations

import re
from typing import Any

import orjson

WORD = re.compile(r"[a-z]{3,}|[一-鿿]")
DATE = re.compile(r"\b(\d{4}-\d{2}-\d{2})\b")
CLOCK = re.compile(r"\b(?P<hour>\d{1,2})(?::\d{2})?\s*(?:o'clock|o’clock|h\b|uhr|点|:00|am\b|pm\b)", re.IGNORECASE)
QUOTED = re.compile(r"[\"“「]([^\"”」]+)[\"”」]")
PLACE = re.compile(r"\b(?:in|at|for|from|to|of)\s+((?:[A-Z][\w'-]+)(?:\s+[A-Z][\w'-]+)*)")
CHINESE_PLACE = re.compile(r"(?:在|查询|查一?下|看看)?([一-鿿]{2,4}?)(?:市)?(?:今天|明天|现在|的?天气|的?时间|的?气温)")
NAME = re.compile(r"\b[A-Z][\w'-]+\b")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
STEMS = 5
KINDRED = {
    "weather": "warm cold hot temperature rain sunny forecast degrees wind snow umbrella 天气 气温",
    "time": "clock late hour o'clock 时间 几点",
    "calendar": "event appointment schedule remind meeting diary 日历 日程",
    "event": "calendar appointment meeting 日程",
    "email": "mail message write send 邮件",
    "search": "find look lookup google web 搜索 查找",
    "calculator": "compute calculate sum multiply plus minus 计算",
    "stock": "share price ticker quote 股票",
}


def choose_tool(tools: tuple[dict[str, Any], ...], text: str, *, must: bool) -> dict[str, Any] | None:
    """The tool that the text is about; `None` if none is and none has to be called."""
    scored = [(relevance(tool, text), -place, tool) for place, tool in enumerate(tools)]
    best = max(scored, key=lambda entry: entry[:2])
    return best[2] if best[0] > 0 or must else None


def relevance(tool: dict[str, Any], text: str) -> int:
    """How many words of the tool (name, description, enumerated values) the text has, kindred words included."""
    function = tool.get("function", {})
    words = f"{function.get('name', '')} {function.get('description') or ''}".replace("_", " ").lower()
    for schema in properties_of(tool).values():
        words += " " + " ".join(str(value).lower() for value in schema.get("enum", []))
    for topic, kindred in KINDRED.items():
        if topic in words:
            words += " " + kindred
    known = {word[:STEMS] for word in WORD.findall(words)} - COMMON
    return len(known & {word[:STEMS] for word in WORD.findall(text.lower())})


COMMON = {
    word[:STEMS]
    for word in [
        "the",
        "and",
        "for",
        "with",
        "returns",
        "return",
        "current",
        "gets",
        "get",
        "adds",
        "add",
        "sets",
        "into",
        "from",
        "city",
        "name",
        "date",
        "local",
    ]
}


def properties_of(tool: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The arguments that a tool has, by name."""
    parameters = tool.get("function", {}).get("parameters") or {}
    properties: dict[str, dict[str, Any]] = parameters.get("properties") or {}
    return properties


def arguments_for(tool: dict[str, Any], text: str) -> str:
    """JSON of the arguments: what the schema requires, and what else the text gives."""
    parameters = tool.get("function", {}).get("parameters") or {}
    return orjson.dumps(filled(parameters, text)).decode()


def filled(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """An object by its schema, with values from the text; optional ones only where the text has them."""
    required = schema.get("required") or []
    used: list[str] = []
    values: dict[str, Any] = {}
    for name, part in (schema.get("properties") or {}).items():
        value = found_value(name, part, text, used)
        if value is None and name in required:
            value = default_of(part)
        if value is not None:
            values[name] = value
            used.append(str(value))
    return values


def found_value(name: str, schema: dict[str, Any], text: str, used: list[str]) -> Any:
    """The text's value for one property; `None` where it has none."""
    kind = schema.get("type")
    if "enum" in schema:
        mentioned = [value for value in schema["enum"] if str(value).lower() in text.lower()]
        return mentioned[0] if mentioned else None
    if "const" in schema:
        return schema["const"]
    if kind in ("integer", "number"):
        return _number(name, kind, text, used)
    if kind == "boolean":
        return True if name.replace("_", " ") in text.lower() else None
    if kind == "array":
        return list(QUOTED.findall(text)) or None
    if kind == "object":
        return filled(schema, text) or None
    return _text(name, schema, text, used)


def default_of(schema: dict[str, Any]) -> Any:
    """A value that is valid where the text has none."""
    if "enum" in schema:
        return schema["enum"][0]
    kinds: dict[str, Any] = {"integer": 1, "number": 1.0, "boolean": False, "array": [], "object": {}}
    kind = schema.get("type", "string")
    if kind in ("integer", "number"):
        return schema.get("minimum", kinds[kind])
    return kinds.get(kind, "unknown")


def _number(name: str, kind: str, text: str, used: list[str]) -> Any:
    if "hour" in name or "time" in name:
        clock = CLOCK.search(text)
        if clock:
            return int(clock["hour"])
    near = re.search(rf"{name.replace('_', ' ')}\D{{0,12}}(-?\d+(?:\.\d+)?)", text, re.IGNORECASE)
    rest = DATE.sub(" ", text)
    candidates = [near[1]] if near else [number for number in NUMBER.findall(rest) if number not in used]
    if not candidates:
        return None
    return int(float(candidates[0])) if kind == "integer" else float(candidates[0])


def _text(name: str, schema: dict[str, Any], text: str, used: list[str]) -> str | None:
    described = f"{name} {schema.get('description', '')}".lower()
    if "yyyy" in described or "date" in name or name == "day":
        dated = DATE.search(text)
        if dated:
            return dated[1]
    quoted: list[str] = [part for part in QUOTED.findall(text) if part not in used]
    if quoted:
        return quoted[0]
    if any(word in described for word in ("city", "place", "location", "country", "town", "城市", "地点")):
        places: list[str] = [part for part in [*PLACE.findall(text), *CHINESE_PLACE.findall(text)] if part not in used]
        if places:
            return places[0]
    if any(word in described for word in ("expression", "formula")):
        from loadkit.simulator.reading.arithmetic import expression_in

        written = expression_in(text)
        if written:
            return written[0]
    names: list[str] = [word for word in NAME.findall(text)[1:] if word not in used]
    return names[0] if names else None
