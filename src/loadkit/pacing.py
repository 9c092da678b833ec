"""When requests are sent: closed and open loops over a client, and stages of them.

A closed loop keeps N users busy: each sends its next request when the reply to the last one is in, so a slow server is asked
less. An open loop keeps to a schedule that is fixed before the first request, so a slow server is asked as often as a fast
one; latency counts from the planned time (`Record.due_ns`), and an arrival that finds no free slot is a record `not_sent`:
it is never delayed in silence, which would leave the worst latencies out ("coordinated omission").

Schedules are pure: offsets in nanoseconds from the start of their stage.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from loadkit.clock import Clock, SystemClock
from loadkit.errors import UsageError
from loadkit.record import Outcome, Record
from loadkit.request import Request

SPIN_NS = 1_500_000
"""Timers of uvloop count whole milliseconds; the rest of a wait is spent going round the loop, which goes on reading."""

Until = Callable[[int], Awaitable[None]]
"""Waits until a monotonic time (ns). Tests pass one that jumps."""


class Sender(Protocol):
    """What the loops need of a `Client`."""

    async def attempt(self, request: Request) -> Record: ...

    def refuse(self, request: Request, *, kind: str, message: str) -> Record: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """`users` work through `requests`; whoever is free takes the next one. After `duration_s` nothing new is begun."""

    requests: tuple[Request, ...]
    users: int
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Request i is due at `offsets_ns[i]`; at most `slots` are in flight (`None`: no limit)."""

    requests: tuple[Request, ...]
    offsets_ns: tuple[int, ...]
    slots: int | None = None


Stage = Closed | Open


def constant(rate_per_s: float, count: int) -> tuple[int, ...]:
    """Offsets of `count` arrivals at equal distances, the first at 0. Computed one by one: errors don't add up."""
    _check_rate(rate_per_s)
    return tuple(round(index * 1e9 / rate_per_s) for index in range(count))


def poisson(rate_per_s: float, count: int, *, seed: int) -> tuple[int, ...]:
    """Offsets of `count` arrivals of a Poisson process: gaps are exponential with mean 1 / rate. Same seed, same offsets."""
    _check_rate(rate_per_s)
    draw = random.Random(f"poisson:{seed}")
    gaps = (draw.expovariate(rate_per_s) for _ in range(count))
    return tuple(round(offset_s * 1e9) for offset_s in itertools.accumulate(gaps))


async def run_stages(
    sender: Sender,
    stages: Sequence[Stage],
    *,
    clock: Clock | None = None,
    until: Until | None = None,
    drain_s: float | None = None,
) -> list[Record]:
    """Run stages one after the other; a stage begins when all requests of the one before have ended.

    Requests that still run `drain_s` seconds after the last one of their stage was due (open) or the stage's duration was
    over (closed) are cancelled, and are records with that outcome; without `drain_s` the phases' timeouts end them.

    Returns:
        The records in the order in which their requests ended.
    """
    clock = SystemClock() if clock is None else clock
    until = _until(clock) if until is None else until
    records: list[Record] = []
    for stage in stages:
        if isinstance(stage, Closed):
            records += await closed_loop(sender, stage, clock=clock, until=until, drain_s=drain_s)
        else:
            records += await open_loop(sender, stage, clock=clock, until=until, drain_s=drain_s)
    return records


async def closed_loop(
    sender: Sender, stage: Closed, *, clock: Clock | None = None, until: Until | None = None, drain_s: float | None = None
) -> list[Record]:
    """Run one closed stage; `due_ns` is the moment at which a user became free and asked. See `run_stages`."""
    if stage.users < 1:
        raise UsageError(f"a closed loop needs at least one user, not {stage.users}", key="users")
    clock = SystemClock() if clock is None else clock
    until = _until(clock) if until is None else until
    over_ns = None if stage.duration_s is None else clock.monotonic_ns() + int(stage.duration_s * 1e9)
    queue = iter(stage.requests)
    records: list[Record] = []

    async def user() -> None:
        for request in queue:
            now_ns = clock.monotonic_ns()
            if over_ns is not None and now_ns >= over_ns:
                return
            record = await sender.attempt(replace(request, due_ns=now_ns))
            records.append(record)
            if record.outcome is Outcome.CANCELLED:
                return

    users: list[asyncio.Future[None]] = [asyncio.ensure_future(user()) for _ in range(min(stage.users, len(stage.requests)))]
    drained_ns = None if drain_s is None or over_ns is None else over_ns + int(drain_s * 1e9)
    await _finish(users, until, drained_ns)
    return records


async def open_loop(
    sender: Sender, stage: Open, *, clock: Clock | None = None, until: Until | None = None, drain_s: float | None = None
) -> list[Record]:
    """Run one open stage. See `run_stages`."""
    if len(stage.requests) != len(stage.offsets_ns):
        raise UsageError(f"{len(stage.requests)} requests for {len(stage.offsets_ns)} arrivals", key="offsets_ns")
    clock = SystemClock() if clock is None else clock
    until = _until(clock) if until is None else until
    records: list[Record] = []
    flying: set[asyncio.Task[None]] = set()

    async def fly(request: Request) -> None:
        records.append(await sender.attempt(request))

    due_ns = begin_ns = clock.monotonic_ns()
    try:
        for due_ns, request in _planned(stage, begin_ns):
            await until(due_ns)
            if stage.slots is not None and len(flying) >= stage.slots:
                message = f"all {stage.slots} slots were taken"
                records.append(sender.refuse(request, kind="no_free_slot", message=message))
                continue
            flight = asyncio.create_task(fly(request))
            flying.add(flight)
            flight.add_done_callback(flying.discard)
    except BaseException:  # cancelled, or a bug: nothing stays behind
        for flight in flying:
            flight.cancel()
        raise
    await _finish(list(flying), until, None if drain_s is None else due_ns + int(drain_s * 1e9))
    return records


def _planned(stage: Open, begin_ns: int) -> Iterator[tuple[int, Request]]:
    """Due times and requests, in order of time."""
    for offset_ns, request in sorted(zip(stage.offsets_ns, stage.requests, strict=True), key=lambda pair: pair[0]):
        due_ns = begin_ns + offset_ns
        yield due_ns, replace(request, due_ns=due_ns, slot=replace(request.slot, load="open"))


async def _finish(tasks: Sequence[asyncio.Future[None]], until: Until, drained_ns: int | None) -> None:
    """Wait for all; cancel what is left at `drained_ns`. A failure of ours in one of them ends the others, and is raised."""
    ending = asyncio.gather(*tasks)
    if drained_ns is None:
        await _or_cancel(ending)
        return
    limit = asyncio.ensure_future(until(drained_ns))
    try:
        await asyncio.wait((ending, limit), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await _or_cancel(asyncio.gather(*tasks))
    finally:
        limit.cancel()
        ending.cancel()


async def _or_cancel(ending: asyncio.Future[list[None]]) -> None:
    try:
        await ending
    finally:
        ending.cancel()


def _until(clock: Clock) -> Until:
    async def until(at_ns: int) -> None:
        while (left_ns := at_ns - clock.monotonic_ns()) > 0:
            await asyncio.sleep(max(0, left_ns - SPIN_NS) / 1e9)

    return until


def _check_rate(rate_per_s: float) -> None:
    if not rate_per_s > 0:
        raise UsageError(f"a rate is more than 0 per second, not {rate_per_s}", key="rate")
