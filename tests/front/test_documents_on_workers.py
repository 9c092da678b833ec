"""A worker that does not share the master's run folder asks about the documents of its plan all the same."""

import subprocess
import sys
from pathlib import Path

import pytest
from locust_process import ROOT, locust

from loadkit.record import Outcome
from simulator_process import simulator

RETRIEVAL = ROOT / "locustfiles" / "retrieval.py"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_documents_travel_to_a_worker_with_a_folder_of_its_own(tmp_path: Path, unused_tcp_port: int):
    """Each is sent once, arrives as it is, and every question about it is answered."""
    ports = ["--master-port", str(unused_tcp_port)]
    with simulator(preset="fast") as server:
        options = ["--host", server.url, "--rungs", "8", "--no-sidecar", "--master", "--expect-workers", "1"]
        listen = ["--master-bind-port", str(unused_tcp_port)]
        with locust(tmp_path / "m", *options, *listen, file=RETRIEVAL) as master:
            command = [
                sys.executable,
                "-m",
                "locust",
                "-f",
                str(RETRIEVAL),
                "--worker",
                *ports,
                "--run-dir",
                str(tmp_path / "w"),
            ]
            worker = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            master.wait(180)
            worker.wait(20)
    about = [record for record in master.run.records if record.case.scenario == "retrieval"]
    assert about, master.output
    assert {record.outcome for record in about} == {Outcome.COMPLETED}
    assert {record.slot.worker for record in about} == {"w0"}
    theirs = {file.read_bytes() for file in next((tmp_path / "w").glob("*Z*")).glob("inputs/*")}
    ours = {file.read_bytes() for file in (master.folder / "inputs").rglob("*.txt")}
    assert len(theirs) >= 2
    assert theirs <= ours
