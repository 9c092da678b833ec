"""Which transport leads to a server: the measuring one where it can, the ordinary one for TLS, proxies, HTTP/2 and own CAs."""

from __future__ import annotations

import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path

from loadkit.errors import UsageError
from loadkit.secrets import masked_text

PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How a server is reached. `proxy` is a URL; `ca_file` a PEM file of authorities to trust instead of the system's."""

    secure: bool
    proxy: str | None = None
    ca_file: Path | None = None
    http2: bool = False

    @property
    def measuring(self) -> bool:
        return not (self.secure or self.proxy or self.ca_file or self.http2)

    def tls(self) -> ssl.SSLContext | bool:
        """What verifies the server's certificate.

        Raises:
            UsageError: the CA file can't be read or holds no certificate.
        """
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=str(self.ca_file))
        except (OSError, ssl.SSLError) as problem:
            raise UsageError(f"can't read certificates: {problem}", where=str(self.ca_file)) from problem

    def lacks_package(self) -> UsageError:
        """What to say where the client's library misses a package for this route."""
        what, package = ("https", "openai[aiohttp]")
        if self.proxy is not None and self.proxy.startswith("socks"):
            what, package = "a SOCKS proxy", "socksio"
        elif self.http2:
            what, package = "HTTP/2", "h2"
        return UsageError(f"{what} needs a package that is not installed", remedy=f"pip install '{package}'")


def route(base_url: str, environment: Mapping[str, str], *, ca_file: Path | None = None, http2: bool = False) -> Route:
    """The route to a server, by its URL and the proxy variables of the environment.

    HTTP_PROXY, HTTPS_PROXY and ALL_PROXY (also in lower case) count only for servers elsewhere: a proxy can't reach this
    host's loopback, and would be in every latency. NO_PROXY takes names, addresses and networks.

    Raises:
        UsageError: the URL has no host or a scheme other than http and https; or the proxy's variable holds no URL of one.
    """
    parts = urllib.parse.urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"{base_url!r} is no URL of a server", where="--host", remedy="give one like http://spark:8000 or https://host/v1"
        )
    ca_file = ca_file or (Path(environment["SSL_CERT_FILE"]) if environment.get("SSL_CERT_FILE") else None)
    secure = parts.scheme == "https"
    return Route(
        secure=secure,
        proxy=_proxy(parts.scheme, parts.hostname, environment),
        ca_file=ca_file if secure else None,
        http2=http2,
    )


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this host, seen from itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _proxy(scheme: str, host: str, environment: Mapping[str, str]) -> str | None:
    if is_loopback(host):
        return None
    # as for curl and urllib: upper-case HTTP_PROXY is ignored in a CGI process, where a client could set it by a header
    names = [f"{scheme}_proxy", "all_proxy"]
    proxies = {name.lower(): value for name, value in environment.items() if name.lower().endswith("_proxy")}
    proxies.update({name: value for name, value in environment.items() if name in ("http_proxy", "https_proxy", "all_proxy")})
    if "REQUEST_METHOD" in environment and "http_proxy" not in environment:
        proxies.pop("http_proxy", None)
    if any(_spared(host, entry.strip()) for entry in proxies.get("no_proxy", "").split(",")):
        return None
    variable = next((name for name in names if proxies.get(name)), None)
    return None if variable is None else _proxy_url(proxies[variable], where=variable.upper())


def _proxy_url(text: str, *, where: str) -> str:
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in PROXY_SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(
            f"{masked_text(text)!r} is no address of a proxy", where=where, remedy="write http://proxy:3128, or unset it"
        )
    return url


def _spared(host: str, entry: str) -> bool:
    """Whether an entry of NO_PROXY names the host: ``*``, a name with all below it, an address or a network (10.0.0.0/8)."""
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        name = entry.lower().rpartition(":")[0] if ":" in entry else entry.lower()
        name = name.removeprefix("*").lstrip(".")
        return bool(name) and (host == name or host.endswith(f".{name}"))
