"""A port that is taken: one clear line instead of Locust's traceback."""

from __future__ import annotations

import errno
import socket
import sys
from typing import Any

from locust.exception import RPCError
from locust.rpc import zmqrpc

from loadkit.errors import UsageError


def check_free(host: str, port: int, *, where: str) -> None:
    """See that a server could listen there.

    Raises:
        UsageError: somebody else does.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                raise UsageError(f"can't listen at {host}:{port}: {problem.strerror}", where=where) from problem
            raise UsageError(
                f"port {port} is taken", where=where, remedy="stop what listens there, or choose another"
            ) from problem


class MasterPort(zmqrpc.Server):
    """Locust's server for workers. Locust has words for a taken port too, but looks for those of an older zmq."""

    def __init__(self, host: str, port: int):
        try:
            super().__init__(host, port)  # type: ignore[no-untyped-call]
        except RPCError as problem:
            if "Address already in use" not in str(problem):
                raise
            remedy = "stop what listens there, or choose another (with --processes --master-port, too)"
            mistake = UsageError(f"port {port} is taken", where="--master-bind-port", remedy=remedy)
            sys.stderr.write(f"loadkit: {mistake}\n")
            sys.exit(2)


def install() -> None:
    """Locust makes its server from the name in this module."""
    module: Any = zmqrpc
    module.Server = MasterPort
