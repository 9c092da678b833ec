"""What the lead writes while the disk is full."""

from pathlib import Path

import pytest

from loadkit.errors import FolderError
from loadkit.front.run import Patient
from loadkit.run_folder import LineFile


def test_lines_of_a_full_disk_are_written_when_there_is_room(small_disk: Path):
    """None is lost, none is halved, and nobody who notes something gets an exception."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(56 * 1024))
    notes = Patient(small_disk / "plan.jsonl")
    lines = [b"%05d %s\n" % (number, b"x" * 300) for number in range(100)]
    for line in lines:
        notes.append(line)
    ballast.unlink()
    notes.close()
    assert (small_disk / "plan.jsonl").read_bytes() == b"".join(lines)


def test_a_line_that_finds_no_room_leaves_no_half(small_disk: Path):
    """The next line that fits stands alone."""
    (small_disk / "ballast").write_bytes(bytes(58 * 1024))
    file = LineFile(small_disk / "a.jsonl")
    with pytest.raises(FolderError, match="No space left"):
        file.append(b"x" * 100_000 + b"\n")
    file.append(b"y\n")
    file.close()
    assert (small_disk / "a.jsonl").read_bytes() == b"y\n"
