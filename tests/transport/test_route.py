"""Which transport leads where."""

from pathlib import Path

import pytest

from loadkit.errors import UsageError
from loadkit.transport.route import Route, is_loopback, route

PROXY = {"HTTP_PROXY": "http://proxy:3128", "HTTPS_PROXY": "http://secure:3128"}


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("http://spark:8000/v1", {}, Route(secure=False)),
        ("https://spark/v1", {}, Route(secure=True)),
        ("http://spark:8000/v1", PROXY, Route(secure=False, proxy="http://proxy:3128")),
        ("https://spark/v1", PROXY, Route(secure=True, proxy="http://secure:3128")),
        ("http://spark:8000/v1", {"all_proxy": "proxy:3128"}, Route(secure=False, proxy="http://proxy:3128")),
        ("http://spark:8000/v1", {"http_proxy": "http://lower:1", **PROXY}, Route(secure=False, proxy="http://lower:1")),
        ("http://spark:8000/v1", {**PROXY, "NO_PROXY": "a,spark"}, Route(secure=False)),
        ("http://a.spark:8000/v1", {**PROXY, "NO_PROXY": ".spark"}, Route(secure=False)),
        ("http://10.1.2.3:8000/v1", {**PROXY, "no_proxy": "10.0.0.0/8"}, Route(secure=False)),
        ("http://sparkle:8000/v1", {**PROXY, "NO_PROXY": "spark"}, Route(secure=False, proxy="http://proxy:3128")),
        ("http://spark:8000/v1", {**PROXY, "NO_PROXY": "*"}, Route(secure=False)),
        ("http://127.0.0.1:8000/v1", PROXY, Route(secure=False)),
        ("http://localhost:8000/v1", PROXY, Route(secure=False)),
        ("http://[::1]:8000/v1", PROXY, Route(secure=False)),
    ],
)
def test_the_route_follows_url_and_environment(url: str, environment: dict[str, str], expected: Route):
    """TLS by scheme; proxies only for servers elsewhere, and not for those that NO_PROXY names."""
    assert route(url, environment) == expected


def test_only_plain_http_is_measured():
    """TLS, proxies and HTTP/2 take the ordinary transport."""
    ways = [Route(secure=False), Route(secure=True), Route(secure=False, proxy="http://p"), Route(secure=False, http2=True)]
    assert [way.measuring for way in ways] == [True, False, False, False]


@pytest.mark.parametrize("url", ["spark:8000", "ftp://spark/v1", "http:///v1", "", "/v1"])
def test_what_is_no_url_is_refused(url: str):
    """With an example of one."""
    with pytest.raises(UsageError, match="http://spark:8000"):
        route(url, {})


def test_a_ca_file_that_is_none_is_refused(tmp_path: Path):
    """Named, before anything is sent."""
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(UsageError, match=r"ca\.pem"):
        route("https://spark/v1", {}, ca_file=tmp_path / "ca.pem").tls()


def test_loopback_is_known_by_name_and_address():
    """All of 127/8, ::1 and names under localhost."""
    hosts = ["127.0.0.1", "127.9.9.9", "::1", "localhost", "a.localhost", "10.0.0.1", "spark"]
    assert [host for host in hosts if not is_loopback(host)] == ["10.0.0.1", "spark"]


@pytest.mark.parametrize("text", ["::garbage::", "foo://x", "http://", "http://proxy:99999999", "socks4://old"])
def test_a_proxy_that_is_none_is_refused(text: str):
    """With the variable's name; a server that needs no proxy does not care."""
    with pytest.raises(UsageError, match=r"ALL_PROXY: .*is no address of a proxy; write http://proxy:3128, or unset it"):
        route("http://spark:8000/v1", {"all_proxy": text})
    assert route("http://127.0.0.1:8000/v1", {"all_proxy": text}).measuring
