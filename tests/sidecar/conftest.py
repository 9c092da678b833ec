"""Fixtures of this folder."""

from sidecar.engine import engine
from sidecar.servers import processes
from sidecar.sidecars import start

__all__ = ["engine", "processes", "start"]
