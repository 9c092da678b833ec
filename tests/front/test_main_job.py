"""The main job, as people start it: `locust -f locustfiles/concurrency.py`, on the simulator."""

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from locust_process import CONCURRENCY, HANG_S, ROOT, Locust, locust, ran

from loadkit.record import Outcome, Phase, Record
from loadkit.run_folder import PLAN, read_run
from odd_servers import Odd, serving
from simulator_process import Simulator, simulator

ENDS = (0, 5)
"""Passed, or the machine that the tests run on was too busy for the figures to be believed."""

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server() -> Iterator[Simulator]:
    with simulator(preset="fast") as started:
        yield started


@pytest.fixture(scope="module")
def slow_server() -> Iterator[Simulator]:
    with simulator(preset="spark") as started:
        yield started


@pytest.fixture(scope="module")
def finished(server: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Locust:
    """A whole run: a path prefix is given, `--json` empties Locust's statistics before it closes its files."""
    home = tmp_path_factory.mktemp("finished")
    options = ["--host", server.base_url, "--max-tokens", "24", "--html", str(home / "out.html"), "--json", "--no-sidecar"]
    return ran(home, *options, "--label", "a b", environ={"OPENAI_API_KEY": "sk-very-secret-1234"})


def measured(done: Locust) -> list[Record]:
    return [record for record in done.run.records if record.slot.phase is Phase.MEASURED]


def test_it_ends_by_itself_with_21_measured_requests_and_three_warm_ups(finished: Locust):
    """3 × (1 + 2 + 4), all completed, and a verdict."""
    assert finished.process.returncode in ENDS
    assert Counter({Phase.MEASURED: 21, Phase.WARMUP: 3}) == Counter(record.slot.phase for record in finished.run.records)
    assert {Outcome.COMPLETED} == {record.outcome for record in finished.run.records}
    manifest = finished.run.manifest
    assert ("finished", finished.process.returncode) == (manifest["state"], manifest["exit_code"])
    assert manifest["headline"].startswith("COMPLETED 21/21")


def test_stages_are_round_major_and_do_not_overlap(finished: Locust):
    """The next is released when the last has ended; all ways of a stage have one due time."""
    began = [line for line in finished.run.plan if line["kind"] == "stage_begin" and line["phase"] == "measured"]
    assert [(number, ways) for number in (1, 2, 3) for ways in (1, 2, 4)] == [(line["round"], line["ways"]) for line in began]
    records = measured(finished)
    for line, after in zip(began, [*began[1:], None], strict=True):
        stage = [one for one in records if (one.slot.round, one.slot.ways) == (line["round"], line["ways"])]
        assert {line["at_ns"]} == {one.due_ns for one in stage}
        assert after is None or all(one.closed_ns is not None and one.closed_ns < after["at_ns"] for one in stage)


def test_every_request_has_a_prompt_and_a_salt_of_its_own(finished: Locust):
    """Cold by default: no two share a body, a salt or an id."""
    records = finished.run.records
    for facts in ({one.body_sha256 for one in records}, {one.case.cache_salt for one in records}, {one.id for one in records}):
        assert len(facts) == len(records)


def test_locusts_totals_are_the_records_and_warm_ups_are_in_no_statistic(finished: Locust):
    """The last second is not lost, and `--json` does not empty the files."""
    assert (finished.aggregated["Request Count"], finished.aggregated["Failure Count"]) == ("21", "0")
    chat = {row["Name"]: int(row["Request Count"]) for row in finished.csv("stats") if row["Type"] == "CHAT"}
    assert chat == {"short · 1 way": 3, "short · 2 ways": 6, "short · 4 ways": 12}
    for kind in ("TTFT ms", "TPOT µs", "decode tok/s"):  # 24 tokens are all thinking: no TTFAT
        assert sum(int(row["Request Count"]) for row in finished.csv("stats") if row["Type"] == kind) == 21, kind


def test_locusts_own_length_column_holds_output_tokens(finished: Locust):
    """24 were asked for, with ignore_eos."""
    assert float(finished.aggregated["Average Content Size"]) == 24


def test_one_row_a_request_and_one_row_a_stage_and_round(finished: Locust):
    """The phase is a column; figures are those of the records."""
    rows = finished.csv("requests")
    assert Counter(row["phase"] for row in rows) == {"measured": 21, "warmup": 3}
    assert {record.id for record in finished.run.records} == {row["id"] for row in rows}
    assert [(r["stage"], r["round"]) for r in finished.csv("stages")][:3] == [("1 way", "1"), ("1 way", "2"), ("1 way", "3")]
    assert len(finished.csv("stages")) == 9


def test_the_tables_are_in_the_run_folder_too_and_every_csv_file_begins_with_one_mark(finished: Locust):
    """The tab's links work without `--csv`; Excel reads Chinese in every file."""
    for name in ("requests", "stages"):
        assert (finished.folder / f"run_{name}.csv").read_bytes() == (finished.home / f"out_{name}.csv").read_bytes()
    files = [*finished.home.glob("out_*.csv"), *finished.folder.glob("run_*.csv")]
    assert {file.name for file in files} >= {f"out_{name}.csv" for name in ("stats", "failures", "exceptions", "stats_history")}
    for file in files:
        assert file.read_text(encoding="utf-8").count("\ufeff") == 1, file
        assert file.read_bytes().startswith(b"\xef\xbb\xbf"), file


def test_json_on_stdout_and_html_are_written_as_ever(finished: Locust):
    """loadkit's tables go to stderr."""
    assert (finished.home / "out.html").stat().st_size > 10_000
    assert "makespan" in finished.output


def test_the_manifest_says_what_was_run_and_holds_no_secret(finished: Locust):
    """Plan, scenario, server, versions; the key is in no file."""
    manifest = finished.run.manifest
    assert (manifest["label"], manifest["plan"]["name"], manifest["plan"]["items"]) == ("a b", "concurrency", 24)
    assert manifest["scenarios"]["short"]
    assert (finished.folder / "scenarios" / "short.yaml").exists()
    for file in (path for path in finished.folder.rglob("*") if path.is_file()):
        assert b"very-secret" not in file.read_bytes(), file


def test_without_a_host_the_embedded_simulator_is_measured_and_said_so(tmp_path: Path):
    """In one line, and in the manifest."""
    done = ran(tmp_path, "--rounds", "1", "--ways", "1", "--max-tokens", "8", "--no-sidecar", quiet=False)
    assert done.process.returncode in ENDS
    assert "no --host given: measuring the embedded simulator (preset fast) at http://127.0.0.1:" in done.output
    assert done.run.manifest["target"]["embedded_simulator"] is True
    assert done.output.count("Aggregated") == 2  # at the end, with percentiles: none of noughts at the start, no page every 2 s
    assert len(done.run.records) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rounds", "0"], "--rounds: '0' can't be used; write a whole number of at least 1"),
        (["--ways", "999999"], "requests are more than a plan holds (250000); lower --ways, --rounds or --requests-per-user"),
        (["--model", "gpt"], "the server has no model 'gpt'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2_before_the_first_request(
    server: Simulator, tmp_path: Path, options: list[str], said: str
):
    """No traceback, no empty tables, no folder left behind: an option, a plan, a server."""
    done = ran(tmp_path, "--host", server.url, *options)
    _a_mistake(done, said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--slo", "ttft_p95=soon"], "--slo: 'ttft_p95=soon': 'soon' is no number with a unit; write 2s, 50ms or 20"),
        (["--ways", "1,0"], "--ways: '1,0' can't be used; write whole numbers of at least 1"),
        (["--junit", "/no/such/folder/x.xml"], "--junit: '/no/such/folder/x.xml' can't be used; write the path of a file"),
        (["--scenario", "shrot"], "did you mean 'short'?"),
        (["--run-dir", "/proc/runs"], "choose another --run-dir"),
        (["--html", "/proc/x/run.html"], "argument --html: '/proc/x/run.html' can't be used: No such file or directory"),
        (["--host", "http://127.0.0.1:1"], "start the server, or check --host"),
    ],
)
def test_more_mistakes_are_one_line_and_exit_2(server: Simulator, tmp_path: Path, options: list[str], said: str):
    """What makes each line is tested with options, scenario files, ledger and preflight; here they pass through Locust."""
    done = ran(tmp_path, "--host", server.url, *options)
    _a_mistake(done, said)


