"""The engine process as Locust sees it: a greenlet writes, a greenlet reads, users wait for their own answer."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gevent
import orjson
from gevent import subprocess
from gevent.event import AsyncResult, Event
from gevent.queue import Queue

from loadkit.engine.protocol import (
    JSON,
    ended_record,
    heartbeat_of,
    line,
    request_line,
    target_message,
    verdict_of,
)
from loadkit.errors import EngineDied, FolderError, LoadkitError, UsageError
from loadkit.record import AnswerVerdict, CaseFacts, Heartbeat, Record, Slot
from loadkit.request import Request, Target

CHUNK_BYTES = 1 << 18

HEARD_PER_TURN = 8
"""Answers that are told before their users may ask for the next ones: where all answers end together, as those of one length
do, the first of the next requests would wait for the last of the answers. Not each alone, because a message to the engine
wakes it, and on a shared core it goes first."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one request: its record (event columns cut to first, first answer, last) and the checks' verdicts."""

    record: Record
    verdicts: tuple[AnswerVerdict, ...] = ()

    @property
    def text(self) -> str:
        """The answer, empty where there was none."""
        return self.record.answer or ""


class Waiting(NamedTuple):
    """Who waits for the end of a request, and what its record has from it."""

    result: AsyncResult
    slot: Slot
    case: CaseFacts


class Unsent(LoadkitError):
    """A request was taken back before anything of it began; it has no record."""


class Listener:
    """What an engine tells besides answers; the session overrides what it wants to hear."""

    def abandoned(self, reply: Reply) -> None:
        """A request ended for which nobody waits any more (its user was stopped)."""

    def pulse(self, heartbeat: Heartbeat) -> None:
        """The engine is alive."""

    def trouble(self, problem: str) -> None:
        """Records can't be written at the moment."""

    def engine_died(self, problem: EngineDied) -> None:
        """The process is gone, and was not asked to go."""


PRIORITY_STEPS = 10
"""Steps of niceness between this process and its engine: about nine times its share of a core that both want."""


