"""`loadkit sim`: a simulated vLLM on loopback.

Exit codes: 0 after SIGTERM, SIGINT or the end of standard input; 2 for a wrong option or a port that is taken.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import socket
import sys
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

from loadkit.errors import UsageError
from loadkit.simulator.settings import Manners, Settings, settings_from
from loadkit.simulator.speed import PRESETS

app = typer.Typer(add_completion=False)

Rate = Annotated[float, typer.Option(min=0.0, max=1.0, help="share of requests, 0 to 1")]
PRESET_HELP = "timing: " + "; ".join(f"{name}: {preset.sentence}" for name, preset in PRESETS.items())


@app.command()
def main(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one")] = 8000,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    preset: Annotated[str, typer.Option(help=PRESET_HELP)] = "fast",
    speed: Annotated[float, typer.Option(help="run the preset this many times as fast")] = 1.0,
    pace_ms: Annotated[
        float | None, typer.Option(min=0, help="instead of the preset's decode speed: milliseconds of a step at any batch size")
    ] = None,
    model: Annotated[str, typer.Option(help="name in /v1/models")] = "loadkit-sim",
    max_model_len: Annotated[int | None, typer.Option(min=1, help="context length, tokens")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(min=1, help="most sequences in a step")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(min=1, help="token budget of a step")] = None,
    max_num_queued_reqs: Annotated[int | None, typer.Option(min=1, help="waiting and running requests before 503")] = None,
    max_num_queued_tokens: Annotated[int | None, typer.Option(min=1, help="prompt tokens not yet prefilled before 503")] = None,
    block_size: Annotated[int | None, typer.Option(min=1, help="tokens of a KV block")] = None,
    kv_blocks: Annotated[int | None, typer.Option(min=1, help="number of KV blocks")] = None,
    prefix_caching: Annotated[bool, typer.Option(help="reuse cached prefixes")] = True,
    drafts: Annotated[int | None, typer.Option(min=0, help="speculative decoding: drafts per step")] = None,
    acceptance: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="rate at which a draft is accepted")] = None,
    draft_method: Annotated[str | None, typer.Option(help="ngram, or mtp (which loses a block of each prefix hit)")] = None,
    spread: Annotated[
        bool, typer.Option("--spread", help="streams take turns within a step instead of all at its end: for timing clients")
    ] = False,
    stream_interval: Annotated[int, typer.Option(min=1, help="tokens per streamed chunk")] = 1,
    sse_keep_alive_interval: Annotated[
        float, typer.Option(min=0, help="seconds of silence before a comment; 0 is never")
    ] = 0.0,
    reasoning: Annotated[bool, typer.Option(help="think before answering (a reasoning parser is on)")] = True,
    tools: Annotated[bool, typer.Option(help="call tools (a tool parser is on)")] = True,
    prompt_tokens_details: Annotated[bool, typer.Option(help="cached_tokens in usage")] = True,
    force_include_usage: Annotated[bool, typer.Option(help="a usage chunk in every stream")] = False,
    per_request_metrics: Annotated[bool, typer.Option(help="timings of the request in its usage chunk")] = False,
    clamp_max_tokens: Annotated[
        bool, typer.Option(help="clamp prompt + max_tokens in silence (0.32); else 400 as up to 0.29")
    ] = True,
    dev_mode: Annotated[bool, typer.Option(help="/reset_prefix_cache and /server_info")] = False,
    root_path: Annotated[str, typer.Option(help="path prefix, as behind a proxy")] = "",
    api_key: Annotated[str | None, typer.Option(envvar="LOADKIT_SIM_API_KEY", help="ask for this key")] = None,
    thinking_tokens: Annotated[int, typer.Option(min=0, help="median length of the thinking")] = 60,
    wrong: Rate = 0.0,
    refused: Rate = 0.0,
    hedged: Rate = 0.0,
    overthinking: Rate = 0.0,
    truth: Annotated[
        Path | None, typer.Option(help="append what was really written, and when, one JSON line a request")
    ] = None,
    fault: Annotated[
        list[str] | None, typer.Option(help="a fault to play, such as 'cut:after=5,rate=0.1' (repeatable)")
    ] = None,
    fault_file: Annotated[Path | None, typer.Option(help="faults, one a line")] = None,
    enable_faults: Annotated[bool, typer.Option(help="obey the request header X-Loadkit-Fault")] = False,
    exit_with_stdin: Annotated[
        bool, typer.Option("--exit-with-stdin", "--exit-on-eof", help="end when standard input closes")
    ] = False,
) -> None:
    """Serve a simulated vLLM 0.32; one JSON line on standard output says when it is ready, and where."""
    settings = settings_from(
        preset,
        factor=speed,
        pace_s=None if pace_ms is None else pace_ms / 1e3,
        port=port,
        host=host,
        model=model,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_queued_reqs=max_num_queued_reqs,
        max_num_queued_tokens=max_num_queued_tokens,
        block_size=block_size,
        kv_blocks=kv_blocks,
        prefix_caching=prefix_caching,
        drafts=drafts,
        acceptance=acceptance,
        draft_method=draft_method,
        stream_interval=stream_interval,
        spread=spread,
        keep_alive_interval_s=sse_keep_alive_interval,
        reasoning=reasoning,
        tools=tools,
        prompt_tokens_details=prompt_tokens_details,
        force_include_usage=force_include_usage,
        per_request_metrics=per_request_metrics,
        clamp_max_tokens=clamp_max_tokens,
        dev_mode=dev_mode,
        root_path=f"/{prefix}" if (prefix := root_path.strip("/")) else "",
        api_key=api_key,
        manners=Manners(
            wrong=wrong, refused=refused, hedged=hedged, overthinking=overthinking, thinking_tokens=thinking_tokens
        ),
        faults=(*_lines(fault_file), *(fault or ())),
        header_faults=enable_faults,
        truth=truth,
    )
    run(settings, exit_with_stdin=exit_with_stdin)


def run(settings: Settings, *, exit_with_stdin: bool) -> None:
    """Serve until a signal, or until standard input closes.

    Raises:
        UsageError: the port or the truth log can't be had.
    """
    import uvloop

    sys.setswitchinterval(0.0005)  # tokenising in a thread must not hold a stream up for 5 ms
    try:
        uvloop.run(_serve(settings, exit_with_stdin=exit_with_stdin))
    except OSError as problem:
        raise _mistake(problem, settings) from None


def _mistake(problem: OSError, settings: Settings) -> UsageError:
    """What is wrong with an address or the truth log; the system's own words alone name no option."""
    said = os.strerror(problem.errno) if problem.errno is not None and problem.errno > 0 else str(problem)
    if problem.filename is not None:
        return UsageError(said, where=f"--truth {problem.filename}", remedy="give a file in a folder that can be written to")
    if isinstance(problem, socket.gaierror) or problem.errno == errno.EADDRNOTAVAIL:
        remedy = "give an address of this host (127.0.0.1, or 0.0.0.0 for all of them)"
        return UsageError("is no address of this host", where=f"--host {settings.host}", remedy=remedy)
    if problem.errno == errno.EACCES:
        return UsageError(said, where=f"--port {settings.port}", remedy="choose a port above 1023 (0 picks a free one)")
    return UsageError(said, where=f"--port {settings.port}", remedy="choose another port (0 picks a free one)")


