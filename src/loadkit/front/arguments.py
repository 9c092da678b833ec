"""Options on Locust's command line and in its web form."""

from __future__ import annotations

import argparse
import os
from functools import cache
from pathlib import Path
from typing import Any

from locust import argument_parser

from loadkit.front.options import ENTRIES, Entry, Options, read

LOCUSTS_FILES = ("csv_prefix", "html_file", "json_file")
"""What Locust writes to, and finds out when it does: some of them after the run."""


def add_to(parser: Any) -> None:
    """Give Locust's parser our options. No argument groups: Locust loses what is in them (the form does not show it)."""
    for action in parser._actions:
        if action.dest in LOCUSTS_FILES:
            action.type = _new_file
    for entry in ENTRIES:
        if entry.is_switch:
            parser.add_argument(
                entry.flag, env_var=entry.env_var, action="store_true", help=entry.help, include_in_web_ui=entry.in_form
            )
        else:
            parser.add_argument(entry.flag, env_var=entry.env_var, **_value(entry), include_in_web_ui=entry.in_form)


def _new_file(text: str) -> str:
    """The path of a file whose folder is there, or can be made as Locust would make it."""
    folder = Path(text).absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise argparse.ArgumentTypeError(f"{text!r} can't be used: {problem.strerror}; choose another folder") from problem
    if not os.access(folder, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{text!r} can't be used: {folder} can't be written to; choose another folder")
    return text


def remember_defaults() -> None:
    """A worker that is told to spawn builds Locust's whole parser once for each of its options, which takes it seconds in
    which it neither answers nor sends a heartbeat (locust 2.47, `WorkerRunner.handle_message`). The defaults never change.
    """
    argument_parser.default_args_dict = cache(argument_parser.default_args_dict)


def options_of(environment: Any) -> Options:
    """The options of an environment; a library user may have none parsed.

    Raises:
        UsageError: a value can't be used.
    """
    return read({} if environment.parsed_options is None else vars(environment.parsed_options))


def options_of_form(environment: Any, form: dict[str, str]) -> Options:
    """The options as they would be if this form were submitted.

    Raises:
        UsageError: a value can't be used.
    """
    parsed = {} if environment.parsed_options is None else vars(environment.parsed_options)
    shown = {entry.name for entry in ENTRIES if entry.in_form}
    return read({**parsed, **{name: _from_form(value) for name, value in form.items() if name in shown}})


def _value(entry: Entry) -> dict[str, Any]:
    """Numbers are numbers in the form; other values are text. What can't be read is left for `options.read` to say."""
    default = entry.read(entry.text)
    number = isinstance(default, int) and not isinstance(default, bool)
    return {
        "default": default if number else entry.text,
        "type": _number_or_text if number else str,
        "help": entry.help,
        **({"choices": entry.choices} if entry.choices else {}),
    }


def _number_or_text(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _from_form(value: str) -> object:
    return {"true": True, "false": False}.get(value, value)
