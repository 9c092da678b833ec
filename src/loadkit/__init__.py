"""loadkit: load generation for language-model servers, with figures that can be believed.

The names below are the library; each module has more. They are imported when they are first used, so `import loadkit` is light,
and it never imports locust (which patches the process): the Locust front end is `loadkit.front`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadkit.case import Case
    from loadkit.client import Client
    from loadkit.pacing import Closed, Open, closed_loop, open_loop
    from loadkit.questions import chat, requests_of
    from loadkit.record import Outcome, Record
    from loadkit.request import Request, Target, Timeouts
    from loadkit.run_folder import read_run
    from loadkit.scenario import cases
    from loadkit.scenario import find as find_scenario
    from loadkit.summary import summarise, summary_of
    from loadkit.verdict import judge

__version__ = "0.1.0"

__all__ = [
    "Case",
    "Client",
    "Closed",
    "Open",
    "Outcome",
    "Record",
    "Request",
    "Target",
    "Timeouts",
    "cases",
    "chat",
    "closed_loop",
    "find_scenario",
    "judge",
    "open_loop",
    "read_run",
    "requests_of",
    "summarise",
    "summary_of",
]

_HOMES = {
    "Case": "case",
    "Client": "client",
    "Closed": "pacing",
    "Open": "pacing",
    "Outcome": "record",
    "Record": "record",
    "Request": "request",
    "Target": "request",
    "Timeouts": "request",
    "cases": "scenario",
    "chat": "questions",
    "closed_loop": "pacing",
    "find_scenario": "scenario:find",
    "judge": "verdict",
    "open_loop": "pacing",
    "read_run": "run_folder",
    "requests_of": "questions",
    "summarise": "summary",
    "summary_of": "summary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, other_name = _HOMES[name].partition(":")
    return getattr(import_module(f"loadkit.{module}"), other_name or name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