@pytest.mark.slow
def test_a_server_that_takes_its_time_is_waited_for_aloud(tmp_path: Path):
    """A model that is being loaded: nothing is wrong, but a silent minute looks like it."""
    with serving(Odd(slow_s=7)) as url:
        done = ran(tmp_path, "--host", url, "--preflight-only")
    said = f"loadkit: {url} has not answered yet; waiting for it\n"
    assert (done.process.returncode, done.output.count(said), "model       m" in done.output) == (0, 1, True)


def _a_mistake(done: Locust, said: str) -> None:
    assert done.process.returncode == 2
    assert said in done.output
    assert "Traceback" not in done.output
    assert "Aggregated" not in done.output
    assert done.folders == []


@pytest.mark.slow
def test_ctrl_c_keeps_every_record_and_writes_every_file(slow_server: Simulator, tmp_path: Path):
    """What was in flight is cancelled and recorded; totals are the records; exit 130."""
    options = ["--host", slow_server.url, "--ways", "4", "--no-sidecar", "--html", str(tmp_path / "out.html")]
    with locust(tmp_path, *options) as running:
        _wait_for_phase(running, "measured")
        running.send(signal.SIGINT)
        assert running.wait() == 130
    _nothing_lost(running)
    assert (tmp_path / "out.html").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("hangups_heard")
