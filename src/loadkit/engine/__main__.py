"""`python -m loadkit.engine FD`: serve the socket with this file descriptor until its other end closes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

import uvloop

from loadkit.clock import SystemClock
from loadkit.engine.process import Engine


async def serve(connection: socket.socket) -> None:
    """Ends when Locust does: Ctrl-C and SIGTERM are for Locust, which tells the engine what to do."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def ended(bug: BaseException | None) -> None:
        if not over.done():
            over.set_exception(bug) if bug is not None else over.set_result(None)

    loop.set_exception_handler(lambda _, context: ended(context.get("exception") or RuntimeError(context["message"])))
    api_key = os.environ.get("OPENAI_API_KEY")
    await loop.create_connection(lambda: Engine(clock=SystemClock(), api_key=api_key, ended=ended), sock=connection)
    await over
    os._exit(0)  # everything is written, and a call that still draws prompts in its thread is nobody's any more


def main() -> None:
    """Run until the socket closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.setblocking(False)
    uvloop.run(serve(connection))


if __name__ == "__main__":
    main()
