"""Faults of the model and of the server's understanding: what is thought, and which wishes of the request are ignored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loadkit.simulator.faults.table import Fault
from loadkit.simulator.reply import Asked
from loadkit.simulator.script import Call, Thought


def spoiled_thought(fault: Fault | None, thought: Thought, tools: tuple[dict[str, Any], ...]) -> Thought:
    """The thought as the fault leaves it."""
    name = fault.name if fault else ""
    if name == "reasoning-only":
        return Thought(thinking=f"{thought.thinking or ''} {thought.answer}".strip(), unending=True)
    if name == "tool-only":
        called = tools[0]["function"]["name"] if tools else "no_operation"
        return Thought(calls=thought.calls or (Call(called, "{}"),))
    if name == "empty":
        return Thought()
    return thought


def spoiled_wishes(fault: Fault | None, asked: Asked) -> Asked:
    """What the server makes of what was asked for."""
    name = fault.name if fault else ""
    if name == "no-usage":
        return replace(asked, usage=False, running_usage=False)
    if name == "no-running-usage":
        return replace(asked, running_usage=False)
    return asked
