"""Arms by compose, with real containers: the simulator inside an image that is a few hundred bytes and read-only mounts."""

import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml

from conftest import ROOT
from experiment.conftest import Bed
from loadkit.experiment.compose import ComposeServer, compose_command
from loadkit.experiment.launch import come_up
from loadkit.experiment.plan import Arm
from loadkit.experiment.server import ServerFailed
from loadkit.experiment.server_log import ServerLog

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

IMAGE = "loadkit-empty:test"
PYTHON = Path(sys.executable)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Nothing but empty folders and two labels; interpreter and project come in as read-only mounts."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name in ("tmp", "proc", "sys", "dev", "etc"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
            archive.addfile(folder)
    command = ["docker", "import", "-c", "LABEL variant=test", "-", IMAGE]
    subprocess.run(command, input=tar.getvalue(), check=True, capture_output=True)
    yield IMAGE
    subprocess.run(["docker", "rmi", IMAGE], check=False, capture_output=True)


def compose_file(
    bed: Bed, *, words: str = "--preset fast", publish: bool = True, name: str = "compose.yaml", **changes
) -> Path:
    mounts = {str(Path(part).resolve()) for part in (sys.base_prefix, sys.prefix, ROOT)} | {"/usr", "/lib", "/lib64"}
    service = {
        "image": IMAGE,
        "container_name": f"loadkit-test-{bed.port}",
        "entrypoint": [str(PYTHON), "-m", "loadkit", "sim", "--host", "0.0.0.0", "--port", "8000", *words.split()],
        "working_dir": "/tmp",
        "restart": "unless-stopped",
        "expose": ["8000"],
        "volumes": [f"{path}:{path}:ro" for path in sorted(mounts) if Path(path).exists()],
        **({"ports": [f"127.0.0.1:{bed.port}:8000"]} if publish else {}),
        **changes,
    }
    path = bed.folder / name
    path.write_text(yaml.safe_dump({"version": "2.4", "services": {"server": service}}))
    return path


@pytest.fixture
def down(bed: Bed, image: str) -> Iterator[None]:
    yield
    for path in bed.folder.glob("compose*.yaml"):
        subprocess.run(
            [*compose_command(), "-f", str(path), "down", "-t", "2"], cwd=bed.folder, check=False, capture_output=True
        )


def server_of(bed: Bed, *files: Path, **changes) -> ComposeServer:
    return ComposeServer(Arm(compose=tuple(files), **changes), files)


def log_in(bed: Bed) -> ServerLog:
    return ServerLog(bed.folder / "server.log", limit_bytes=100_000)


def test_a_service_comes_up_is_known_and_goes_down(bed: Bed, down):
    """Published port, arguments, image with labels, restart policy, log; and the name was known ahead."""
    server = server_of(bed, compose_file(bed))
    ahead = server.name_ahead()
    assert server.running() is None
    server.up(log_in(bed))
    assert come_up(server, log_in(bed), limit_s=60, orders=None) == bed.url
    facts = server.facts()
    assert (facts["container"], facts["restart_policy"], facts["labels"]) == (ahead, "unless-stopped", {"variant": "test"})
    assert "--preset" in facts["arguments"]
    server.save_log(log_in(bed))
    assert '"preset":"fast"' in log_in(bed).text()
    server.down()
    assert server.running() is None


def test_a_service_without_a_published_port_is_reached_at_its_own_address(bed: Bed, down):
    """Through the container's network."""
    server = server_of(bed, compose_file(bed, publish=False))
    server.up(log_in(bed))
    url = come_up(server, log_in(bed), limit_s=60, orders=None)
    assert url.endswith(":8000")
    assert "127.0.0.1" not in url


def test_a_container_that_restarts_by_itself_is_not_waited_for(bed: Bed, down):
    """`unless-stopped` hides a server that dies at once; its log says why."""
    server = server_of(bed, compose_file(bed, words="--no-such-flag"))
    server.up(log_in(bed))
    with pytest.raises(ServerFailed, match=r"(?s)(restarts|exited).*no-such-flag"):
        come_up(server, log_in(bed), limit_s=60, orders=None)


def test_what_compose_refuses_is_said(bed: Bed, down):
    """Its own message."""
    server = server_of(bed, compose_file(bed, image="loadkit-no-such-image:never"))
    with pytest.raises(ServerFailed, match="loadkit-no-such-image"):
        server.up(log_in(bed))


@pytest.mark.slow
def test_an_experiment_between_two_compose_arms_brings_back_what_ran(bed: Bed, down):
    """The user's server runs before; afterwards the same image, policy, files and a passed smoke are proved."""
    default = compose_file(bed)
    graph = bed.folder / "compose.graph.yaml"
    words = "-m loadkit sim --host 0.0.0.0 --port 8000 --preset fast --max-num-seqs 8"
    override = {"entrypoint": [str(PYTHON), *words.split()]}
    graph.write_text(yaml.safe_dump({"version": "2.4", "services": {"server": override}}))
    subprocess.run([*compose_command(), "-f", str(default), "up", "-d"], cwd=bed.folder, check=True, capture_output=True)
    plan = bed.plan(
        arms={
            "eager": {"compose": "compose.yaml", "proof": {"log": '"preset":"fast"'}},
            "graph": {
                "compose": ["compose.yaml", "compose.graph.yaml"],
                "prepare": "echo built",
                "proof": {"argument": "--max-num-seqs"},
            },
        },
        default="eager",
        factors=["max_num_seqs"],
        pairs=1,
        smoke=str(ROOT / "locustfiles" / "smoke.py"),
    )
    code, output = bed.run(plan, limit_s=480)
    assert [state for _, state in bed.states()] == ["finished"] * 2, output
    assert code in (0, 4, 5, 6), output
    assert (bed.out / "logs" / "prepare-graph.log").read_text() == "built\n"
    proved = bed.proved()
    as_it_was = (
        "compose files byte-identical",
        "default eager running and healthy",
        "image as before",
        "restart policy as before",
    )
    assert {what: proved[what] for what in (*as_it_was, "smoke passed")} == dict.fromkeys((*as_it_was, "smoke passed"), "ok"), (
        output
    )
    assert orjson.loads((bed.out / "comparison.json").read_bytes())["refused"] is False
    logs = [path / "server.log" for path in (bed.out / "logs").iterdir() if path.name[0] == "0"]
    assert [log.stat().st_size > 0 for log in logs] == [True] * 2


@pytest.mark.slow
def test_a_default_whose_file_was_changed_meanwhile_is_not_called_as_it_was(bed: Bed, down):
    """Byte-identical is checked against the hash from before, and the exit code says so."""
    compose_file(bed)
    shutil.copy(bed.folder / "compose.yaml", bed.folder / "compose.b.yaml")
    touch = "printf '\\n# edited\\n' >> compose.yaml"
    arms = {"a": {"compose": "compose.yaml"}, "b": {"compose": "compose.b.yaml", "prepare": touch}}
    plan = bed.plan(arms=arms, default="a", factors=[], pairs=1)
    code, output = bed.run(plan, limit_s=480)
    assert bed.proved()["compose files byte-identical"] == "failed", output
    assert "THE DEFAULT CONFIGURATION IS NOT BACK AS IT WAS" in output
    assert code in (3, 4)
