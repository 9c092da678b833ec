"""Masking: values of names that sound like credentials never reach a file, wherever they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"

_NAMES = re.compile(
    r"(?:api|access|auth|private|secret|signing|encryption|ssh|ssl|tls|hf|openai|anthropic)[_.-]?key"
    r"|(?:^|[_.-])keys?(?:$|[_.-])|apikey|secret|credential|authorization|cookie|passw(?:or)?d|passphrase|pass(?:$|[_.-])"
    r"|token(?!s|iz|[_.-]?(?:time|budget|len|count|id|limit|per|usage))",
    re.IGNORECASE,
)
_URL_USER = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@]+@")
_BEARER = re.compile(r"(?P<kind>\b(?:Bearer|Basic|Token)\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_KNOWN_KEY = re.compile(r"\b(?:sk|hf|ghp|gho|glpat|xox[abp]|nvapi)[-_][A-Za-z0-9_-]{8,}")
_HEADER = re.compile(r"^(?P<name>[A-Za-z][A-Za-z0-9_-]*)(?P<colon>\s*:\s*)(?P<value>.*)$", re.DOTALL)


def is_secret(name: str) -> bool:
    """Whether a name (environment variable, option, header, JSON key) sounds like a credential.

    `--max-num-batched-tokens`, `tokenizer` and `token_ids` do not; `HF_TOKEN`, `--api-key`, `X-Auth-Token` do.
    """
    return _NAMES.search(name.lstrip("-")) is not None


def masked_text(text: str) -> str:
    """Free text with user:password@ in URLs, bearer values and keys of known shapes masked."""
    text = _URL_USER.sub(rf"\g<scheme>{MASK}@", text)
    text = _BEARER.sub(rf"\g<kind>{MASK}", text)
    return _KNOWN_KEY.sub(MASK, text)


def masked(arguments: Iterable[str]) -> tuple[str, ...]:
    """Command-line arguments as they may be stored: `--api-key X`, `--api-key=X`, `KEY=X`, `-H 'Authorization: X'`, URLs.

    An option that sounds like a credential hides all values after it up to the next option (vLLM's `--api-key` takes several).
    """
    kept: list[str] = []
    hiding = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if argument.startswith("-"):
            hiding = is_secret(name) and not equals
            kept.append(f"{name}={MASK}" if equals and value and is_secret(name) else _header_or_text(argument))
        elif hiding:
            kept.append(MASK)
        elif equals and value and name.replace("_", "").isalnum() and is_secret(name):
            kept.append(f"{name}={MASK}")
        else:
            kept.append(_header_or_text(argument))
    return tuple(kept)


def masked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables (or headers) as they may be stored: values of secret names masked, an empty value stays empty."""
    return {name: (MASK if value and is_secret(name) else masked_text(value)) for name, value in environment.items()}


def masked_json(value: Any, name: str = "") -> Any:
    """The same for nested JSON (`docker inspect`, /server_info): by key, by `NAME=value` strings, and by shape."""
    if isinstance(value, Mapping):
        return {key: masked_json(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(item, str) for item in value) and not is_secret(name):
            return list(masked(value))
        return [masked_json(item, name) for item in value]
    if isinstance(value, str):
        return MASK if value and is_secret(name) else masked_text(value)
    return MASK if is_secret(name) and value is not None and not isinstance(value, bool) else value


def _header_or_text(argument: str) -> str:
    header = _HEADER.match(argument)
    if header and is_secret(header["name"]) and not header["value"].startswith("//"):
        return f"{header['name']}{header['colon']}{MASK}"
    return masked_text(argument)
