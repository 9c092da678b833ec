"""A YAML file becomes a checked, frozen `Scenario`, and a seed makes of it the cases that a run asks."""

from loadkit.scenario.cases import Drawing, cases
from loadkit.scenario.file import find, load, names
from loadkit.scenario.schema import Scenario

__all__ = ["Drawing", "Scenario", "cases", "find", "load", "names"]
