"""Functions called by name in a process that nobody patched: preflight, scenario files, document fitting.

`python -m loadkit.engine.calls` reads one `call` message from stdin, writes its `answer` to stdout and ends; the engine does
the same for calls on its socket.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import time
import traceback
from importlib import import_module
from threading import Thread
from typing import Any

import orjson

from loadkit.engine.protocol import JSON, line
from loadkit.errors import LoadkitError, UsageError

ORPHANED_S = 0.5


async def answered(call: JSON) -> bytes:
    """The `answer` message of a `call`: a value, the user's mistake, or our fault with its traceback."""
    number = call.get("number", 0)
    try:
        value = await _called(call["function"], call["arguments"])
        return line("answer", number=number, value=value)
    except UsageError as mistake:
        parts = {"problem": mistake.problem, "where": mistake.where, "key": mistake.key, "remedy": mistake.remedy}
        return line("answer", number=number, mistake=parts)
    except LoadkitError as problem:
        return line("answer", number=number, mistake={"problem": str(problem)})
    except Exception:  # a fault of ours travels to the process that asked, which raises it there
        return line("answer", number=number, fault=traceback.format_exc())


async def _called(name: str, arguments: dict[str, Any]) -> Any:
    """Sync functions run in a thread: the loop of an engine goes on."""
    module, _, function = name.partition(":")
    target = getattr(import_module(module), function)
    if inspect.iscoroutinefunction(target):
        return await target(**arguments)
    return await asyncio.to_thread(target, **arguments)


def main() -> None:
    """Answer the one call on stdin; end at once when whoever asked is gone, however that came."""
    Thread(target=until_orphaned, args=(os.getppid(),), daemon=True).start()
    answer = asyncio.run(answered(orjson.loads(sys.stdin.buffer.readline())))
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()


def until_orphaned(parent: int) -> None:
    """End this process as soon as it has another parent than that."""
    while os.getppid() == parent:
        time.sleep(ORPHANED_S)
    os._exit(1)


if __name__ == "__main__":
    main()
