"""The record file of an engine, also when the disk has no room."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadkit.engine.ledger import Ledger
from loadkit.errors import FolderError
from loadkit.record import CaseFacts, Outcome, Record, Slot, Start, from_line

FACTS = CaseFacts(scenario="short", case="c", workload="speed")


def record(number: int, **more: object) -> Record:
    return Record(id=f"r{number}", slot=Slot(), case=FACTS, outcome=Outcome.COMPLETED, due_ns=number, **more)  # type: ignore[arg-type]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may grow beyond this (RLIMIT_FSIZE), which fails in the middle of a line as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_line_is_in_the_file_as_soon_as_it_is_noted(tmp_path: Path):
    """Nothing waits in a buffer: a kill loses no line."""
    ledger = Ledger(tmp_path / "records.jsonl", trouble=pytest.fail)
    start = Start(id="r1", due_ns=1, slot=Slot(), case=FACTS)
    ledger.start(start)
    assert start == from_line((tmp_path / "records.jsonl").read_bytes())


def test_records_that_a_full_disk_refuses_are_written_when_there_is_room_again(tmp_path: Path):
    """In order, with no half line between them; the trouble is told once."""
    told: list[str] = []
    path = tmp_path / "records.jsonl"
    ledger = Ledger(path, trouble=told.append)
    with room_for(1000):
        for number in range(5):
            ledger.ended(record(number))
        assert ledger.unwritten
    ledger.flush()
    assert [record(number) for number in range(5)] == [from_line(line) for line in path.read_bytes().splitlines()]
    assert len(told) == 1
    assert "make room" in told[0]


def test_what_the_disk_refuses_to_the_end_is_saved_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing recorded is lost: the rest is in a temporary file, and its path is told."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ledger = Ledger(Path("/dev/full"), trouble=lambda _: None)
    ledger.ended(record(1))
    elsewhere = ledger.close()
    assert elsewhere is not None
    assert record(1) == from_line(elsewhere.read_bytes())


def test_texts_stay_out_where_they_are_not_wanted(tmp_path: Path):
    """`--no-text`: hashes are kept, answers and thinking are not."""
    path = tmp_path / "records.jsonl"
    Ledger(path, keep_text=False, trouble=pytest.fail).ended(record(1, answer="42", reasoning="…", answer_sha256="ab"))
    assert record(1, answer_sha256="ab") == from_line(path.read_bytes())


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path):
    """With what to do about it."""
    with pytest.raises(FolderError, match="choose another --run-dir"):
        Ledger(tmp_path / "nowhere" / "records.jsonl", trouble=pytest.fail)
