"""Locust's side: users, shapes and what they need. Importing it imports locust, which patches the process.

    from loadkit.front import LLMUser, PlanShape

A locustfile that does so gets loadkit's options, run folder, statistics and verdict. A library user whose `Environment` has
events of its own calls `attach(environment)` after its runner is made.
"""

from __future__ import annotations

from typing import Any

import locust

from loadkit.front import arguments, csv_files, web
from loadkit.front.bridge import Reply
from loadkit.front.job import Job
from loadkit.front.options import Options
from loadkit.front.session import Session
from loadkit.front.shapes import PlanShape
from loadkit.front.users import LLMUser

__all__ = ["Job", "LLMUser", "Options", "PlanShape", "Reply", "attach"]


def attach(environment: Any) -> Session:
    """Give an environment its session; once the runner is there. Locust's own command line does it by itself."""
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


@locust.events.init.add_listener  # type: ignore[untyped-decorator]
def _attach(environment: Any, **_: Any) -> None:
    session = attach(environment)
    if environment.web_ui is not None and session.lead is not None:
        web.install(environment, session.live, check=session.lead.checked)
    if environment.parsed_locustfiles is not None:  # Locust's command line, whose process is ours to end
        session.handle_signals()
        session.begin_ahead()
