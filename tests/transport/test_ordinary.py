"""The ordinary transport tells the same story, with read times: TLS and proxies."""

import asyncio
import importlib.util
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loadkit.client import Client
from loadkit.deadlines import without_written
from loadkit.errors import UsageError
from loadkit.record import ErrorPhase, Outcome, Record
from loadkit.request import Target, Timeouts
from wire_servers import DONE, END, PATIENT, SSE, Close, Deaf, Kept, answer, chunk, delta, event, playing, request, whole


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    names = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-subj", "/CN=localhost"]
    ask = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*ask, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    return folder / "cert.pem"


@asynccontextmanager
async def secure(certificate: Path, *plays: object, **options: object) -> AsyncIterator[tuple[object, Client]]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    async with playing(*plays, ssl=context) as wire, Client(wire.target, ca_file=certificate, **options) as client:
        yield wire, client


async def once(certificate: Path, play: object, **timeouts: float) -> Record:
    async with secure(certificate, play) as (_, client):
        return await client.send(request(timeouts=replace(PATIENT, **timeouts)))


@pytest.mark.skipif(importlib.util.find_spec("h2") is not None, reason="h2 is installed")
def test_http2_without_its_package_is_a_mistake_with_a_remedy():
    """One line, not a traceback of somebody else's module."""
    with pytest.raises(UsageError, match="HTTP/2 needs a package that is not installed; pip install 'h2'"):
        Client(Target(base_url="https://spark/v1", model="m"), http2=True)


@pytest.mark.skipif(importlib.util.find_spec("socksio") is not None, reason="socksio is installed")
def test_a_socks_proxy_without_its_package_is_a_mistake_with_a_remedy(monkeypatch: pytest.MonkeyPatch):
    """A proxy variable that was set for other programs is named by what it asks for."""
    monkeypatch.setenv("ALL_PROXY", "socks5://10.0.0.1:1080")
    with pytest.raises(UsageError, match="a SOCKS proxy needs a package that is not installed; pip install 'socksio'"):
        Client(Target(base_url="https://spark/v1", model="m"), http2=True)


async def test_a_complete_answer_over_tls(certificate: Path):
    """Completed, with read times, and the record names the transport."""
    record = await once(certificate, answer("a", "b"))
    assert (record.outcome, record.answer, record.events.kinds) == (Outcome.COMPLETED, "ab", "aa")
    assert (record.transport, record.stamp_source, record.events.late_ns) == ("ordinary", "read", ())
    stamps = [record.due_ns, record.sent_ns, record.headers_ns, *record.events.at_ns, record.end_ns, record.closed_ns]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize(
    ("play", "outcome", "kind"),
    [
        ([Close()], Outcome.CONNECTION, "closed"),
        ([SSE, chunk(delta(content="a")), Close()], Outcome.STREAM_ERROR, "closed"),
        ([SSE, chunk(event(error="died")), chunk(DONE) + END], Outcome.STREAM_ERROR, "error_object"),
        ([whole("503 No", b'{"error":"full"}')], Outcome.HTTP_ERROR, "503"),
    ],
    ids=["closed", "cut", "error object", "503"],
)
async def test_failures_are_the_same_outcomes(certificate: Path, play: object, outcome: Outcome, kind: str):
    """One class per failure, whichever transport met it."""
    record = await once(certificate, play)
    assert (record.outcome, record.failure.kind) == (outcome, kind)


async def test_silence_ends_with_its_phase(certificate: Path):
    """Sending, which ends here with the headers, and tokens have their limits."""
    record = await once(certificate, [Deaf()], send_s=0.1, headers_s=0.2)
    assert (record.outcome, record.failure.phase) == (Outcome.TIMEOUT, ErrorPhase.SEND)
    record = await once(certificate, [SSE, chunk(delta(content="a")), Deaf()], between_tokens_s=0.3)
    assert (record.outcome, record.failure.phase, record.answer) == (Outcome.TIMEOUT, ErrorPhase.STREAM, "a")


def test_an_answer_in_one_piece_may_take_as_long_to_begin_as_over_plain_http():
    """Sending ends with the headers here, so their limit counts too: 60 s of sending would cut a long prefill."""
    limits = Timeouts(send_s=60, headers_s=30, first_token_s=600)
    assert [without_written(limits, whole=whole).send_s for whole in (False, True)] == [90, 660]


async def test_an_untrusted_certificate_is_a_failure_to_connect(certificate: Path):
    """Said as TLS, not as a refused connection."""
    async with secure(certificate, answer("a")) as (wire, _), Client(wire.target) as client:
        record = await client.send(request())
    assert (record.outcome, record.failure.kind, record.failure.phase) == (Outcome.CONNECTION, "tls", ErrorPhase.CONNECT)


async def test_nobody_listens_over_tls(certificate: Path):
    """Refused."""
    async with playing([]) as wire:
        target = replace(wire.target, base_url=wire.base_url.replace("http:", "https:"))
    async with Client(target) as client:
        record = await client.send(request())
    assert (record.outcome, record.failure.kind) == (Outcome.CONNECTION, "refused")


async def test_cancelling_closes_the_connection(certificate: Path):
    """The server sees it, the journal has it."""
    journal = Kept()
    async with secure(certificate, [SSE, chunk(delta(content="a")), Deaf()], journal=journal) as (wire, client):
        task = asyncio.ensure_future(client.send(request()))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(wire.gone_now.wait(), 5)
    assert journal.lines[1].outcome is Outcome.CANCELLED


async def test_more_than_a_hundred_at_once(certificate: Path):
    """The limit of 100 connections that this transport has by default is lifted."""
    async with secure(certificate, answer("a")) as (wire, client):
        records = await asyncio.gather(*(client.send(request(f"r-{number}")) for number in range(120)))
        assert {record.outcome for record in records} == {Outcome.COMPLETED}
        assert wire.connections == 120


async def test_a_proxy_is_used_for_a_server_elsewhere(monkeypatch: pytest.MonkeyPatch):
    """The request goes to the proxy, with the server's whole URL."""
    async with playing(answer("a")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        async with Client(Target(base_url="http://spark.invalid:8000/v1", model="m")) as client:
            record = await client.send(request())
        assert (record.outcome, record.transport) == (Outcome.COMPLETED, "ordinary")
        assert proxy.heads[0].startswith(b"POST http://spark.invalid:8000/v1/chat/completions ")
