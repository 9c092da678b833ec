"""Fixtures of this folder."""

from tests.sidecar.engine import engine
from tests.sidecar.servers import processes
from tests.sidecar.sidecars import start

__all__ = ["engine", "processes", "start"]