class Bridge:
    """One engine process. All methods may be called from any greenlet of the process that started it; none from another."""

    def __init__(self, listener: Listener):
        self._listener = listener
        self._outbox: Queue[bytes | None] = Queue()
        self._waiting: dict[str, Waiting] = {}
        self._calls: dict[int, AsyncResult] = {}
        self._held: dict[str, Callable[[], None]] = {}
        self._abandoned: set[str] = set()
        self._state: AsyncResult | None = None
        self._idle = Event()
        self._idle.set()
        self._leaving = False
        self.died: EngineDied | None = None
        self._process: Any = None

    def start(self) -> None:
        """Start the process; it needs a second for its imports, and takes messages meanwhile."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "loadkit.engine", str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
        )
        _put_first(self._process.pid)
        theirs.close()
        self._socket = ours
        self._writer = gevent.spawn(self._write)
        self._reader = gevent.spawn(self._read)

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    # ---- a run

    def open(self, *, folder: str, worker: str, target: Target, keep_text: bool, offset_ns: int, offset_error_ns: int) -> None:
        """Open the record file and make the client; waits until both are there.

        Raises:
            FolderError: the record file can't be opened.
        """
        answer = self._ask(
            "open",
            folder=folder,
            worker=worker,
            target=target_message(target),
            keep_text=keep_text,
            kernel_stamps=True,
            offset_ns=offset_ns,
            offset_error_ns=offset_error_ns,
        )
        if answer["op"] == "failed":
            raise FolderError(answer["problem"])

    def close(self) -> JSON:
        """Close connections and record file; returns {unwritten, elsewhere}."""
        return self._ask("close")

    # ---- requests

    def send(self, request: Request) -> AsyncResult:
        """Send it now. The result is a `Reply`, or `Unsent` or `EngineDied` is raised from it."""
        return self._expect("send", request)

    def hold(self, request: Request, ready: Callable[[], None]) -> AsyncResult:
        """Have it ready until `release`; `ready` is called when it is."""
        self._held[request.id] = ready
        return self._expect("hold", request)

    def follow(self, request: Request, after: str) -> AsyncResult:
        """Have it ready, and send it as soon as the request `after` has ended, or now where it has. A row of one user.

        It is due when `after` ended; the result is as `send` says, and `Unsent` where `after` was cancelled.
        """
        return self._expect("follow", request, after=after)

    def withdraw(self, name: str) -> None:
        """Take a follower back if it has not begun; otherwise it goes on."""
        self._say(line("withdraw", id=name))

    def release(self, names: list[str], due_ns: int) -> None:
        self._say(line("release", ids=names, due_ns=due_ns))

    def cancel(self, name: str) -> None:
        """Never blocks: it is called while a greenlet is being killed."""
        self._say(line("cancel", id=name))

    def cancel_all(self) -> None:
        for name in list(self._waiting):
            self.cancel(name)

    def abandon(self, name: str) -> None:
        """Cancel a request whose user is being killed; its record goes to the listener."""
        if name in self._waiting:
            self._abandoned.add(name)
            self.cancel(name)

    def check(self, verdict: AnswerVerdict) -> None:
        """Put a verdict of a locustfile's own check into the record file."""
        self._say(line("check", verdict=verdict))

    def settle(self, timeout_s: float) -> bool:
        """Wait until every request has ended; False when the time ran out first."""
        return bool(self._idle.wait(timeout=timeout_s))

    # ---- calls

    def call(self, function: str, **arguments: Any) -> Any:
        """Run `module:function` in the engine and return what it returns, as JSON.

        Raises:
            UsageError: the function found a mistake of the user.
        """
        number = len(self._calls) + 1
        result = self._calls[number] = AsyncResult()
        self._say(line("call", number=number, function=function, arguments=arguments))
        return value_of(result.get())

    # ---- the end

    def stop(self) -> None:
        """Close the socket, upon which the engine ends; idempotent."""
        if self._leaving or self._process is None:
            return
        self._leaving = True
        self._outbox.put(None)
        self._writer.join(timeout=1)
        try:
            self._process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reader.kill()
        self._socket.close()

    # ---- inside

    def _expect(self, op: str, request: Request, **more: Any) -> AsyncResult:
        result = AsyncResult()
        if self.died is not None:
            result.set_exception(self.died)
            return result
        self._waiting[request.id] = Waiting(result, request.slot, request.case)
        self._idle.clear()
        self._say(request_line(op, request, **more))
        return result

    def _ask(self, op: str, **values: Any) -> JSON:
        """`open` and `close` come one at a time, so one place for the answer is enough."""
        if self.died is not None:
            raise self.died
        self._state = AsyncResult()
        self._say(line(op, **values))
        answer: JSON = self._state.get()
        return answer

    def _say(self, message: bytes) -> None:
        self._outbox.put_nowait(message)

    def _write(self) -> None:
        """One greenlet writes: two greenlets in `sendall` on one gevent socket are refused."""
        try:
            while (message := self._outbox.get()) is not None:
                pieces = [message]
                while not self._outbox.empty() and self._outbox.queue[0] is not None:
                    pieces.append(self._outbox.get_nowait())
                self._socket.sendall(b"".join(pieces))
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the engine is gone; the reader sees the same and says so

    def _read(self) -> None:
        rest = b""
        while data := self._received():
            *lines, rest = (rest + data).split(b"\n")
            for number, raw in enumerate(lines, 1):
                self._heard(orjson.loads(raw))
                if number % HEARD_PER_TURN == 0:
                    gevent.sleep(0)
        if not self._leaving:
            self._gone()

    def _received(self) -> bytes:
        try:
            return self._socket.recv(CHUNK_BYTES)
        except OSError:
            return b""

    def _heard(self, message: JSON) -> None:
        match message["op"]:
            case "ended":
                self._ended(message)
            case "held":
                self._held.pop(message["id"], _nobody)()
            case "unsent":
                self._over(message["id"], lambda waiting: waiting.set_exception(Unsent(message["id"])))
            case "pulse":
                self._listener.pulse(heartbeat_of(message["heartbeat"]))
            case "trouble":
                self._listener.trouble(message["problem"])
            case "answer":
                self._calls[message["number"]].set(message)
            case "opened" | "closed" | "failed":
                if self._state is not None:
                    self._state.set(message)

    def _ended(self, message: JSON) -> None:
        name = message["record"][0]
        _, slot, case = self._waiting[name]
        reply = Reply(ended_record(message, slot, case), tuple([verdict_of(verdict) for verdict in message["verdicts"]]))
        if name in self._abandoned:
            self._listener.abandoned(reply)
        self._over(name, lambda waiting: waiting.set(reply))

    def _over(self, name: str, tell: Callable[[AsyncResult], None]) -> None:
        waiting = self._waiting.pop(name, None)
        self._held.pop(name, None)
        self._abandoned.discard(name)
        if waiting is not None:
            tell(waiting.result)
        if not self._waiting:
            self._idle.set()

    def _gone(self) -> None:
        """Everybody who waits is told; what was recorded is in the folder."""
        code = self._process.wait()
        self.died = EngineDied(f"the engine process ended by itself (exit code {code}); its message is above, if it left one")
        for result in [
            *(waiting.result for waiting in self._waiting.values()),
            *self._calls.values(),
            *filter(None, [self._state]),
        ]:
            if not result.ready():
                result.set_exception(self.died)
        self._waiting.clear()
        self._idle.set()
        self._listener.engine_died(self.died)


def _put_first(engine_pid: int) -> None:
    """The engine stamps, this process counts: where both want one core, the engine goes first.

    Without it a burst of answers that Locust works through held the engine off its sockets for 20 ms (64 streams on one core),
    and first tokens merged with later ones. Only a privileged process may raise a priority; any may lower its own.
    """
    own = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, engine_pid, own - PRIORITY_STEPS)
    except PermissionError:
        if own <= os.getpriority(os.PRIO_PROCESS, engine_pid):
            os.setpriority(os.PRIO_PROCESS, 0, own + PRIORITY_STEPS)


def _nobody() -> None:
    """The request was taken back meanwhile."""


def call_apart(function: str, **arguments: Any) -> Any:
    """Run `module:function` in a short-lived process of its own: nothing there is patched, and its memory goes with it.

    Raises:
        UsageError: the function found a mistake of the user.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "loadkit.engine.calls"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    )
    try:
        answer, _ = process.communicate(line("call", number=0, function=function, arguments=arguments))
    finally:
        if process.poll() is None:  # Ctrl-C: nobody waits for it any more
            process.kill()
            process.wait()
    if not answer:
        raise EngineDied(f"the process for {function} ended by itself (exit code {process.returncode})")
    return value_of(orjson.loads(answer))


def value_of(answer: JSON) -> Any:
    """The value of an `answer` message, or what it says went wrong."""
    if "mistake" in answer:
        mistake = dict(answer["mistake"])
        raise UsageError(mistake.pop("problem"), **mistake)
    if "fault" in answer:
        raise RuntimeError(answer["fault"])
    return answer["value"]
