"""`loadkit report` and `loadkit runs` as a user calls them, also over what a kill left behind."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from command_line import loadkit
from loadkit.record import AnchorLine, Start, to_line
from loadkit.run_folder import SAMPLES, read_run, records_file, write_manifest
from recorded import BOOT, T0, WALL0, S, case, record, watched

WRITER = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from recorded import record
from loadkit.record import Start, to_line
from loadkit.run_folder import LineFile, records_file
file = LineFile(records_file(Path({folder!r})))
for number in range(10_000):
    one = record(f"r{{number}}", sent=number * 10, events=(number * 10 + 1, number * 10 + 9), tokens=(1, 2))
    file.append(to_line(Start(id=one.id, due_ns=one.due_ns, slot=one.slot, case=one.case)))
    time.sleep(0.003)
    file.append(to_line(one))
"""


def folder_of(path, records, *, samples=(), **manifest):
    """A finished run in a folder, as loadkit writes it."""
    path.mkdir(parents=True)
    write_manifest(
        path, {"run_id": path.name, "label": "t", "state": "finished", "asked": {}, "created_wall_ns": WALL0, **manifest}
    )
    lines = [to_line(AnchorLine(worker="", pid=1, boot_id=BOOT, monotonic_ns=T0, wall_ns=WALL0, error_ns=1))]
    for one in records:
        lines += [to_line(Start(id=one.id, due_ns=one.due_ns, slot=one.slot, case=one.case)), to_line(one)]
    records_file(path).write_bytes(b"".join(lines))
    (path / SAMPLES).write_bytes(b"".join(map(to_line, samples)))
    return path


def test_a_run_that_was_killed_is_told_from_its_files_alone(tmp_path):
    """kill -9 in the middle: what ended is counted, what was in flight is lost, exit 3, and every file is written."""
    folder = tmp_path / "killed"
    folder.mkdir()
    write_manifest(folder, {"run_id": "killed", "label": "k", "state": "running", "asked": {}})
    code = WRITER.format(tests=str(Path(__file__).parents[1]), folder=str(folder))
    with subprocess.Popen([sys.executable, "-c", code]) as writer:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (
            records_file(folder).exists() and records_file(folder).stat().st_size > 30_000
        ):
            time.sleep(0.02)
        os.kill(writer.pid, signal.SIGKILL)
    told = loadkit("report", folder, process=True)
    starts, ended = (records_file(folder).read_text().count(f'"kind":"{kind}"') for kind in ("start", "record"))
    assert told.returncode == 3, told.stderr
    assert f"ABORTED (the run was killed) · COMPLETED {ended}/{starts}" in told.stdout
    assert (starts == ended) or "in_flight_lost" in told.stdout
    assert all((folder / name).exists() for name in ("summary.json", "report.md", "report.html"))


def test_the_exit_code_is_the_runs_and_json_has_stdout_for_itself(tmp_path):
    """Tables go to stderr with --json."""
    told = loadkit("report", folder_of(tmp_path / "ok", [record("a")]), "--json", process=True)
    assert told.returncode == 0
    assert json.loads(told.stdout)["exit_code"] == 0
    assert "PASS (0)" in told.stderr


