"""The conductor leads stages as the plan says, whatever happens; desks are played by the test."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gevent
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.case import Case, Turn
from loadkit.clock import SystemClock
from loadkit.engine.protocol import items_of
from loadkit.front import messages
from loadkit.front.conductor import Conductor
from loadkit.plan import Plan, Stage, stage
from loadkit.record import CaseFacts

Fails = Callable[[str], bool]


def cases(count: int, prefix: str = "c") -> list[Case]:
    facts = (CaseFacts(scenario="short", case=f"{prefix}{number}", workload="speed") for number in range(count))
    return [Case(facts=one, turns=(Turn(),)) for one in facts]


@dataclass
class Desks:
    """Workers with seats that do what they are dealt, and keep a diary."""

    workers: int = 1
    fails: Fails = lambda _: False
    diary: list[tuple[Any, ...]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    conductor: Conductor | None = None
    _held: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    _nothing_new: bool = False

    def send(self, message: str, data: dict[str, Any], worker: str | None) -> None:
        if message == messages.STOP_NEW:
            assert worker is None, "all workers are told"
            self._nothing_new = True
            self._let_go(*self._held)
            return
        assert worker is not None
        if message == messages.DEAL:
            gevent.spawn(self._play, worker, data)
        elif message == messages.RELEASE:
            self._let_go(worker)

    def _let_go(self, *workers: str) -> None:
        for worker in workers:
            held, self._held[worker] = self._held.get(worker, []), []
            for go in held:
                go()

    def note(self, line: dict[str, Any]) -> None:
        self.notes.append(line)

    def stage_began(self, part: Stage, at_ns: int) -> None:
        self.diary.append(("began", part.name, part.round))

    def stage_ended(self, part: Stage, at_ns: int) -> None:
        self.diary.append(("ended", part.name, part.round))

    def _play(self, worker: str, data: dict[str, Any]) -> None:
        assert self.conductor is not None
        items = items_of(data["items"])
        if data["hold"]:
            released = gevent.event.Event()
            self._held.setdefault(worker, []).append(released.set)
            self.conductor.heard(messages.READY, {"seat": data["seat"]}, worker)
            if not self._nothing_new:
                released.wait()
        for item in items:
            if self._nothing_new:
                told = {"seat": data["seat"], "item": item.id, "completed": False, "left": item.id}
                self.conductor.heard(messages.DONE, told, worker)
                continue
            self.diary.append(("sent", item.id, (worker, data["seat"])))
            gevent.sleep(0)
            self.diary.append(("done", item.id))
            told = {"seat": data["seat"], "item": item.id, "completed": not self.fails(item.id), "left": ""}
            self.conductor.heard(messages.DONE, told, worker)


def led(plan: Plan, *, users: int, desks: Desks | None = None, **more: Any) -> Desks:
    """Lead the plan with as many seats as `users`, by turns of the workers."""
    desks = Desks() if desks is None else desks
    desks.conductor = Conductor(plan, desks, SystemClock(), **more)
    for number in range(users):
        seat, worker = divmod(number, desks.workers)
        desks.conductor.heard(messages.SEAT, {"seat": seat}, f"w{worker}")
    with gevent.Timeout(20):
        desks.conductor.lead()
    return desks


def entries(desks: Desks, kind: str) -> list[str]:
    return [entry[1] for entry in desks.diary if entry[0] == kind]


stages = st.builds(
    lambda count, ways, release, number: stage(f"s{number}", cases(count, f"s{number}-"), ways=ways, release=release),
    st.integers(1, 9),
    st.integers(1, 5),
    st.sampled_from(["barrier", "queue"]),
    st.integers(0, 1_000_000),
)


@given(
    parts=st.lists(stages, min_size=1, max_size=4, unique_by=lambda part: part.name),
    spare=st.integers(0, 3),
    workers=st.integers(1, 3),
)
@settings(deadline=None)
def test_every_item_is_sent_once_and_stages_do_not_overlap(parts: list[Stage], spare: int, workers: int):
    """Whatever the stages: no item is left out or doubled, and none begins before all of the stage before have ended."""
    plan = Plan(stages=tuple(parts))
    desks = led(plan, users=max(part.ways for part in parts) + spare, desks=Desks(workers=workers))
    assert Counter(item.id for part in parts for item in part.items) == Counter(entries(desks, "sent"))
    open_stage = None
    for entry in desks.diary:
        if entry[0] == "began":
            assert open_stage is None
            open_stage = entry[1]
        elif entry[0] == "ended":
            open_stage = None
        elif entry[0] == "sent":
            assert entry[1].startswith(f"m-{open_stage}-")


@given(ways=st.integers(1, 6), spare=st.integers(0, 4), workers=st.integers(1, 3), each=st.integers(1, 3))
@settings(deadline=None)
def test_a_barrier_holds_all_ways_back_until_the_last_is_ready(ways: int, spare: int, workers: int, each: int):
    """The first of each way are sent before any ends; users beyond the ways idle; a seat keeps to its way."""
    plan = Plan(stages=(stage("s", cases(ways * each), ways=ways, release="barrier"),))
    desks = led(plan, users=ways + spare, desks=Desks(workers=workers))
    kinds = [entry[0] for entry in desks.diary if entry[0] in ("sent", "done")]
    assert kinds[:ways] == ["sent"] * ways
    assert Counter(entry[2] for entry in desks.diary if entry[0] == "sent") == dict.fromkeys(
        {entry[2] for entry in desks.diary if entry[0] == "sent"}, each
    )


def test_one_way_of_a_queue_is_strictly_serial():
    """The next is sent when the one before has ended."""
    desks = led(Plan(stages=(stage("s", cases(4)),)), users=3)
    assert [entry[0] for entry in desks.diary if entry[0] in ("sent", "done")] == ["sent", "done"] * 4


def test_a_ladder_ends_at_the_rung_that_did_not_complete():
    """The rest of that rung is still asked, higher rungs are not, and other stages go on."""
    rungs = [stage(f"{size}K", cases(2, f"{size}K-"), ladder="climb") for size in (8, 32, 64)]
    plan = Plan(stages=(*rungs, stage("after", cases(1, "after-"))))
    desks = led(plan, users=1, desks=Desks(fails=lambda item: "32K-0" in item))
    assert entries(desks, "began") == ["8K", "32K", "after"]
    assert [(n["kind"], n["stage"]) for n in desks.notes if n["kind"] == "skipped"] == [("skipped", "64K")] * 2


def test_stop_on_failure_sends_nothing_more():
    """What was planned and not sent is noted with the reason."""
    plan = Plan(stages=(stage("a", cases(3, "a-")), stage("b", cases(2, "b-"))))
    desks = led(plan, users=1, desks=Desks(fails=lambda item: "a-1" in item), stop_on_failure=True)
    assert len(entries(desks, "sent")) == 2
    assert sum(note["kind"] == "skipped" for note in desks.notes) == 3
    assert "did not complete" in next(note["reason"] for note in desks.notes if note["kind"] == "stop")


def test_without_stop_on_failure_everything_is_asked():
    """Failures never stop the rest."""
    desks = led(Plan(stages=(stage("a", cases(3)),)), users=1, desks=Desks(fails=lambda _: True))
    assert len(entries(desks, "sent")) == 3


@pytest.mark.parametrize("release", ["barrier", "queue"])
def test_a_drained_plan_lets_what_runs_end(release: Any):
    """The guard's stop-new: the stage in flight ends, the next does not begin."""
    plan = Plan(stages=tuple(stage(name, cases(2, name), ways=2, release=release) for name in ("a", "b")))
    desks = Desks()

    def drained(item: str) -> bool:
        if "-a0-" in item:
            assert desks.conductor is not None
            desks.conductor.drain("guard: little memory")
        return False

    desks.fails = drained
    led(plan, users=2, desks=desks)
    assert entries(desks, "began") == ["a"]
    assert desks.conductor.stopped == "guard: little memory"  # type: ignore[union-attr]