def test_a_terminal_that_is_closed_ends_the_run_like_ctrl_c(slow_server: Simulator, tmp_path: Path):
    """As a lost ssh connection does: every record is kept, and the report is written although nobody reads it."""
    ours, theirs = os.openpty()
    options = ["--host", slow_server.url, "--ways", "4", "--no-sidecar", "--run-dir", str(tmp_path / "runs")]
    command = [sys.executable, "-m", "locust", "-f", str(CONCURRENCY), "--headless", *options]
    process = subprocess.Popen(["setsid", "--ctty", *command], cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    running = Locust(process, tmp_path)
    threading.Thread(target=_read_until_closed, args=(ours, 10.0), daemon=True).start()
    assert process.wait(HANG_S) == 130
    assert running.run.manifest["ended_reason"] == "SIGHUP"
    assert (running.folder / "summary.json").exists()
    assert not running.run.lost


def _read_until_closed(terminal: int, after_s: float) -> None:
    """A person at a terminal, who is gone after a while."""
    until = time.monotonic() + after_s
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 65536)
    os.close(terminal)


@pytest.mark.slow
def test_the_engine_goes_first_and_its_death_is_an_error_and_no_hang(slow_server: Simulator, tmp_path: Path):
    """While it lives its priority is above Locust's; when it dies: exit 3, a clear line, its requests known as lost."""
    with locust(tmp_path, "--host", slow_server.url, "--ways", "4", "--no-sidecar") as running:
        _wait_for_phase(running, "measured")
        assert os.getpriority(os.PRIO_PROCESS, _engines(running)[0]) < os.getpriority(os.PRIO_PROCESS, running.process.pid)
        os.kill(_engines(running)[0], signal.SIGKILL)
        assert running.wait() == 3
    assert "the engine process ended by itself" in running.output
    assert running.run.manifest["state"] == "aborted"
    assert running.run.lost


@pytest.mark.slow
def test_two_processes_share_the_work_exactly(server: Simulator, tmp_path: Path, unused_tcp_port: int):
    """The plan is on the master, workers pull: 21 requests, none twice, in one folder."""
    ports = ["--master-port", str(unused_tcp_port), "--master-bind-port", str(unused_tcp_port)]
    done = ran(tmp_path, "--host", server.url, "--processes", "2", "--max-tokens", "16", "--no-sidecar", *ports)
    assert done.process.returncode in ENDS
    assert len({record.id for record in measured(done)}) == 21
    assert {"w0", "w1"} == {record.slot.worker for record in measured(done)}
    assert done.aggregated["Request Count"] == "21"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_with_two_processes_loses_nothing(
    slow_server: Simulator, tmp_path: Path, unused_tcp_port: int, number: signal.Signals
):
    """SIGTERM to the master, Ctrl-C to the whole group as a terminal sends it."""
    ports = ["--master-port", str(unused_tcp_port), "--master-bind-port", str(unused_tcp_port)]
    with locust(tmp_path, "--host", slow_server.url, "--ways", "4", "--processes", "2", "--no-sidecar", *ports) as running:
        _wait_for_phase(running, "measured")
        if number == signal.SIGINT:
            os.killpg(running.process.pid, number)
        else:
            running.send(number)
        assert running.wait() == 130
    _nothing_lost(running)


@pytest.mark.slow
def test_the_death_of_a_worker_ends_the_run_with_a_verdict(slow_server: Simulator, tmp_path: Path, unused_tcp_port: int):
    """worker_lost, exit 3."""
    ports = ["--master-port", str(unused_tcp_port), "--master-bind-port", str(unused_tcp_port)]
    with locust(tmp_path, "--host", slow_server.url, "--ways", "4", "--processes", "2", "--no-sidecar", *ports) as running:
        _wait_for_phase(running, "measured")
        os.kill(_children(running.process.pid, "locust")[1], signal.SIGKILL)
        assert running.wait() == 3
    assert "worker_lost" in running.run.manifest["headline"]


