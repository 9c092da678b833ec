"""The server's sampler against real sockets: honest, slow, dripping, failing, talking nonsense, gone, started anew."""

import time
from typing import Any

import pytest

from loadkit.clock import SystemClock
from loadkit.errors import UsageError
from loadkit.sidecar import server_process
from loadkit.sidecar.samples import KEYS, Missing
from loadkit.sidecar.server import Server, base_url
from sidecar.servers import Processes


def server(url: str) -> Server:
    return Server(url, clock=SystemClock(), find=lambda started: server_process.find(url, started, container=None))


def test_an_honest_server_is_read_and_seen(processes: Processes):
    """Identity first, then the figures; the port's owner was started when the server says: it is on this host."""
    identity, data = server(processes.serve()).look()
    assert (identity["event"], identity["version"], identity["cache_config"]["block_size"]) == ("identity", "0.32.0", "128")
    assert (data["up"], data["health"], data["dialect"], data["server_seen"]) == (True, 200, "vllm", True)
    assert (data["prefix_query_tokens"], data["prefix_hit_tokens"], data["success"]["length"]) == (1227, 768, 3)
    assert data.keys() <= KEYS["server"].keys()
    assert identity.keys() <= KEYS["server"].keys()


def test_secrets_of_server_info_stay_out(processes: Processes):
    """/server_info may hold the key that clients must send."""
    identity, _ = server(processes.serve()).look()
    assert identity["server_info"] == {"vllm_config": {"api_key": "***", "model": "m"}}


def test_the_identity_is_told_once(processes: Processes):
    """Later looks give the figures alone."""
    own = server(processes.serve())
    own.look()
    assert [data.get("event") for data in own.look()] == [None]


def test_a_forward_is_not_this_host(processes: Processes):
    """The port belongs to another process than the one that the server says it is: a tunnel."""
    behind = processes.serve()
    time.sleep(1.2)  # start times are compared to a second
    _, data = server(processes.forward(behind)).look()
    assert data["server_seen"] is False
    assert data["server_how"].endswith("which is not the server: a tunnel or forward")


def test_another_host_is_not_this_host():
    """TEST-NET-1 is nobody's address here."""
    found = server_process.find("http://192.0.2.1:8000", 1.0, container=None)
    assert found == {"server_seen": False, "server_how": "192.0.2.1 is another host"}


def test_a_restart_is_told(processes: Processes):
    """Another start time under the same address: restarted, and its identity anew."""
    url = processes.serve()
    own = server(url)
    own.look()
    processes.stop(url)
    with pytest.raises(Missing, match="nothing listens"):
        own.look()
    processes.serve(port=int(url.rpartition(":")[2]))
    identity, data = own.look()
    assert (identity["event"], data["restarted"]) == ("identity", True)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("slow", "/metrics gave no whole answer within 2 s"),
        ("drip", "/metrics gave no whole answer within 2 s"),
        ("garbage", "names no metric of"),
        ("html", "names no metric of"),
        ("error", "/metrics answered 500"),
    ],
)
def test_bad_metrics_are_said_and_the_server_is_up_all_the_same(processes: Processes, way: str, words: str):
    """/health answers: the server lives, only its figures are unknown."""
    with pytest.raises(Missing, match=words) as caught:
        server(processes.serve(way)).look()
    assert caught.value.data == {"up": True, "health": 200}


def test_a_server_that_is_not_there_is_down():
    """Refused: down, with the address."""
    with pytest.raises(Missing, match="nothing listens at http") as caught:
        server("http://127.0.0.1:1").look()
    assert caught.value.data == {"up": False}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://spark:8000/v1", "http://spark:8000"),
        ("http://spark:8000/v1/", "http://spark:8000"),
        ("spark:8000", "http://spark:8000"),
        ("https://spark/prefix/v1", "https://spark/prefix"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_the_api_path_is_not_the_servers(written: str, meant: str):
    """/metrics lies beside /v1, under the same prefix."""
    assert base_url(written) == meant


@pytest.mark.parametrize("written", ["ftp://x", "http://", "http://[::1", "http://x:port", "http://x:99999"])
def test_no_address_is_a_mistake_with_a_remedy(written: str):
    """A typing mistake ends before anything starts."""
    with pytest.raises(UsageError, match="write http://127"):
        base_url(written)


def test_looks_share_one_connection(processes: Processes):
    """Ten looks leave one socket, so that the server's access log and its sockets stay small."""
    own = server(processes.serve())
    wires: set[Any] = set()
    for _ in range(10):
        own.look()
        wires.add(id(own._wire._socket))
    assert len(wires) == 1
