"""The engine's loop: messages in, requests sent, records out, for one Locust process until its socket closes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import orjson

from loadkit.client import Body, Client, body_of
from loadkit.clock import Clock, anchor
from loadkit.engine.calls import answered
from loadkit.engine.followers import Followers, Ready
from loadkit.engine.ledger import Ledger
from loadkit.engine.probe import LoopProbe
from loadkit.engine.protocol import JSON, ended_line, line, request_of, target_of, verdict_of
from loadkit.errors import LoadkitError
from loadkit.record import AnchorLine, AnswerVerdict, Heartbeat, Outcome, Record
from loadkit.request import Request
from loadkit.run_folder import records_file

BEAT_S = 1.0
STATM = Path("/proc/self/statm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Engine(asyncio.Protocol):
    """Speaks `loadkit.engine.protocol` on its transport; `api_key` is the only thing that comes from the environment."""

    def __init__(self, *, clock: Clock, api_key: str | None, ended: Callable[[BaseException | None], None]):
        self._clock = clock
        self._api_key = api_key
        self._ended = ended
        self._rest = b""
        self._outbox: list[bytes] = []
        self._held: dict[str, Ready] = {}
        self._followers = Followers()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._run: Run | None = None
        self._ops: dict[str, Callable[[JSON], None]] = {
            "open": self._open,
            "send": lambda message: self._send(request_of(message["request"])),
            "hold": self._hold,
            "release": self._release,
            "follow": self._follow,
            "withdraw": lambda message: self._withdraw(message["id"]),
            "cancel": self._cancel,
            "check": self._check,
            "call": lambda message: self._chore(self._call(message)),
            "close": lambda _: self._chore(self._close()),
        }

    # ---- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._loop = asyncio.get_running_loop()
        self._say("ready", pid=os.getpid())

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            message = orjson.loads(raw)
            self._ops[message["op"]](message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Locust is gone, so nobody waits for answers: cancel, write what ended, and stop."""
        self._chore(self._leave())

    def _say(self, op: str, **values: object) -> None:
        self._tell(line(op, **values))

    def _tell(self, message: bytes) -> None:
        """What is said in one round of the loop goes in one write: each one wakes Locust, which may share this core."""
        if not self._outbox:
            self._loop.call_soon(self._post)
        self._outbox.append(message)

    def _post(self) -> None:
        messages = b"".join(self._outbox)
        self._outbox.clear()
        if not self._transport.is_closing():
            self._transport.write(messages)

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chore_done)

    def _chore_done(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        self._fail(task)

    def _fail(self, task: asyncio.Task[None]) -> None:
        """A bug of ours ends the process with its traceback: Locust then says that the engine died, and where to look."""
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._ended(bug)

    # ---- one run

    def _open(self, message: JSON) -> None:
        try:
            self._run = Run(
                message, api_key=self._api_key, clock=self._clock, trouble=lambda text: self._say("trouble", problem=text)
            )
        except LoadkitError as problem:
            self._say("failed", problem=str(problem))
            return
        self._chore(self._opened(self._run))

    async def _opened(self, run: Run) -> None:
        await run.client.__aenter__()
        gc.collect()
        gc.freeze()
        gc.disable()  # half of the time that the end of a request takes; requests leave no cycles, and idle seconds collect
        self._chore(self._pulse(run))
        self._say("opened")

    async def _close(self) -> None:
        await self._cancel_all()
        run, self._run = self._run, None
        if run is not None:
            elsewhere = await run.close()
            self._say("closed", unwritten=len(run.ledger.unwritten), elsewhere=elsewhere)
        else:
            self._say("closed", unwritten=0, elsewhere=None)

    async def _leave(self) -> None:
        await self._cancel_all()
        run, self._run = self._run, None
        if run is not None:
            await run.close()
        self._ended(None)

    async def _cancel_all(self) -> None:
        self._held.clear()
        self._followers.clear()
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def _pulse(self, run: Run) -> None:
        """A heartbeat every second, and the record file brought to the disk."""
        probe = LoopProbe(asyncio.get_running_loop(), self._clock.monotonic_ns)
        while self._run is run:
            await asyncio.sleep(BEAT_S)
            await run.client.catch_up()
            if self._run is run:
                self._say("pulse", heartbeat=run.beat(in_flight=len(self._tasks), loop_late_max_ns=probe.taken()))
                if not self._tasks:
                    gc.collect()
                await asyncio.to_thread(run.ledger.sync)
        probe.stop()

    # ---- requests

    def _send(self, request: Request, body: Body | None = None, begin: asyncio.Event | None = None) -> None:
        assert self._run is not None, "a request before `open`"
        task = self._loop.create_task(self._sent(self._run, request, body, begin))
        self._tasks[request.id] = task
        task.add_done_callback(lambda task: self._sending_done(request.id, task))

    async def _sent(self, run: Run, request: Request, body: Body | None, begin: asyncio.Event | None) -> None:
        if request.body_file is not None and body is None:  # reading a long document is before its time, not in it
            body = await asyncio.to_thread(body_of, request)
            request = replace(request, due_ns=self._clock.monotonic_ns())
        record = await run.client.attempt(request, body=body, begin=begin, ended=partial(self._send_next, request.id))
        if record.outcome is Outcome.CANCELLED:
            self._drop_next(request.id)
        self._tell(ended_line(record, run.judged(record, request.checks)))

    def _sending_done(self, name: str, task: asyncio.Task[None]) -> None:
        del self._tasks[name]
        if task.cancelled():  # before the client began: there is nothing to tell but that
            self._say("unsent", id=name)
            self._drop_next(name)
        else:
            self._send_next(name, self._clock.monotonic_ns())  # one that came while the record was made
        self._fail(task)

    def _hold(self, message: JSON) -> None:
        """Everything that takes time happens here, before the request is due; connecting too."""
        request = request_of(message["request"])
        self._held[request.id] = Ready(request, body_of(request))
        assert self._run is not None, "a request before `open`"
        self._chore(self._make_ready(self._run, request))

    async def _make_ready(self, run: Run, request: Request) -> None:
        await run.client.open_ahead(len(self._held), connect_s=request.timeouts.connect_s)
        self._say("held", id=request.id)

    def _release(self, message: JSON) -> None:
        """Each gets as far as its first byte; that one waits for the moment."""
        released = [self._held.pop(name) for name in message["ids"] if name in self._held]
        begin = asyncio.Event()
        for request, body in released:
            self._send(replace(request, due_ns=message["due_ns"]), body, begin)
        self._chore(self._begin_at(begin, message["due_ns"]))

    async def _begin_at(self, begin: asyncio.Event, due_ns: int) -> None:
        """Timers of the loop are good to a millisecond, so the last one is waited out by yielding."""
        while (left_ns := due_ns - self._clock.monotonic_ns()) > 0:
            await asyncio.sleep(max(0.0, left_ns / 1e9 - 0.0015))
        begin.set()

    def _follow(self, message: JSON) -> None:
        request, after = request_of(message["request"]), message["after"]
        self._followers.add(Ready(request, body_of(request)), after)
        if after not in self._tasks and after not in self._held and after not in self._followers:
            self._send_next(after, self._clock.monotonic_ns())

    def _send_next(self, name: str, due_ns: int) -> None:
        """A request has ended, at `due_ns`: send the one behind it, which is due since then."""
        if (ready := self._followers.take(name)) is not None:
            self._send(replace(ready.request, due_ns=due_ns), ready.body)

    def _drop_next(self, name: str) -> None:
        """A request was cancelled or taken back, and so its user has nothing more to send."""
        while (ready := self._followers.take(name)) is not None:
            name = ready.request.id
            self._say("unsent", id=name)

    def _withdraw(self, name: str) -> None:
        if self._followers.withdraw(name):
            self._say("unsent", id=name)
            self._drop_next(name)

    def _cancel(self, message: JSON) -> None:
        name = message["id"]
        held = self._held.pop(name, None)
        task = self._tasks.get(name)
        if task is not None:
            task.cancel()
        elif held is not None:
            self._say("unsent", id=name)
            self._drop_next(name)
        else:
            self._withdraw(name)

    def _check(self, message: JSON) -> None:
        if self._run is not None:
            self._run.ledger.note(verdict_of(message["verdict"]))

    async def _call(self, message: JSON) -> None:
        self._tell(await answered(message))


class Run:
    """What lives from `open` to `close`: the client with its connections, and the record file."""

    def __init__(self, message: JSON, *, api_key: str | None, clock: Clock, trouble: Callable[[str], None]):
        self._clock = clock
        self._worker = message["worker"]
        self.ledger = Ledger(
            records_file(Path(message["folder"]), self._worker), keep_text=message["keep_text"], trouble=trouble
        )
        self.ledger.note(self._anchor(message))
        self.client = Client(
            target_of(message["target"], api_key),
            clock=clock,
            journal=self.ledger,
            kernel_stamps=message["kernel_stamps"],
            keep_text=True,
        )

    async def close(self) -> Path | None:
        with contextlib.suppress(OSError):  # a connection that is gone already is closed
            await self.client.__aexit__(None, None, None)
        return self.ledger.close()

    def judged(self, record: Record, checks: tuple[JSON, ...]) -> list[AnswerVerdict]:
        """Verdicts of the checks that the scenario declares, written beside the record."""
        if not checks:
            return []
        from loadkit import checks as judges  # brings a JSON-schema library: only runs that check pay for it

        verdicts = [judges.judge(record, spec) for spec in checks]
        for verdict in verdicts:
            self.ledger.note(verdict)
        return verdicts

    def beat(self, *, in_flight: int, loop_late_max_ns: int) -> Heartbeat:
        """Written, so that a gap in it shows when the host stood still; the ledger also tries its kept lines again."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        heartbeat = Heartbeat(
            at_ns=self._clock.monotonic_ns(),
            in_flight=in_flight,
            cpu_ns=int((used.ru_utime + used.ru_stime) * 1e9),
            loop_late_max_ns=loop_late_max_ns,
            rss_bytes=_rss_bytes(),
            tokens_total=self.client.tokens_seen,
            worker=self._worker,
        )
        self.ledger.note(heartbeat)
        self.ledger.flush()
        return heartbeat

    def _anchor(self, message: JSON) -> AnchorLine:
        now = anchor(self._clock)
        return AnchorLine(
            worker=self._worker,
            pid=os.getpid(),
            boot_id=BOOT_ID.read_text().strip() if BOOT_ID.exists() else "",
            monotonic_ns=now.monotonic_ns,
            wall_ns=now.wall_ns,
            error_ns=now.error_ns,
            offset_ns=message["offset_ns"],
            offset_error_ns=message["offset_error_ns"],
        )


def _rss_bytes() -> int:
    """Resident memory now; where there is no /proc, the peak."""
    try:
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
