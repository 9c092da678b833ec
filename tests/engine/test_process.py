"""The engine process itself, over its socket, against the simulator."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from loadkit.case import Case, Turn
from loadkit.engine.protocol import ended_record, line, request_line, target_message
from loadkit.record import CaseFacts, Outcome, Record, Slot
from loadkit.request import Target, first_request
from loadkit.run_folder import read_run
from simulator_process import Simulator, simulator

FACTS = CaseFacts(scenario="short", case="c", workload="speed")


class Engine:
    """One end of the socket, and what came through it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(30)
        command = [sys.executable, "-m", "loadkit.engine", str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        theirs.close()
        self._file = self.socket.makefile("rb")

    def say(self, message: bytes) -> None:
        self.socket.sendall(message)

    def until(self, op: str) -> dict[str, Any]:
        """The next message of that kind."""
        while raw := self._file.readline():
            message: dict[str, Any] = orjson.loads(raw)
            if message["op"] == op:
                return message
        raise AssertionError(f"the engine ended without {op!r}")

    def open(self, folder: Path, target: Target) -> None:
        self.say(
            line("open", folder=folder, worker="", target=target_message(target), keep_text=True, kernel_stamps=True,
                 offset_ns=0, offset_error_ns=0)
        )  # fmt: skip
        self.until("opened")

    def record(self) -> Record:
        return ended_record(self.until("ended"), Slot(), FACTS)


@pytest.fixture(scope="module")
def server() -> Iterator[Simulator]:
    with simulator(preset="spark") as started:
        yield started


@pytest.fixture
def target(server: Simulator) -> Target:
    return Target(base_url=server.base_url, model=server.model)


@pytest.fixture
def engine() -> Iterator[Engine]:
    started = Engine()
    yield started
    started._file.close()
    started.socket.close()
    assert started.process.wait(15) == 0


Ask = Callable[..., bytes]


@pytest.fixture
def ask(target: Target) -> Ask:
    def message(name: str, *, op: str = "send", max_tokens: int = 4, after: str = "") -> bytes:
        turn = Turn(messages=({"role": "user", "content": "Count to ten."},))
        case = Case(facts=FACTS, turns=(turn,), body={"max_tokens": max_tokens, "ignore_eos": True})
        request = first_request(case, id=name, target=target, slot=Slot(), run_id="run")
        if after:
            return request_line("follow", request, after=after)
        return request_line(op, replace(request, due_ns=time.monotonic_ns() if op == "send" else None))

    return message


def test_a_request_becomes_a_record_in_the_file_and_on_the_socket(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """The same record, but for its event columns and what the other side knows of it."""
    engine.open(tmp_path, target)
    engine.say(ask("a"))
    record = engine.record()
    (written,) = read_run(tmp_path).records
    assert (record.outcome, record.usage.completion_tokens) == (Outcome.COMPLETED, 4)
    assert record == replace(written, case=record.case, events=record.events)
    assert (written.case.case, written.case.max_tokens) == ("c", 4)


def test_held_requests_are_sent_together_when_released(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """Nothing is sent before, and all have the release as their due time."""
    engine.open(tmp_path, target)
    for name in "abcd":
        engine.say(ask(name, op="hold"))
    due_ns = time.monotonic_ns() + 200_000_000
    engine.say(line("release", ids=list("abcd"), due_ns=due_ns))
    records = [engine.record() for _ in "abcd"]
    assert {due_ns} == {record.due_ns for record in records}
    assert all(record.sent_ns is not None and record.sent_ns >= due_ns for record in records)


def test_held_requests_are_connected_before_they_are_due(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """The engine says when each can be released; connecting is then over, and no part of any lateness."""
    engine.open(tmp_path, target)
    for name in "abcd":
        engine.say(ask(name, op="hold"))
    assert {engine.until("held")["id"] for _ in "abcd"} == set("abcd")
    due_ns = time.monotonic_ns() + 50_000_000
    engine.say(line("release", ids=list("abcd"), due_ns=due_ns))
    records = [engine.record() for _ in "abcd"]
    assert all(record.connected_ns is not None and record.connected_ns < due_ns for record in records)
    assert all(record.outcome is Outcome.COMPLETED for record in records)


def test_a_server_that_is_gone_is_met_by_the_request_not_by_its_hold(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """What can't be connected ahead can be released, and has a record that says why it failed."""
    engine.open(tmp_path, replace(target, base_url="http://127.0.0.1:1/v1"))
    engine.say(ask("a", op="hold"))
    engine.until("held")
    engine.say(line("release", ids=["a"], due_ns=time.monotonic_ns()))
    assert Outcome.CONNECTION is engine.record().outcome


def test_heartbeats_count_the_tokens_of_answers_that_are_still_coming(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """They never fall, rise before the answer has ended, and at the end are what usage said."""
    engine.open(tmp_path, target)
    engine.say(ask("a", max_tokens=100))
    beats = [engine.until("pulse")["heartbeat"] for _ in range(2)]
    rising = next(beat for beat in beats if beat["tokens_total"])
    assert rising["in_flight"] == 1
    assert 0 < rising["tokens_total"] < 100
    record = engine.record()
    engine.say(ask("cut", max_tokens=4000))
    last = engine.until("pulse")["heartbeat"]
    assert last["tokens_total"] >= record.usage.completion_tokens == 100


def test_a_server_without_running_counts_leaves_the_tokens_so_far_unknown(engine: Engine, target: Target, tmp_path: Path):
    """Chunks are never counted instead."""
    engine.open(tmp_path, target)
    case = Case(
        facts=CaseFacts(scenario="short", case="c", workload="speed"),
        turns=(Turn(messages=({"role": "user", "content": "Count to ten."},)),),
        body={"max_tokens": 4000, "ignore_eos": True},
    )
    request = first_request(case, id="a", target=target, slot=Slot(), run_id="run", token_times=False)
    engine.say(request_line("send", replace(request, due_ns=time.monotonic_ns())))
    engine.until("pulse")
    assert engine.until("pulse")["heartbeat"]["tokens_total"] is None


def test_a_cancelled_request_has_a_record_that_says_so(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """Its stream is closed; the engine goes on."""
    engine.open(tmp_path, target)
    engine.say(ask("long", max_tokens=4000))
    time.sleep(0.5)
    engine.say(line("cancel", id="long"))
    assert Outcome.CANCELLED is engine.record().outcome
    engine.say(ask("b"))
    assert Outcome.COMPLETED is engine.record().outcome


def test_a_follower_is_sent_when_the_one_before_it_has_ended(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """It is due at that moment, over the same connection; a row may go on, from a held request as well."""
    engine.open(tmp_path, target)
    engine.say(ask("a", op="hold", max_tokens=20))
    engine.say(ask("b", after="a"))
    engine.until("held")
    engine.say(line("release", ids=["a"], due_ns=time.monotonic_ns()))
    engine.say(ask("c", after="b"))
    first, second, third = (engine.record() for _ in "abc")
    assert [first.id, second.id, third.id] == ["a", "b", "c"]
    assert {first.outcome, second.outcome, third.outcome} == {Outcome.COMPLETED}
    assert (second.due_ns, third.due_ns) == (first.closed_ns, second.closed_ns)
    assert second.sent_ns is not None and second.sent_ns >= second.due_ns
    assert second.connected_ns is third.connected_ns is None


def test_a_follower_of_one_that_has_ended_is_sent_now(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """Whoever lines it up may be slower than the answer; one that failed is an end too."""
    engine.open(tmp_path, replace(target, base_url="http://127.0.0.1:1/v1"))
    engine.say(ask("a"))
    assert engine.record().outcome is Outcome.CONNECTION
    asked_ns = time.monotonic_ns()
    engine.say(ask("b", after="a"))
    engine.say(ask("c", after="b"))
    records = [engine.record() for _ in "bc"]
    assert [record.id for record in records] == ["b", "c"]
    assert records[0].due_ns >= asked_ns


def test_a_follower_is_taken_back_only_before_it_begins(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """What it was to follow goes on, and one that has begun is left alone."""
    engine.open(tmp_path, target)
    engine.say(ask("a", max_tokens=40) + ask("b", after="a") + line("withdraw", id="b"))
    assert engine.until("unsent")["id"] == "b"
    assert engine.record().outcome is Outcome.COMPLETED
    engine.say(ask("c", after="a", max_tokens=40))
    time.sleep(0.3)
    engine.say(line("withdraw", id="c"))
    assert engine.record().outcome is Outcome.COMPLETED
    assert {start.id for start in read_run(tmp_path).starts} == {"a", "c"}


@pytest.mark.parametrize("op", ["hold", "send"])
def test_what_is_cancelled_takes_its_follower_along(engine: Engine, target: Target, ask: Ask, tmp_path: Path, op: str):
    """Its user was stopped, and sends nothing more; a follower can be cancelled by itself as well."""
    engine.open(tmp_path, target)
    engine.say(ask("a", op=op, max_tokens=4000) + ask("b", after="a"))
    time.sleep(0.5)
    engine.say(line("cancel", id="a") + line("cancel", id="b"))
    gone = {engine.until("unsent")["id"]} if op == "send" else {engine.until("unsent")["id"] for _ in "ab"}
    assert gone == ({"b"} if op == "send" else {"a", "b"})
    engine.say(ask("c", max_tokens=40) + ask("d", after="c") + line("cancel", id="d"))
    assert engine.until("unsent")["id"] == "d"
    assert engine.record().id == "c"
    assert not {"b", "d"} & {start.id for start in read_run(tmp_path).starts}


def test_when_locust_is_gone_no_follower_is_sent(target: Target, ask: Ask, tmp_path: Path):
    """The end of what it was to follow is the engine's own doing."""
    engine = Engine()
    engine.open(tmp_path, target)
    engine.say(ask("a", max_tokens=4000) + ask("b", after="a"))
    time.sleep(0.5)
    engine.socket.shutdown(socket.SHUT_RDWR)
    assert engine.process.wait(15) == 0
    assert [start.id for start in read_run(tmp_path).starts] == ["a"]


def test_when_locust_is_gone_the_engine_cancels_writes_and_ends(target: Target, ask: Ask, tmp_path: Path):
    """End of file on the socket is the only sign it needs; nothing that was sent is without a record."""
    engine = Engine()
    engine.open(tmp_path, target)
    engine.say(ask("long", max_tokens=4000))
    time.sleep(0.5)
    engine.socket.shutdown(socket.SHUT_RDWR)
    assert engine.process.wait(15) == 0
    assert [record.outcome for record in read_run(tmp_path).records] == [Outcome.CANCELLED]


def test_ctrl_c_and_sigterm_are_for_locust(engine: Engine, target: Target, ask: Ask, tmp_path: Path):
    """The engine ignores both, and is told by Locust what to do."""
    engine.open(tmp_path, target)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(engine.process.pid, number)
    engine.say(ask("a"))
    assert Outcome.COMPLETED is engine.record().outcome


def test_after_kill_9_the_folder_is_readable_and_knows_what_is_lost(target: Target, ask: Ask, tmp_path: Path):
    """A start without a record is a lost request."""
    engine = Engine()
    engine.open(tmp_path, target)
    engine.say(ask("done"))
    engine.record()
    engine.say(ask("lost", max_tokens=4000))
    time.sleep(0.5)
    engine.process.kill()
    engine.process.wait()
    run = read_run(tmp_path)
    assert ([record.id for record in run.records], [start.id for start in run.lost]) == (["done"], ["lost"])


def test_a_function_is_called_by_name_and_a_users_mistake_comes_back_as_one(engine: Engine):
    """Preflight and scenario files are read in the engine, where nothing is patched."""
    look = {"function": "loadkit.engine.preparation:look", "arguments": {"host": "http://127.0.0.1:1", "model": ""}}
    engine.say(line("call", number=7, **look))
    answer = engine.until("answer")
    assert answer["number"] == 7
    assert "can't be reached" in answer["mistake"]["problem"]
