"""The ordinary client transport (aiohttp behind httpx2), told in the same words as the measuring one, with read times."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import httpx2

from loadkit.clock import Clock
from loadkit.transport.receiver import Receiver, nothing_waits
from loadkit.transport.route import Route

UNLIMITED = 1_000_000
"""Connections at once: `Limits(max_connections=None)` means 100 in this transport, which would queue requests unseen."""


def ordinary_client(route: Route) -> httpx2.AsyncClient:
    """An HTTP client without retries, redirects or a limit of connections.

    Raises:
        UsageError: the CA file can't be read, or a package is missing that HTTP/2 (h2) or the proxy (socksio) needs.
    """
    limits = httpx2.Limits(max_connections=UNLIMITED, max_keepalive_connections=UNLIMITED, keepalive_expiry=4.0)
    shared: dict[str, Any] = {
        "verify": route.tls(),
        "proxy": route.proxy,
        "trust_env": False,
        "timeout": None,
        "limits": limits,
    }
    try:
        if route.http2:
            return httpx2.AsyncClient(http2=True, **shared)
        from openai import DefaultAioHttpClient  # imported only where it is needed: it takes a second

        return DefaultAioHttpClient(follow_redirects=False, **shared)
    except ImportError as problem:
        raise route.lacks_package() from problem


async def ordinary_exchange(http: httpx2.AsyncClient, request: httpx2.Request, receiver: Receiver, clock: Clock) -> None:
    """Send, and tell the receiver what comes.

    This transport does not say when its connection was there or its body written: `sending` is the time of the call, so
    that connecting is inside the first latency; `written` is when the headers come.

    Failures go to the receiver, as httpx2's errors with the system's as their cause.
    """
    stopped: list[Exception] = []
    try:
        async with asyncio.timeout(None) as scope:

            def abort(error: Exception) -> None:
                stopped.append(error)
                with contextlib.suppress(RuntimeError):  # a task that was cancelled has left the scope
                    scope.reschedule(asyncio.get_running_loop().time())

            receiver.sending(clock.monotonic_ns(), connected_ns=None, abort=abort, catch_up=nothing_waits)
            await _send_and_read(http, request, receiver, clock.monotonic_ns)
    except TimeoutError:
        receiver.failed(stopped[0], clock.monotonic_ns(), trusted=False)
    except (httpx2.TransportError, OSError) as problem:
        receiver.failed(_plainly(problem), clock.monotonic_ns(), trusted=False)


async def _send_and_read(http: httpx2.AsyncClient, request: httpx2.Request, receiver: Receiver, now: Callable[[], int]) -> None:
    response = await http.send(request, stream=True)
    try:
        read = now()
        receiver.written(read)
        receiver.headers(read, read, response.status_code, response.headers.raw)
        async for data in response.aiter_raw():
            since, read = read, now()
            receiver.body(data, read, read, since)
        read = now()
        receiver.ended(read, read, trusted=False)
    finally:
        await response.aclose()


def _plainly(problem: Exception) -> Exception:
    """The bridge to aiohttp calls a dropped connection a ConnectTimeout; its cause says what it was."""
    import aiohttp

    cause = problem.__cause__
    if isinstance(cause, aiohttp.ConnectionTimeoutError):
        plain: Exception = httpx2.ConnectTimeout(str(problem))
    elif isinstance(cause, aiohttp.ClientConnectorError):
        plain, cause = httpx2.ConnectError(str(problem)), cause.__cause__ or cause
    elif isinstance(cause, aiohttp.ClientConnectionError):
        plain = httpx2.ReadError(str(problem) or "the server closed the connection")
    elif isinstance(problem, OSError):
        plain, cause = httpx2.ReadError(str(problem)), problem
    else:
        return problem
    plain.__cause__ = cause
    return plain