def test_a_label_names_its_newest_run(tmp_path):
    """Folder names sort by time."""
    folder_of(tmp_path / "runs" / "20260101T000000Z-t", [record("a", n=None)])
    folder_of(tmp_path / "runs" / "20260102T000000Z-t", [record("a")])
    assert loadkit("report", "t", "--quiet", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(("name", "words"), [("nothing-here", "no run folder and no label"), (".", "is no run folder")])
def test_what_is_no_run_is_one_line(tmp_path, name, words):
    """No traceback."""
    told = loadkit("report", name, cwd=tmp_path)
    assert told.returncode in (2, 3)
    assert words in told.stderr
    assert "Traceback" not in told.stderr


def test_junit_is_written_where_it_was_asked_for(tmp_path):
    """For CI."""
    loadkit("report", folder_of(tmp_path / "ok", [record("a")]), "--junit", tmp_path / "out.xml", "--quiet")
    assert ET.parse(tmp_path / "out.xml").getroot().find(".//testcase[@name='a']") is not None


KILL = "3,426,{us},-;Out of memory: Killed process 29351 (pipewire) total-vm:66788kB, anon-rss:64768kB, file-rss:544kB"


def test_kernel_lines_taken_afterwards_judge_the_host_again(tmp_path):
    """A stable host becomes unstable, the request in flight is charged, and the next report still knows it."""
    long = record("a", sent=0, events=(1000, 9000), tokens=(1, 1))
    url = {"base_url": "http://127.0.0.1:8000/v1"}
    folder = folder_of(tmp_path / "run", [long], samples=watched(-2000, 12000), asked={"host": True}, target=url)
    assert loadkit("report", folder, "--quiet").returncode == 0
    log = tmp_path / "kernel.txt"
    log.write_text(KILL.format(us=(T0 + 5 * S) // 1000) + "\n6,1,1,-;usb 1-1: new device\n")
    told = loadkit("report", folder, "--kernel-log", log, "--quiet")
    assert told.returncode == 4
    assert "HOST UNSTABLE (kernel killed pipewire" in told.stdout
    assert loadkit("report", folder, "--quiet").returncode == 4
    size = (folder / SAMPLES).stat().st_size
    assert loadkit("report", folder, "--kernel-log", log, "--quiet").returncode == 4
    assert (folder / SAMPLES).stat().st_size == size


def test_kernel_lines_of_another_time_are_not_charged(tmp_path):
    """A kill a quarter of an hour before the run is not ours, and the log counts as seen."""
    samples = [one for one in watched(-2000, 2000) if one.source != "kernel"]
    url = {"base_url": "http://127.0.0.1:8000/v1"}
    folder = folder_of(tmp_path / "run", [record("a")], samples=samples, target=url)
    log = tmp_path / "kernel.txt"
    log.write_text(KILL.format(us=(T0 - 900 * S) // 1000) + "\n")
    assert "HOST stable (kernel log not seen)" in loadkit("report", folder, "--quiet").stdout
    told = loadkit("report", folder, "--kernel-log", log, "--quiet")
    assert (told.returncode, "HOST stable →" in told.stdout) == (0, True)


def test_runs_are_listed_with_label_verdict_and_headline(tmp_path):
    """With a report, without one, and folders that are no runs."""
    told_folder = folder_of(tmp_path / "runs" / "a", [record("a", facts=case(), n=None)])
    folder_of(tmp_path / "runs" / "b", [record("a")], label="second")
    (tmp_path / "runs" / "notes").mkdir()
    loadkit("report", told_folder, "--quiet")
    listed = [json.loads(line) for line in loadkit("runs", "--json", cwd=tmp_path).stdout.splitlines()]
    assert [(row["folder"], row["label"], row["exit_code"]) for row in listed] == [("a", "t", 5), ("b", "second", None)]
    assert "MEASUREMENT INVALID (no_usage)" in listed[0]["headline"]
    assert "second" in loadkit("runs", cwd=tmp_path, process=True).stdout
    assert loadkit("runs", "elsewhere", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b"7", b"\xff", b'{"asked": 1, "server": "x", "options": null, "plan": []}']
)
def test_a_damaged_manifest_takes_no_record_with_it(tmp_path, damaged):
    """Whatever a disk or a hand made of it: the records are still told, and the headline says that something is broken."""
    folder = folder_of(tmp_path / "run", [record("a")])
    (folder / "manifest.json").write_bytes(damaged)
    done = loadkit("report", folder, "--quiet")
    assert "COMPLETED 1/1" in done.stdout
    assert "records_incomplete" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("line", [b'{"kind":"later","id":"x"}\n', b"[1]\n", b'{"kind":"record"}\n'])
def test_a_line_that_is_not_understood_is_not_passed_over(tmp_path, line):
    """What another version wrote may be the request that failed: the report says that its records are not whole."""
    folder = folder_of(tmp_path / "a", [record("r1")])
    with records_file(folder).open("ab") as file:
        file.write(line)
    done = loadkit("report", str(folder))
    assert "records_incomplete" in done.stdout
    assert done.returncode == 5


def test_a_plan_line_that_is_not_understood_is_not_passed_over(tmp_path):
    """Times that are none would shift a stage."""
    folder = folder_of(tmp_path / "a", [record("r1")])
    (folder / "plan.jsonl").write_bytes(b'{"kind":"stage_begin","at_ns":"soon"}\n{"kind":"stage_end"}\n{"kind"\n')
    assert read_run(folder).broken_lines == 3


def test_a_sample_whose_figures_are_none_is_not_passed_over(tmp_path):
    """A unit in a key's name is a promise; a text under it is a damaged line, and the others are used."""
    folder = folder_of(tmp_path / "a", [record("r1")])
    line = '{"kind":"sample","source":"host","monotonic_ns":1,"wall_ns":1,"boot_id":"b","data":{"mem_total_bytes":%s}}\n'
    (folder / "samples.jsonl").write_text(line % '"x"' + line % "[1]" + line % "null" + line % "7")
    done = loadkit("report", str(folder))
    assert (done.returncode, done.stderr) == (5, "")
    assert read_run(folder).broken_lines == 2


def test_a_locale_without_our_signs_costs_no_report(tmp_path):
    """µ and · become question marks where standard output can't carry them."""
    folder = folder_of(tmp_path / "a", [record("r1")])
    done = subprocess.run(
        [sys.executable, "-m", "loadkit", "report", str(folder)],
        capture_output=True, check=False, timeout=60, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode in (0, 5), done.stderr
    assert b"COMPLETED 1/1 ? HOST" in done.stdout


def test_a_junit_file_that_can_not_be_written_costs_no_table(tmp_path):
    """What is told from the folder is told first; the line about the file comes last."""
    folder = folder_of(tmp_path / "run", [record("a")])
    done = loadkit("report", folder, "--junit", "/no/such/folder/x.xml")
    assert "COMPLETED 1/1" in done.stdout
    assert "can't write /no/such/folder/x.xml" in done.stderr
    assert done.returncode == 3
