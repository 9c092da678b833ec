"""What people read, in English and Chinese: the English sentence is the key, as in gettext.

The language comes from `LOADKIT_LANG` (en, zh), else from `LC_ALL` and `LANG`, else English.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

Language = Literal["en", "zh"]

CHINESE: dict[str, str] = {}
"""English sentence → Chinese sentence; placeholders in braces are the same on both sides."""


def language_of(environ: Mapping[str, str] = os.environ) -> Language:
    """The reader's language; a value of `LOADKIT_LANG` that is no known language counts as English."""
    for name in ("LOADKIT_LANG", "LC_ALL", "LANG"):
        value = environ.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def say(sentence: str, language: Language | None = None, /, **values: object) -> str:
    """The sentence in the reader's language, placeholders filled; English where no translation is known."""
    spoken = language_of() if language is None else language
    template = CHINESE.get(sentence, sentence) if spoken == "zh" else sentence
    return template.format(**values) if values else template
