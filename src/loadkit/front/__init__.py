"""Locust's side: users, shapes and what they need.

    from loadkit.front import LLMUser, PlanShape

A locustfile that does so gets loadkit's options, run folder, statistics and verdict. Taking a name from here imports locust,
which patches the process; importing one of the modules that know no Locust does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadkit.front.bridge import Reply
    from loadkit.front.hooks import attach
    from loadkit.front.job import Job
    from loadkit.front.options import Options
    from loadkit.front.shapes import PlanShape
    from loadkit.front.users import LLMUser

__all__ = ["Job", "LLMUser", "Options", "PlanShape", "Reply", "attach"]

_HOMES = {
    "Job": "job",
    "LLMUser": "users",
    "Options": "options",
    "PlanShape": "shapes",
    "Reply": "bridge",
    "attach": "hooks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("loadkit.front.hooks")
    return getattr(import_module(f"loadkit.front.{_HOMES[name]}"), name)
