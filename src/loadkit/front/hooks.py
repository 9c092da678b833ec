"""Which of Locust's events lead to us; imported with the first name that a locustfile takes from the front."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import locust
import locust.runners

from loadkit import platforms
from loadkit.errors import LoadkitError
from loadkit.front import arguments, csv_files, ports, web
from loadkit.front.session import Session

LIVENESS = 5
"""Heartbeats (seconds) that a worker may miss. Locust's 3 are too few where server and load generator share two busy cores."""


def attach(environment: Any) -> Session:
    """Give an environment its session, once its runner is there; whoever fires `init` on `locust.events` need not call it.

    Raises:
        UsageError: an option has a value that can't be used.
        FolderError: the folder for runs can't be written to.
    """
    existing = getattr(environment, "loadkit", None)
    if existing is not None:
        return existing  # type: ignore[no-any-return]
    environment.loadkit = Session(environment)
    return environment.loadkit  # type: ignore[no-any-return]


@locust.events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def _add_options(parser: Any, **_: Any) -> None:
    """Also the moment before Locust makes its CSV writer."""
    arguments.add_to(parser)
    csv_files.install()
    ports.install()
    arguments.remember_defaults()
    locust.runners.HEARTBEAT_LIVENESS = LIVENESS


@locust.events.init.add_listener  # type: ignore[untyped-decorator]
def _attach(environment: Any, **_: Any) -> None:
    if environment.parsed_locustfiles is None:  # a library user, who gets exceptions
        _with_tab(environment)
        return
    with said_and_left():
        for missing in platforms.lacks():
            sys.stderr.write(f"loadkit: {missing}\n")
        if environment.web_ui is not None:
            ports.check_free(environment.web_ui.host, environment.web_ui.port, where="--web-port")
        session = _with_tab(environment)
    session.handle_signals()
    session.begin_ahead()


def _with_tab(environment: Any) -> Session:
    session = attach(environment)
    if environment.web_ui is not None and session.lead is not None:
        web.install(environment, session.live, check=session.lead.checked)
    return session


@contextmanager
def said_and_left() -> Iterator[None]:
    """A user's mistake before anything runs: one line and exit code 2 (an exception would print a traceback)."""
    try:
        yield
    except LoadkitError as problem:
        sys.stderr.write(f"loadkit: {problem}\n")
        sys.exit(2)