def test_a_drain_ends_the_rows_of_the_users_in_the_middle():
    """`--requests-per-user`: what a user has in hand is not sent any more, on all workers, and noted as skipped."""
    desks = Desks(workers=2)

    def drained(item: str) -> bool:
        if item.endswith("-w1") or "c2" in item:
            assert desks.conductor is not None
            desks.conductor.drain("guard: little memory")
        return False

    desks.fails = drained
    led(Plan(stages=(stage("a", cases(20), ways=2, release="barrier"),)), users=2, desks=desks)
    skipped = [note["id"] for note in desks.notes if note["kind"] == "skipped"]
    assert 2 <= len(entries(desks, "sent")) < 20
    assert sorted(entries(desks, "sent") + skipped) == sorted(item.id for item in desks.conductor.plan.stages[0].items)  # type: ignore[union-attr]
    assert desks.conductor.stopped == desks.conductor.cut_short == "guard: little memory"  # type: ignore[union-attr]


def test_a_drain_before_the_release_takes_the_held_requests_back():
    """Nothing of the stage is sent, and nobody waits for ever."""
    plan = Plan(stages=(stage("a", cases(2), ways=2, release="barrier"),))
    desks = Desks()
    conductor = desks.conductor = Conductor(plan, desks, SystemClock())
    conductor.heard(messages.SEAT, {"seat": 0}, "w0")
    leading = gevent.spawn(conductor.lead)
    gevent.sleep(0)
    conductor.heard(messages.SEAT, {"seat": 1}, "w0")
    conductor.drain("guard: little memory")
    leading.join(timeout=20)
    assert leading.successful()
    assert entries(desks, "sent") == []
    assert conductor.cut_short == "guard: little memory"
