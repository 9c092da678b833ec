"""`loadkit sidecar`: watch the server's host, write samples, serve them, and guard.

Exit codes: 0 after SIGTERM, Ctrl-C or the owner's end; 2 usage; 3 the output file can't be opened.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import orjson
import typer

app = typer.Typer(add_completion=False)


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="JSON lines; appended to, and kept when it grows (FILE.1, FILE.2, …)")] = Path(
        "samples.jsonl"
    ),
    server: Annotated[str | None, typer.Option(metavar="URL", help="the server whose /metrics and /health are read")] = None,
    container: Annotated[str | None, typer.Option(metavar="NAME", help="the server's container (Docker)")] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="0 is a free port; beyond loopback it needs LOADKIT_SIDECAR_TOKEN")
    ] = "127.0.0.1:9101",
    wait: Annotated[bool, typer.Option("--wait", help="start also when server or container are not there yet")] = False,
    guard: Annotated[bool, typer.Option("--guard", help="act on the levels: tell Locust, and stop the container")] = False,
    guard_warn: Annotated[str, typer.Option(metavar="SIZE", help="MemAvailable below it is a warning; 8GiB or 6%")] = "8GiB",
    guard_stop_new: Annotated[str, typer.Option(metavar="SIZE", help="below it nothing new is sent")] = "6GiB",
    guard_abort: Annotated[
        str, typer.Option(metavar="SIZE", help="below it for --guard-hold: streams closed, container stopped")
    ] = "4GiB",
    guard_hold: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="how long it has to be below")] = 1.0,
    guard_horizon: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="abort also when zero is predicted within this time")
    ] = 10.0,
    owner: Annotated[int | None, typer.Option(metavar="PID", help="end after this process is gone")] = None,
    linger: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="how long it goes on after its owner")] = 60.0,
    docker: Annotated[
        str | None, typer.Option(metavar="URL", envvar="DOCKER_HOST", help="Docker engine; default is its usual socket")
    ] = None,
    rotate: Annotated[
        str, typer.Option(metavar="SIZE", help="begin a new file when it has grown to this; 0 never does")
    ] = "64MiB",
    gpu: Annotated[bool, typer.Option("--gpu/--no-gpu", help="read GPUs through NVML")] = True,
) -> None:
    """Watch the host of a server: memory, kernel log, container, GPU, /metrics; and guard it.

    Prints one line of JSON on stdout when it listens: url, pid and out.
    """
    from loadkit import platforms

    platforms.watchable()
    from loadkit.sidecar.recorder import Rotation
    from loadkit.sidecar.settings import Settings, address, size, thresholds
    from loadkit.sidecar.watch import Watch
    from loadkit.sidecar_client import TOKEN_VARIABLE

    host, port = address(listen)
    limits = thresholds(
        guard_warn, guard_stop_new, guard_abort, total_bytes=_memory(), hold_s=guard_hold, horizon_s=guard_horizon
    )
    settings = Settings(
        out=out,
        server=server,
        container=container,
        host=host,
        port=port,
        token=os.environ.get(TOKEN_VARIABLE) or None,
        guard=guard,
        thresholds=limits,
        wait=wait,
        owner=owner,
        linger_s=linger,
        docker_url=docker,
        gpu=gpu,
        rotation=Rotation(most_bytes=size(rotate, total_bytes=None, where="--rotate")),
    )
    _run(Watch(settings, say=_say), out)


def _run(watch, out: Path) -> None:  # type: ignore[no-untyped-def]  # its type would import what only this command needs
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    watch.start()
    sys.stdout.buffer.write(
        orjson.dumps({"url": watch.url, "pid": os.getpid(), "out": str(out.absolute())}, option=orjson.OPT_APPEND_NEWLINE)
    )
    sys.stdout.flush()
    watch.wait_for_owner(ended)
    watch.end()


def _say(line: str) -> None:
    """One line for a person; a closed stderr must not end the sidecar."""
    try:
        typer.echo(f"loadkit sidecar: {line}", err=True)
    except OSError:
        return


def _memory() -> int | None:
    """MemTotal, for thresholds given as a share."""
    from loadkit.sidecar.host import memory

    try:
        return memory(Path("/proc/meminfo").read_bytes()).get("mem_total_bytes")
    except OSError:
        return None
