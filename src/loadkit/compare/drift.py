"""What differs between runs besides the declared factor: an A/B where two things changed answers no question."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from loadkit.compare.launch import Side, facts
from loadkit.run_folder import Run

OWN_OPTIONS = frozenset(
    {
        *("label", "host", "run_dir", "scenarios", "locustfile", "inputs", "container"),
        *("csv", "csv_prefix", "html", "html_file", "json", "json_file", "junit", "logfile", "loglevel"),
        *("sidecar", "headless", "only_summary", "progress", "web_port", "web_host", "autostart", "autoquit"),
    }
)
"""Options of a run that say where it writes or how it is watched, not what it asks."""

FOLLOWS_FROM_ARGUMENTS = ("server.system_fingerprint", "server.cache_config")
"""Derived from the server's arguments: a difference here is the declared factor's own trace, where one was declared."""

ASKED = "asked."
UNKNOWN = "unknown"
"""Stands for a fact that one run knows and another does not: what can't be seen can't be shown to be equal."""

ANYWHERE = ("server.arguments.port", "server.arguments.host", "server.arguments.uds", "server.arguments.api_key")
"""Arguments of a server that say where it listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that is not the same everywhere. `of_a` and `of_b` are the values seen on each side, as short text."""

    key: str
    of_a: str
    of_b: str

    @property
    def within_a_side(self) -> bool:
        """Launches of one side differ among themselves."""
        return " | " in self.of_a or " | " in self.of_b


def differences(a: Side, b: Side) -> tuple[Difference, ...]:
    """Every configuration fact that is not one and the same over all runs of both sides, sorted by key."""
    seen_a, seen_b = _seen(a), _seen(b)
    found = []
    for key in sorted(seen_a.keys() | seen_b.keys()):
        values_a, values_b = seen_a.get(key, [UNKNOWN]), seen_b.get(key, [UNKNOWN])
        if key.startswith(ASKED):  # a run that was cut short asked less: only what both asked can differ
            values_a, values_b = ([value for value in values if value != UNKNOWN] for values in (values_a, values_b))
            if not values_a or not values_b:
                continue
        if len({*values_a, *values_b}) > 1:
            found.append(Difference(key=key, of_a=" | ".join(values_a), of_b=" | ".join(values_b)))
    return tuple(found)


def drift(found: Iterable[Difference], factors: Sequence[str]) -> tuple[Difference, ...]:
    """Those differences that no declared factor explains.

    A factor names a key or its last part, dashes or underscores alike: `image` and `image_digest` mean the server's image,
    `enforce_eager` the server's argument, `server` all of the server. What a server derives from its arguments is explained
    as soon as some factor of the server's is. Differences inside one side are always drift.
    """
    known = list(found)
    declared = {difference.key for difference in known if _declared(difference.key, factors)}
    of_server = any(key.startswith("server.") for key in declared)
    return tuple(
        difference
        for difference in known
        if difference.within_a_side
        or not (difference.key in declared or (of_server and difference.key.startswith(FOLLOWS_FROM_ARGUMENTS)))
    )


def unused(found: Iterable[Difference], factors: Sequence[str]) -> tuple[str, ...]:
    """Declared factors in which the sides do not differ: perhaps the flag was never in force."""
    keys = [difference.key for difference in found]
    return tuple(factor for factor in factors if not any(_declared(key, [factor]) for key in keys))


def configuration(run: Run) -> dict[str, str]:
    """The facts of a run that have to be equal on both sides, flat, as short text; what is unknown is left out."""
    manifest = run.manifest
    arguments = manifest.get("server", {}).get("arguments") or facts(run.folder).get("arguments")
    known: dict[str, Any] = {
        "loadkit_version": manifest.get("loadkit_version"),
        **_part(manifest, "target", ("model", "dialect", "max_model_len")),
        **_part(manifest, "server", ("version", "image_digest", "system_fingerprint", "cache_config")),
        **{f"server.arguments.{key}": value for key, value in _arguments(arguments).items()},
        **_part(manifest, "host", ("kernel", "cpu_count", "mem_total_bytes", "driver")),
        **_part(manifest, "client", ("python", "packages")),
        **_part(manifest, "plan", ("name", "seed", "hash")),
        **{f"inputs.{name}": sha for name, sha in manifest.get("scenarios", {}).items()},
        **{f"options.{key}": value for key, value in manifest.get("options", {}).items() if key not in OWN_OPTIONS},
        **_inputs(run),
    }
    flat = dict(_flat(known))
    return {key: text for key, text in flat.items() if key not in ANYWHERE}


def _seen(side: Side) -> dict[str, list[str]]:
    """Distinct values of each key over a side's runs, in order."""
    configurations = [configuration(run) for run in side.runs]
    keys = {key for known in configurations for key in known}
    return {key: list(dict.fromkeys(known.get(key, UNKNOWN) for known in configurations)) for key in keys}


def _part(manifest: Mapping[str, Any], name: str, keys: Sequence[str]) -> dict[str, Any]:
    part = manifest.get(name) or {}
    return {f"{name}.{key}": part[key] for key in keys if part.get(key) is not None}


def _arguments(raw: Any) -> dict[str, Any]:
    """A server's arguments as {name: value}, from a mapping, a list of words or one command line."""
    if isinstance(raw, Mapping):
        return {_plain(str(key)): value for key, value in raw.items()}
    words = shlex.split(raw) if isinstance(raw, str) else [str(word) for word in raw or ()]
    named: dict[str, Any] = {}
    name: str | None = None
    for word in words:
        if word.startswith("--"):
            key, equals, value = word.partition("=")
            name = None if equals else _plain(key)
            named[_plain(key)] = value if equals else True
        elif name is not None:
            named[name] = word if named[name] is True else f"{named[name]} {word}"
    return named


def _inputs(run: Run) -> dict[str, str]:
    """Hashes of what was really asked: questions and documents, by case."""
    hashes: dict[str, set[str]] = {}
    for record in run.records:
        case = record.case
        for sha in (case.document_sha256, case.question_sha256):
            if sha is not None:
                hashes.setdefault(f"{ASKED}{case.scenario}.{case.case}", set()).add(sha[:12])
    return {key: " ".join(sorted(values)) for key, values in hashes.items()}


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif value is not None:
            yield name, value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _declared(key: str, factors: Sequence[str]) -> bool:
    names = _plain(key).split(".")
    last = ".".join(names[2:]) if names[:2] == ["server", "arguments"] else names[-1]
    return any(
        wanted in (last, ".".join(names)) or ".".join(names).startswith(f"{wanted}.") or last == f"{wanted}_digest"
        for wanted in map(_plain, factors)
    )


def _plain(name: str) -> str:
    """`--enforce-eager` and `enforce_eager` are one name; a negated flag stays its own name."""
    return name.lower().lstrip("-").replace("-", "_")
