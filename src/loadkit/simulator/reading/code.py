"""Small programs that people ask for: the function's name and arguments from the text, the body from a set that works."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from loadkit.simulator.reading.programs import TOPICS

SIGNATURE = re.compile(
    r"(?:function\s+(?:named\s+|called\s+)?|函数\s*)`?(?P<name>[A-Za-z_]\w*)`?\s*[(（](?P<arguments>[^)）]*)[)）]"
)
NAMED = re.compile(r"(?:function\s+(?:named|called)\s+|名为\s*|叫做?\s*)`?(?P<name>[A-Za-z_]\w*)")
WANTED = re.compile(
    r"\b(?:write|implement|give|create|define)\b[^.?]*\b(?:function|program|code|method|script)\b|写[^。]*(?:函数|程序|代码)",
    re.IGNORECASE,
)


def find_code(question: str) -> str | None:
    """A Python code block with the function that is asked for; `None` where no program is asked for, or an unknown one."""
    if not WANTED.search(question):
        return None
    program = program_for(question)
    if program is None:
        return None
    usual = list(inspect.signature(program).parameters)
    name, arguments = signature_in(question, program.__name__, len(usual))
    source = re.sub(rf"def {program.__name__}\(", f"def {name}(", inspect.getsource(program), count=1)
    for placeholder, argument in zip(usual, arguments, strict=True):
        source = source.replace(placeholder, argument)
    return f"```python\n{source.strip()}\n```"


def program_for(question: str) -> Callable[..., Any] | None:
    """The program that is asked for: by the function's name first, then by the words around it."""
    match = SIGNATURE.search(question) or NAMED.search(question)
    for text in (match["name"].lower() if match else "", question.lower()):
        for words, program in TOPICS.items():
            if words in text:
                return program
    return None


def signature_in(question: str, default: str, count: int) -> tuple[str, list[str]]:
    """Name and `count` arguments as the question gives them, else usual ones."""
    usual = ["value", "other"][:count]
    match = SIGNATURE.search(question)
    if match is None:
        named = NAMED.search(question)
        return named["name"] if named else default, usual
    given = [part.split(":")[0].split("=")[0].strip() for part in match["arguments"].split(",") if part.strip()]
    return match["name"], given if len(given) == count else usual
