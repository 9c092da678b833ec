"""What people read, in English and Chinese: the English sentence is the key, as in gettext.

The language comes from `LOADKIT_LANG` (en, zh), else from the browser where there is one, else from `LC_ALL` and `LANG`, else
it is English. The Chinese sentences stand in `assets/chinese.json`; placeholders in braces are the same on both sides.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

Language = Literal["en", "zh"]

_SIGNS = re.compile(r"( · | → |, |; |: | ?\(|\))")
_NUMBER = re.compile(r"[+-]?\d[\d.:/]*(?: (?:%|ms|s|GiB|MiB|tok/s)(?![a-z]))?")


def language_of(environ: Mapping[str, str] = os.environ) -> Language:
    """The reader's language; a value of `LOADKIT_LANG` that is no known language counts as English."""
    for name in ("LOADKIT_LANG", "LC_ALL", "LANG"):
        value = environ.get(name, "")
        if value:
            return _known(value)
    return "en"


def language_of_browser(accept_language: str, environ: Mapping[str, str] = os.environ) -> Language:
    """The language of a page for a browser that sent this `Accept-Language` header."""
    if environ.get("LOADKIT_LANG") or not accept_language.strip():
        return language_of(environ)
    first = min(accept_language.split(","), key=_rank)
    return _known(first)


def say(sentence: str, language: Language | None = None, /, **values: object) -> str:
    """The sentence in the reader's language, placeholders filled; English where no translation is known."""
    spoken = language_of() if language is None else language
    template = table(spoken).get(sentence, sentence)
    return template.format(**values) if values else template


def gloss(text: str, language: Language | None = None, /) -> str:
    """A line that was put together from known phrases (a headline, a reason), phrase by phrase.

    Phrases are what stands between the signs ` · `, ` → `, `, `, `; `, `: ` and brackets; numbers in them are placeholders,
    so that "3 wrong" is looked up as "{} wrong"; a `*` in a key stands for a name.
    """
    spoken = language_of() if language is None else language
    if spoken == "en":
        return text
    return "".join(_phrase(part, table(spoken)) for part in _SIGNS.split(text))


def _phrase(text: str, known: Mapping[str, str]) -> str:
    bare = text.strip()
    spoken = known.get(bare) or _with_numbers(bare, known) or _with_name(bare, known)
    return text.replace(bare, spoken) if bare and spoken else text


def _with_numbers(text: str, known: Mapping[str, str]) -> str | None:
    template = known.get(_NUMBER.sub("{}", text))
    return None if template is None else template.format(*_NUMBER.findall(text))


def _with_name(text: str, known: Mapping[str, str]) -> str | None:
    """A phrase around one name: the key's `*` stands for it ("kernel killed *")."""
    for key, template in known.items():
        before, star, after = key.partition("*")
        if star and text.startswith(before) and text.endswith(after) and len(text) > len(key) - 1:
            return template.replace("*", text[len(before) : len(text) - len(after)])
    return None


@cache
def table(language: Language) -> Mapping[str, str]:
    """English sentence → sentence in `language`; empty for English."""
    if language == "en":
        return {}
    found: dict[str, str] = json.loads(files("loadkit").joinpath("assets/chinese.json").read_text(encoding="utf-8"))
    return found


def _known(value: str) -> Language:
    return "zh" if value.strip().lower().startswith("zh") else "en"


def _rank(choice: str) -> float:
    """Browsers put the best first, or give weights: `zh-CN,zh;q=0.9,en;q=0.8`."""
    _, _, quality = choice.partition(";q=")
    try:
        return -float(quality or 1)
    except ValueError:
        return 0.0