async def _serve(settings: Settings, *, exit_with_stdin: bool) -> None:
    import orjson

    from loadkit.simulator.server import serve

    loop = asyncio.get_running_loop()
    until = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, until.set)

    def ready(port: int) -> None:
        gc.freeze()  # what is loaded lives as long as the process: looking through it again and again would hold streams up
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        url = f"http://{host}:{port}{settings.root_path}"
        facts: dict[str, Any] = {"url": url, "pid": os.getpid(), "model": settings.model, "preset": settings.preset}
        sys.stdout.write(orjson.dumps(facts).decode() + "\n")
        sys.stdout.flush()
        if exit_with_stdin:
            Thread(target=_until_stdin_ends, args=(loop, until), daemon=True).start()

    await serve(settings, ready, until)


def _until_stdin_ends(loop: asyncio.AbstractEventLoop, until: asyncio.Event) -> None:
    """Blocks in a thread of its own: not every kind of standard input can be watched by an event loop (files, /dev/null)."""
    while os.read(0, 4096):
        pass
    loop.call_soon_threadsafe(until.set)


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise UsageError(problem.strerror or str(problem), where=str(path), remedy="give a file that can be read") from None
    except UnicodeDecodeError:
        raise UsageError("is not UTF-8 text", where=str(path), remedy="give a file with one fault a line") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
