"""The options of a run: each field of `Options` is the whole entry of one option, on the command line and in the web form.

Locust hands values over as text (from its command line, the environment, a config file or the form); `read` checks them all
in one place and raises the first mistake as a `UsageError`, before anything is started.
"""

# ruff: noqa: RUF009 - each call of `option` makes a dataclass field, as `field` itself does
from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from loadkit import slo as service_levels
from loadkit.errors import UsageError

MOST = 1_000_000_000
"""Above this a count is a slip of the finger, and its plan would not fit into memory."""
SEEDS = range(-(1 << 63), 1 << 63)
"""Servers keep a seed in 64 bits and refuse each request with a longer one."""
DOCKER_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


@dataclass(frozen=True, slots=True)
class Entry:
    """How one option is offered: `text` is its default as one would write it, `read` turns text into the value."""

    name: str
    text: str
    help: str
    read: Callable[[str], Any]
    choices: tuple[str, ...] = ()
    in_form: bool = True

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def env_var(self) -> str:
        return f"LOADKIT_{self.name.upper()}"

    @property
    def is_switch(self) -> bool:
        return self.read is switch


def option(
    text: str,
    help: str,  # noqa: A002 - the name that argparse gives it
    *,
    read: Callable[[str], Any] = str,
    choices: tuple[str, ...] = (),
    in_form: bool = True,
) -> Any:
    """A field of `Options`. `read` raises ValueError with what is expected, as in "a whole number of at least 1"."""
    metadata = {"text": text, "help": help, "read": read, "choices": choices, "in_form": in_form}
    return field(default_factory=lambda: read(text), metadata=metadata)


def count(text: str) -> int:
    """A whole number of at least 1."""
    digits = text.strip()
    if not digits.isdecimal() or not digits.strip("0"):
        raise ValueError("a whole number of at least 1")
    if len(digits) > len(str(MOST)) or int(digits) > MOST:
        raise ValueError(f"a whole number of at most {MOST}")
    return int(digits)


def maybe_count(text: str) -> int | None:
    """The same, where empty text leaves it open."""
    return count(text) if text else None


def whole(text: str) -> int:
    """A whole number of 64 bits, negative ones too."""
    try:
        number = int(text)
    except ValueError:
        raise ValueError("a whole number") from None
    if number not in SEEDS:
        raise ValueError("a whole number that fits into 64 bits")
    return number


def line(text: str) -> str:
    """Text that fits into a heading and a table's cell."""
    if not text.isprintable():
        raise ValueError("one line of printable characters")
    return text


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers of at least 1, separated by commas, each once."""
    try:
        numbers = tuple(count(part) for part in text.split(","))
    except ValueError:
        raise ValueError("whole numbers of at least 1 with commas between them, as in 1,2,4") from None
    if len(set(numbers)) < len(numbers):
        raise ValueError("different numbers: one stands twice")
    return numbers


def some_counts(text: str) -> tuple[int, ...]:
    """The same, where empty text means "all"."""
    return counts(text) if text.strip() else ()


def words(text: str) -> tuple[str, ...]:
    """Words separated by commas; empty text is none."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def objectives(text: str) -> tuple[str, ...]:
    """Service levels, each checked.

    Raises:
        UsageError: one is none.
    """
    texts = words(text)
    service_levels.parse_all(texts)
    return texts


def switch(text: str) -> bool:
    """A flag that is given or not; the environment and a form give it as a word."""
    word = text.strip().lower()
    if word not in YES + NO:
        raise ValueError("true or false")
    return word in YES


def on_off(text: str) -> bool:
    """`on` or `off`."""
    if text not in ("on", "off"):
        raise ValueError("on or off")
    return text == "on"


def folder(text: str) -> Path:
    """A path; `~` is the home directory."""
    if not text or "\0" in text:
        raise ValueError("the path of a folder")
    return Path(os.path.expanduser(text))  # noqa: PTH111 - Path's own raises for a user that does not exist


def maybe_existing_folder(text: str) -> Path | None:
    """The path of a folder that is there, or none."""
    if not text:
        return None
    found = folder(text)
    if not os.path.isdir(found):  # noqa: PTH112 - Path's own raises for names that are too long
        raise ValueError("the path of a folder that exists")
    return found


def maybe_new_file(text: str) -> Path | None:
    """The path of a file that can be written, or none: said now, not when hours of measuring are to be written."""
    if not text:
        return None
    path = folder(text)
    if os.path.isdir(path) or not os.access(path.parent, os.W_OK | os.X_OK):  # noqa: PTH112 - as above
        raise ValueError("the path of a file in a folder that exists and can be written to")
    return path


