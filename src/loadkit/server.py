"""Plain JSON calls to a server's side routes: models, /tokenize, /version, /metrics. Nothing measured goes through here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx2
import orjson

from loadkit import dialect
from loadkit.request import Target
from loadkit.transport.route import route

SAID_CHARS = 200
CALL_TIMEOUT_S = 120.0
"""A /tokenize of 256K tokens takes a slow server some seconds; a dead one should still be noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back: HTTP status, the body as JSON where it is JSON, and where a redirection points to."""

    status: int
    text: str
    data: Any = None
    location: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def said(self) -> str:
        """The server's message in one line: the one of its error object where there is one."""
        error = mapping(self.data).get("error")
        message = mapping(error).get("message") or error or self.text or self.data
        return " ".join(str(message or "nothing").split())[:SAID_CHARS]


class Server:
    """The side routes of the server that a `Target` names, reached as its requests are; an async context manager.

    Raises:
        UsageError: the target's URL or the proxy's is none, or a package is missing that the way there needs.
    """

    def __init__(self, target: Target, *, timeout_s: float = CALL_TIMEOUT_S):
        self.target = target
        self._timeout_s = timeout_s
        headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
        way = route(target.base_url, os.environ)
        verify = way.tls() if way.secure else False  # loading the certificates costs more than the calls do
        timeout = httpx2.Timeout(timeout_s, connect=5.0)
        try:
            self._client = httpx2.AsyncClient(headers=headers, timeout=timeout, verify=verify, proxy=way.proxy, trust_env=False)
        except ImportError as problem:
            raise way.lacks_package() from problem

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    @property
    def root(self) -> str:
        """Where the routes outside the API live: the base URL without its last `/v1`."""
        return self.target.base_url.removesuffix("/v1")

    @property
    def speaks(self) -> dialect.Dialect:
        """What this server understands."""
        return dialect.named(self.target.dialect)

    async def get(self, url: str) -> Reply:
        """A GET of a whole URL.

        Raises:
            httpx2.TransportError: no answer came, or none that can be read.
        """
        return await self._answered(self._client.get(url))

    async def post(self, url: str, body: Any) -> Reply:
        """A POST of a JSON body to a whole URL.

        Raises:
            httpx2.TransportError: no answer came, or none that can be read.
        """
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        return await self._answered(self._client.post(url, content=content, headers={"Content-Type": "application/json"}))

    async def _answered(self, call: Awaitable[httpx2.Response]) -> Reply:
        """The client's own timeout starts anew with each byte, so a server that drips is bounded here."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return _reply(await call)
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no whole answer within {self._timeout_s:g} s") from None
        except httpx2.DecodingError as problem:
            raise httpx2.RemoteProtocolError(f"the body is not encoded as its headers say ({problem})") from problem


def _reply(response: httpx2.Response) -> Reply:
    try:
        data = orjson.loads(response.content)
    except ValueError:
        data = None
    return Reply(
        status=response.status_code,
        text=response.text if data is None else "",
        data=data,
        location=response.headers.get("location", ""),
    )


def mapping(value: Any) -> dict[str, Any]:
    """An object of an answer; empty where the server put something else in its place."""
    return value if isinstance(value, dict) else {}


def whole(value: Any) -> int | None:
    """A count of an answer; `None` where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
