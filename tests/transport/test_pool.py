"""Connections that idle too long are closed before the server does it."""

import asyncio

from hearing import Hearing
from loadkit.clock import SystemClock
from loadkit.transport.first_reads import FirstReads
from loadkit.transport.pool import Pool
from loadkit.transport.stamps import Stamps
from wire_servers import answer, playing, request


class Jumping(SystemClock):
    """The system's clock, plus jumps."""

    jump_ns = 0

    def monotonic_ns(self) -> int:
        return SystemClock.monotonic_ns() + self.jump_ns


async def exchange(pool: Pool) -> None:
    connection = await pool.connection(5)
    receiver = Hearing()
    connection.exchange(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n", b"", receiver)
    await receiver.over


async def test_an_expired_connection_is_not_used_again():
    """After 4 s idle it is closed and another one opened; before, it is used."""
    async with playing(answer("a")) as wire:
        clock = Jumping()
        stamps = Stamps(clock)
        host, port = wire.base_url.removeprefix("http://").removesuffix("/v1").split(":")
        pool = Pool(host, int(port), clock=clock, stamps=stamps, first_reads=FirstReads(clock.monotonic_ns))
        await exchange(pool)
        clock.jump_ns += 3_900_000_000
        await exchange(pool)
        assert wire.connections == 1
        clock.jump_ns += 4_100_000_000
        await exchange(pool)
        assert wire.connections == 2
        pool.close()
        stamps.close()


async def test_idle_connections_are_closed_by_themselves():
    """The server sees them go before its own limit, also when no further request comes."""
    async with playing(answer("a")) as wire:
        clock = Jumping()
        stamps = Stamps(clock)
        host, port = wire.base_url.removeprefix("http://").removesuffix("/v1").split(":")
        pool = Pool(host, int(port), clock=clock, stamps=stamps, first_reads=FirstReads(clock.monotonic_ns))
        await asyncio.gather(*(exchange(pool) for _ in range(3)))
        clock.jump_ns += 4_100_000_000
        await asyncio.wait_for(wire.gone_now.wait(), 5)
        await asyncio.sleep(0.1)
        assert wire.gone == 3
        pool.close()
        stamps.close()


async def test_connections_that_are_opened_ahead_are_those_that_are_used():
    """Asked for one after another, as holds come, there are as many as are held; young idle ones count, old ones don't."""
    async with playing(answer("a")) as wire:
        clock = Jumping()
        stamps = Stamps(clock)
        host, port = wire.base_url.removeprefix("http://").removesuffix("/v1").split(":")
        pool = Pool(host, int(port), clock=clock, stamps=stamps, first_reads=FirstReads(clock.monotonic_ns))
        await asyncio.gather(*(pool.open_ahead(count, 5) for count in (1, 2, 3)))
        await asyncio.gather(*(exchange(pool) for _ in range(3)))
        await pool.open_ahead(3, 5)
        assert wire.connections == 3
        clock.jump_ns += 2_100_000_000
        await pool.open_ahead(2, 5)
        await asyncio.gather(*(exchange(pool) for _ in range(2)))
        assert wire.connections == 5
        pool.close()
        stamps.close()


def test_requests_of_a_second_are_one_pool_long_after_a_tick(tmp_path):
    """Connections that are given back after the pool was swept are found again."""

    async def run() -> int:
        from loadkit.client import Client

        async with playing(answer("a")) as wire, Client(wire.target) as client:
            for number in range(30):
                await client.send(request(f"r-{number}"))
                await asyncio.sleep(0.05)
            return wire.connections

    assert asyncio.run(run()) == 1