def maybe_address(text: str) -> str:
    """An http(s) address, or none."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("an address as in http://spark:9101")
    return text


def maybe_container(text: str) -> str:
    """A name or id as Docker allows it, or none."""
    if text and DOCKER_NAME.fullmatch(text) is None:
        raise ValueError("the name or id of a container")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run was asked to do. To add an option, add a field."""

    label: str = option("", "name of this run: it ends the name of the run folder and heads the report", read=line)
    model: str = option("", "model to ask; empty: the one that /v1/models lists first")
    scenario: str = option("short", "scenario file to draw prompts from, by name (locustfiles that have their own do not ask)")
    ways: tuple[int, ...] = option("1,2,4", "stages of a comparison: how many requests are in flight at once", read=counts)
    rounds: int | None = option(
        "", "how often all stages are gone through; empty: as the scenario says, else 3", read=maybe_count
    )
    requests_per_user: int = option("1", "requests that each user of a stage sends in a row (sustained load)", read=count)
    max_tokens: int = option("512", "output tokens of a request, thinking included", read=count)
    long_max_tokens: int = option("2048", "the same, for scenarios with long contexts", read=count)
    sampling_seed: int = option("42", "seed that is sent with each request", read=whole)
    plan_seed: int = option("0", "seed that prompts and documents are drawn with", read=whole)
    token_times: bool = option(
        "on", "ask for running token counts; turn it off on both sides of a comparison or on none", read=on_off,
        choices=("on", "off"),
    )  # fmt: skip
    slo: tuple[str, ...] = option(
        "", "service levels, as in ttft_p95=2s,tpot_p50=40ms; a missed one fails the run", read=objectives
    )
    rungs: tuple[int, ...] = option("", "lengths of a climb in K tokens, as in 8,32; empty: all", read=some_counts)
    stop_on_failure: bool = option("", "send nothing more after the first request that fails", read=switch)
    preflight_only: bool = option("", "look at the server, say what was found, and end", read=switch, in_form=False)
    guard: bool = option("", "stop the run, then the server's container, before the host runs out of memory", read=switch)
    no_sidecar: bool = option("", "do not watch the server's host, even where it is this one", read=switch)
    no_text: bool = option("", "keep prompts and answers out of the record files (hashes stay)", read=switch)
    sidecar: str = option(
        "", "address of a sidecar on the server's host, as in http://spark:9101", read=maybe_address, in_form=False
    )
    container: str = option("", "container of the server, for the sidecar and its guard", read=maybe_container, in_form=False)
    run_dir: Path = option("runs", "folder that gets one folder for each run", read=folder, in_form=False)
    scenarios: Path | None = option("", "folder of scenario files; empty: ./scenarios, else the bundled ones",
                                    read=maybe_existing_folder, in_form=False)  # fmt: skip
    inputs: Path | None = option("", "ask again what an earlier run asked: its folder, or its inputs/",
                                 read=maybe_existing_folder, in_form=False)  # fmt: skip
    junit: Path | None = option("", "write a JUnit XML file for CI", read=maybe_new_file, in_form=False)


ENTRIES: tuple[Entry, ...] = tuple(Entry(name=part.name, **part.metadata) for part in fields(Options))
BY_NAME: dict[str, Entry] = {entry.name: entry for entry in ENTRIES}


def read(given: Mapping[str, object], *, where: Literal["flag", "name"] = "flag") -> Options:
    """All options from what Locust parsed, or from a form; a name that is absent has its default.

    Raises:
        UsageError: the first value that can't be used, with the option's name and what is expected; or two that contradict
            each other.
    """
    options = Options(**{entry.name: _value(entry, given.get(entry.name, entry.text), where) for entry in ENTRIES})
    if options.no_sidecar and (options.sidecar or options.guard):
        other = "sidecar" if options.sidecar else "guard"
        name = BY_NAME["no_sidecar"].flag if where == "flag" else "no_sidecar"
        raise UsageError(f"it contradicts --{other}", where=name, remedy="leave one of them out")
    return options


def as_text(options: Options) -> dict[str, object]:
    """The options as plain JSON for the manifest."""
    return {entry.name: _plain(getattr(options, entry.name)) for entry in ENTRIES}


def _value(entry: Entry, given: object, where: Literal["flag", "name"]) -> Any:
    if isinstance(given, bool):
        return given
    text = entry.text if given is None else str(given).strip()
    name = entry.flag if where == "flag" else entry.name
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):  # bytes of the command line that are no text
        raise UsageError(f"{text!r} can't be used", where=name, remedy="write it in UTF-8")
    if entry.choices and text not in entry.choices:
        raise UsageError(f"{text!r} is no known value", where=name, remedy=f"choose {' or '.join(entry.choices)}")
    try:
        return entry.read(text)
    except ValueError as problem:
        raise UsageError(f"{text!r} can't be used", where=name, remedy=f"write {problem}") from None


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
