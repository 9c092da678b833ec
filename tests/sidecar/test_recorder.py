"""The file survives: order, rotation, a full disk, a crash in the middle of a line; and a span is found in it."""

import threading
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.record import Sample, from_line, to_line
from loadkit.sidecar.recorder import Recorder, Rotation
from loadkit.sidecar.samples import Stamper
from loadkit.sidecar.span import lines_between
from sidecar.clocks import BOOT, JumpingClock, S, sample


def recorder(path: Path, **rotation: int) -> Recorder:
    return Recorder(path, Stamper(JumpingClock(), BOOT), rotation=Rotation(**rotation))


def lines(path: Path) -> list[Sample]:
    found = [from_line(raw) for raw in path.read_bytes().splitlines()]
    return [line for line in found if isinstance(line, Sample)]


def test_every_sample_is_in_the_file_at_once(tmp_path: Path):
    """A line is there before the next is made: a crash loses none that was recorded."""
    own = recorder(tmp_path / "s.jsonl")
    own.record(sample("host", 1, mem_available_bytes=5))
    assert [line.data for line in lines(tmp_path / "s.jsonl")] == [{"mem_available_bytes": 5}]


def test_a_line_that_a_crash_cut_is_ended_first(tmp_path: Path):
    """The next sample stands on a line of its own, and the broken one is the only one that is lost."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(to_line(sample("host", 1)) + b'{"source":"ho')
    recorder(path).record(sample("host", 2))
    raws = path.read_bytes().splitlines()
    assert (len(raws), raws[1], orjson.loads(raws[2])["monotonic_ns"]) == (3, b'{"source":"ho', 2 * S)


def test_old_files_are_kept_in_order_and_counted(tmp_path: Path):
    """The youngest old file is .1; more than `keep` are dropped from the old end."""
    own = recorder(tmp_path / "s.jsonl", most_bytes=400, keep=2)
    for number in range(20):
        own.record(sample("host", number, load1=number))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["s.jsonl", "s.jsonl.1", "s.jsonl.2"]
    spanned = [orjson.loads(raw) for raw in own.between(0, 100 * S)]
    numbers = [line["data"]["load1"] for line in spanned if line["source"] == "host"]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 19


def test_threads_do_not_mix_their_lines(tmp_path: Path):
    """Eight samplers at once: each line whole, none lost."""
    own = recorder(tmp_path / "s.jsonl", most_bytes=20_000, keep=50)

    def work(number: int) -> None:
        for step in range(100):
            own.record(sample("host", step, load1=number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [orjson.loads(raw)["data"].get("load1") for raw in own.between(0, 1000 * S)]
    assert [found.count(number) for number in range(8)] == [100] * 8


def test_a_full_disk_loses_nothing(small_disk: Path):
    """Lines wait in memory, the span shows them all the same, and they are written when there is room again."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(48 * 1024))
    own = recorder(small_disk / "s.jsonl")
    for number in range(200):
        own.record(sample("host", number, load1=number))
    assert own.unwritten_lines > 0
    before = [orjson.loads(raw) for raw in own.between(0, 10_000 * S)]
    assert [line["data"]["load1"] for line in before if line["source"] == "host"] == list(range(200))
    ballast.unlink()
    own.record(sample("host", 200, load1=200))
    own.close()
    found = lines(small_disk / "s.jsonl")
    assert [line.data["load1"] for line in found if line.source == "host"] == list(range(201))
    assert [line.data["event"] for line in found if line.source == "recorder"] == ["disk_full", "disk_back"]


def test_lines_for_which_there_is_no_room_at_all_are_counted(small_disk: Path, monkeypatch: pytest.MonkeyPatch):
    """When memory for waiting lines runs out too, the oldest go, and the number of them is recorded."""
    monkeypatch.setattr("loadkit.sidecar.recorder.MOST_WAITING_BYTES", 10_000)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(60 * 1024))
    own = recorder(small_disk / "s.jsonl")
    for number in range(300):
        own.record(sample("host", number, load1=number))
    ballast.unlink()
    own.record(sample("host", 300, load1=300))
    back = next(line for line in lines(small_disk / "s.jsonl") if line.data.get("event") == "disk_back")
    assert back.data["lost_lines"] > 100


def test_earlier_boots_are_not_in_a_span(tmp_path: Path):
    """Their clock began elsewhere: the same number means another time."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(to_line(sample("host", at, boot="another")) for at in range(50)))
    own = recorder(path)
    own.record(sample("host", 10))
    assert [orjson.loads(raw)["boot_id"] for raw in own.between(0, 60 * S)] == [BOOT]


@settings(max_examples=60)
@given(
    stamps=st.lists(st.integers(0, 5000), max_size=1500).map(sorted),
    begin=st.integers(0, 5000),
    length=st.integers(0, 3000),
    older=st.integers(0, 400),
)
def test_bisection_finds_what_a_full_read_finds(
    tmp_path_factory: pytest.TempPathFactory, stamps: list[int], begin: int, length: int, older: int
):
    """Any span of any file: the lines are exactly those whose stamp lies in it."""
    path = tmp_path_factory.mktemp("span") / "s.jsonl"
    lines_ = [to_line(sample("host", at, boot="before")) for at in range(older)]
    lines_ += [to_line(sample("host", at, mem_available_bytes=number)) for number, at in enumerate(stamps)]
    path.write_bytes(b"".join(lines_))
    found = lines_between([path], [], from_ns=begin * S, to_ns=(begin + length) * S, boot_id=BOOT)
    wanted = [number for number, at in enumerate(stamps) if begin <= at <= begin + length]
    assert [orjson.loads(raw)["data"]["mem_available_bytes"] for raw in found] == wanted


def test_a_line_that_is_being_written_is_not_one_that_the_disk_refused(tmp_path: Path):
    """Whoever looks while another thread writes must not say that the disk is full."""
    own = recorder(tmp_path / "s.jsonl")
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.add(own.unwritten_lines)

    looking = threading.Thread(target=look)
    looking.start()
    for step in range(2000):
        own.record(sample("host", step, load1=1))
    over.set()
    looking.join()
    assert seen == {0}
