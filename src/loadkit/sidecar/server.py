"""The server's /metrics and /health once a second over one kept connection; its identity at first sight and after a restart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orjson

from loadkit.clock import Clock
from loadkit.errors import UsageError
from loadkit.secrets import masked_json
from loadkit.sidecar import server_metrics
from loadkit.sidecar.samples import Missing
from loadkit.sidecar.server_metrics import Scrape
from loadkit.sidecar.wire import KeptConnection

AGAIN_NS = 10_000_000_000  # how often it is asked again whose process it is, while that is not known
PATHS = ("/metrics", "/prometheus/metrics")  # TensorRT-LLM's /metrics is JSON


class Server:
    """Looks at one server. `find` says whether its own process is on this host, given the start time that it exports."""

    source = "server"

    def __init__(self, url: str, *, clock: Clock, find: Callable[[float | None], dict[str, Any]]):
        self.url = base_url(url)
        self._wire = KeptConnection(self.url, clock)
        self._clock = clock
        self._find = find
        self._lock = threading.Lock()  # a snapshot is asked for by another thread than the sampler's
        self._before: Scrape | None = None
        self._found: dict[str, Any] = {}
        self._found_ns = 0
        self._path = 0

    def look(self) -> list[dict[str, Any]]:
        """One or two samples' data: the figures, and before them the identity when it is new.

        Raises:
            Missing: nothing answers (`data` holds up=False), or it answers but /metrics is slow, an error or no metrics.
        """
        with self._lock:
            begun = self._clock.monotonic_ns()
            scrape, trouble = self._scraped()
            took_ms = (self._clock.monotonic_ns() - begun) / 1e6
            data = self._health()
            if scrape is None:
                raise Missing(trouble, data)
            return self._told(scrape, data | {"up": True, "scrape_ms": round(took_ms, 1)})

    def _told(self, scrape: Scrape, data: dict[str, Any]) -> list[dict[str, Any]]:
        before, self._before = self._before, scrape
        restarted = before is not None and server_metrics.is_another(before, scrape)
        now_ns = self._clock.monotonic_ns()
        if before is None or restarted or (not self._found.get("server_seen") and now_ns - self._found_ns > AGAIN_NS):
            self._found = self._find(scrape.figures.get("process_start_time_s"))
            self._found_ns = now_ns
        data |= scrape.figures | self._found
        data |= {"success": scrape.success} if scrape.success is not None else {}
        data |= {"dialect": scrape.dialect} if scrape.dialect else {}
        data |= {"engines": scrape.engines} if scrape.engines else {}
        data |= {"restarted": True} if restarted else {}
        return [self._identity(scrape), data] if before is None or restarted else [data]

    def _scraped(self) -> tuple[Scrape | None, str]:
        try:
            status, body = self._wire.get(PATHS[self._path])
        except Missing as problem:
            return None, str(problem)
        if status != 200:
            return None, f"{self.url}{PATHS[self._path]} answered {status}"
        scrape = server_metrics.read(body)
        if scrape.figures:
            return scrape, ""
        self._path = (self._path + 1) % len(PATHS)
        return None, f"{self.url}/metrics names no metric of vLLM, SGLang, llama.cpp or TensorRT-LLM"

    def _health(self) -> dict[str, Any]:
        try:
            return {"up": True, "health": self._wire.get("/health")[0]}
        except Missing:
            return {"up": False}

    def _identity(self, scrape: Scrape) -> dict[str, Any]:
        data: dict[str, Any] = {"event": "identity", "cache_config": scrape.config}
        for key, path in (("version", "/version"), ("server_info", "/server_info?config_format=json")):
            try:
                status, body = self._wire.get(path)
                if status == 200:
                    data[key] = masked_json(orjson.loads(body))
            except (Missing, ValueError):
                continue
        if isinstance(data.get("version"), dict):
            data["version"] = data["version"].get("version")
        return data


def base_url(url: str) -> str:
    """Scheme, host, port and prefix; `/v1` at the end is the API's, not the server's.

    Raises:
        UsageError: no http(s) URL.
    """
    try:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        usable = parts.scheme in ("http", "https") and (parts.port is None or parts.port > 0)
        name = parts.hostname if usable else None
    except ValueError:
        name = None
    if not name:
        raise UsageError(f"{url!r} is no address of a server", where="--server", remedy="write http://127.0.0.1:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    host = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "") + path
