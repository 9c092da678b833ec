"""Plain JSON calls to a server's side routes: models, /tokenize, /version, /metrics. Nothing measured goes through here."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx2
import orjson

from loadkit import dialect
from loadkit.request import Target

CALL_TIMEOUT_S = 120.0
"""A /tokenize of 256K tokens takes a slow server some seconds; a dead one should still be noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back: HTTP status, and the body as JSON where it is JSON."""

    status: int
    text: str
    data: Any = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Server:
    """The side routes of the server that a `Target` names; an async context manager."""

    def __init__(self, target: Target, *, timeout_s: float = CALL_TIMEOUT_S):
        self.target = target
        headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
        secure = target.base_url.startswith("https:")  # loading the certificates costs more than the calls do
        timeout = httpx2.Timeout(timeout_s, connect=5.0)
        self._client = httpx2.AsyncClient(headers=headers, timeout=timeout, verify=secure)

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
            httpx2.TransportError: no answer came.
        """
        return _reply(await self._client.get(url))

    async def post(self, url: str, body: Any) -> Reply:
        """A POST of a JSON body to a whole URL.

        Raises:
            httpx2.TransportError: no answer came.
        """
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        return _reply(await self._client.post(url, content=content, headers={"Content-Type": "application/json"}))


def _reply(response: httpx2.Response) -> Reply:
    try:
        data = orjson.loads(response.content)
    except ValueError:
        data = None
    return Reply(status=response.status_code, text=response.text if data is None else "", data=data)