@pytest.mark.slow
def test_a_worker_with_a_folder_of_its_own_sends_its_records_to_the_master(
    server: Simulator, tmp_path: Path, unused_tcp_port: int
):
    """As one on another host would: the master's folder holds the same lines."""
    port = ["--master-port", str(unused_tcp_port)]
    options = ["--host", server.url, "--max-tokens", "16", "--no-sidecar", "--master", "--expect-workers", "1"]
    with locust(tmp_path / "m", *options, "--master-bind-port", str(unused_tcp_port)) as master:
        command = [sys.executable, "-m", "locust", "-f", str(CONCURRENCY), "--worker", *port, "--run-dir", str(tmp_path / "w")]
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert master.wait() in ENDS
        worker.wait(20)
    theirs = next((tmp_path / "w").glob("*Z*"))
    assert read_run(theirs).records == master.run.records
    assert len(master.run.records) == 24


def test_a_users_requests_go_out_back_to_back(server: Simulator, tmp_path: Path):
    """`--requests-per-user`: each but the first is due when its user's last answer ended; Locust is not waited for."""
    shape = ["--ways", "3", "--rounds", "1", "--requests-per-user", "4"]
    done = ran(tmp_path, "--host", server.url, *shape, "--max-tokens", "16", "--no-sidecar")
    assert done.process.returncode in ENDS
    records = measured(done)
    assert (len(records), {record.outcome for record in records}) == (12, {Outcome.COMPLETED})
    assert done.aggregated["Request Count"] == "12"
    for way in range(3):
        row = sorted((record for record in records if record.slot.way == way), key=lambda record: record.due_ns)
        assert len(row) == 4
        late = [after.due_ns - before.closed_ns for before, after in itertools.pairwise(row)]  # type: ignore[operator]
        assert late.count(0) >= 2, late  # the answers are so short that Locust may be late once


def test_a_signal_in_the_middle_of_a_row_sends_nothing_more(slow_server: Simulator, tmp_path: Path):
    """What was to follow has neither a start nor a record; what ran is cancelled."""
    shape = ["--ways", "2", "--rounds", "1", "--requests-per-user", "50", "--max-tokens", "400"]
    with locust(tmp_path, "--host", slow_server.url, *shape, "--no-sidecar") as running:
        _wait_for_phase(running, "measured")
        running.send(signal.SIGINT)
        assert running.wait() == 130
    _nothing_lost(running)
    outcomes = Counter(record.outcome for record in measured(running))
    assert outcomes[Outcome.CANCELLED] <= 2
    assert len(running.run.starts) == len(running.run.records)


def test_locust_as_a_library(server: Simulator, tmp_path: Path):
    """`Environment`, `create_local_runner`, two runs in one process."""
    script = f"""
import sys
sys.path.insert(0, {str(ROOT / "locustfiles")!r})
import locust
from concurrency import ShortUser, Ways
from locust.argument_parser import get_parser
from locust.env import Environment

arguments = ["--run-dir", {str(tmp_path)!r}, "--rounds", "1", "--ways", "1,2", "--max-tokens", "8", "--no-sidecar"]
options = get_parser(default_config_files=[]).parse_args(arguments)
environment = Environment(
    user_classes=[ShortUser], shape_class=Ways(), events=locust.events, parsed_options=options, host={server.url!r}
)
runner = environment.create_local_runner()
environment.events.init.fire(environment=environment, runner=runner, web_ui=None)
for _ in range(2):
    runner.start_shape()
    runner.shape_greenlet.join()
    print("requests", environment.stats.total.num_requests)
environment.events.quitting.fire(environment=environment, reverse=True)
runner.quit()
environment.events.quit.fire(exit_code=environment.process_exit_code)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith("requests")] == ["requests 3"] * 2, done.stderr
    assert len(list(tmp_path.glob("*Z*"))) == 2


def _wait_for_phase(running: Locust, phase: str) -> None:
    """Until the first stage of that phase is under way."""
    running.wait_for("run folder")
    plan = running.folder / PLAN
    for _ in range(1200):
        if any(json.loads(line).get("phase") == phase for line in plan.read_text().splitlines()):
            break
        try:
            running.process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(running.output)
    try:
        running.process.wait(0.7)
    except subprocess.TimeoutExpired:
        return
    raise AssertionError(running.output)


def _nothing_lost(done: Locust) -> None:
    run = done.run
    assert run.lost == ()
    assert run.manifest["state"] == "interrupted"
    cancelled = [record for record in measured(done) if record.outcome is Outcome.CANCELLED]
    assert cancelled
    totals = (int(done.aggregated["Request Count"]), int(done.aggregated["Failure Count"]))
    assert (len(measured(done)), len(cancelled)) == totals
    assert {record.id for record in run.records} == {row["id"] for row in done.csv("requests")}


def _engines(running: Locust) -> list[int]:
    return _children(running.process.pid, "loadkit.engine")


def _children(pid: int, words: str) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", words], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]
