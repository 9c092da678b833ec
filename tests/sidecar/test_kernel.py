"""Following the kernel's log: the real device where it may be read, and the journal's way by a stand-in for journalctl."""

import json
from pathlib import Path

import pytest

from loadkit.sidecar.kernel import Journal, Kmsg, open_log
from loadkit.sidecar.samples import Missing

RECORDED = Path(__file__).parents[1] / "fixtures" / "kernel_log"


def test_a_device_that_is_not_there_is_said_with_its_remedy(tmp_path: Path):
    """A container without --device /dev/kmsg."""
    with pytest.raises(Missing, match="give it --device /dev/kmsg and --cap-add SYSLOG"):
        Kmsg(tmp_path / "kmsg")


def test_the_past_of_the_real_log_is_not_told():
    """It begins at the end: what happened before is not this run's."""
    try:
        log = Kmsg()
    except Missing as reason:
        pytest.skip(str(reason))
    told: list[dict[str, object]] = []
    log.follow(told.append, wait_ms=10)
    log.close()
    assert not [one for one in told if one["event"] == "overrun"]


def journal(*lines: str, then: str = "sleep 30") -> Journal:
    """A stand-in for journalctl that prints these lines."""
    text = "\n".join(lines).replace("'", "'\\''")
    return Journal(("sh", "-c", f"printf '%s\\n' '{text}'; {then}"))


def told_by(log: Journal, count: int) -> list[dict[str, object]]:
    told: list[dict[str, object]] = []
    for _ in range(50):
        log.follow(told.append, wait_ms=200)
        if len(told) >= count:
            break
    log.close()
    return told


def test_the_journals_lines_are_told_as_events():
    """JSON lines of journalctl, those of no interest left out."""
    lines = (RECORDED / "global_oom.json.txt").read_text().splitlines()
    told = told_by(journal(json.dumps({"MESSAGE": "random: crng init done"}), *lines), 2)
    assert [one["event"] for one in told] == ["oom_kill", "oom_kill"]
    assert (told[0]["comm"], told[0]["pid"]) == ("wireplumber", 3125)


def test_a_journal_that_ends_is_said():
    """journalctl may be killed: the source is missing then, with its last words."""
    log = journal("{}", then="sleep 1; echo no more journal >&2; exit 3")
    with pytest.raises(Missing, match="journalctl ended: no more journal"):
        for _ in range(50):
            log.follow(lambda _: None, wait_ms=200)
    log.close()


def test_a_journal_that_never_begins_is_said():
    """No permission, no journal: its own words are the reason."""
    with pytest.raises(Missing, match="ended with 1: No journal files were found"):
        Journal(("sh", "-c", "echo No journal files were found. >&2; exit 1"))


def test_with_neither_both_reasons_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """So that a person knows which of the two to bring."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match=r"kmsg.*; journalctl: No such file"):
        open_log(tmp_path / "kmsg")
