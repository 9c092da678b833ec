"""compose.yaml and its override, read by Debian's docker-compose (1.29); nothing is pulled or started."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
COMPOSE = shutil.which("docker-compose")
pytestmark = pytest.mark.skipif(COMPOSE is None, reason="no docker-compose: install Debian's package")


@cache
def configured(*files: str, **variables: str) -> dict[str, Any]:
    """What compose makes of the files: all services, those of profiles too."""
    assert COMPOSE is not None
    flags = [word for file in files for word in ("-f", str(ROOT / file))]
    done = subprocess.run(
        [COMPOSE, *flags, "config"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables},
    )
    assert done.returncode == 0, done.stderr
    services: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return services


def test_the_profiles_choose_what_serves():
    """A GPU's server or a simulated one, never both; the rest is there in either."""
    profiles = {name: service.get("profiles", []) for name, service in configured("compose.yaml").items()}
    assert profiles == {"server": ["spark"], "sim": ["sim"], "sidecar": [], "locust-master": [], "locust-worker": []}


def test_the_override_differs_in_image_and_eager_alone():
    """The A/B's two factors, and not a third by a slip of the hand."""
    eager = configured("compose.yaml")["server"]
    graph = configured("compose.yaml", "compose.graph.yaml")["server"]
    assert set(eager["command"]) ^ set(graph["command"]) == {"--enforce-eager"}
    assert {key for key in eager if eager[key] != graph.get(key)} == {"image", "command"}


def test_the_sidecar_may_see_what_it_needs():
    """The host's processes, the kernel's log, the engine; and it is told to start before the server."""
    sidecar = configured("compose.yaml")["sidecar"]
    assert (sidecar["pid"], sidecar["devices"]) == ("host", ["/dev/kmsg:/dev/kmsg"])
    assert {"SYSLOG", "SYS_PTRACE", "IPC_LOCK"} <= set(sidecar["cap_add"])
    assert any(mount.startswith("/var/run/docker.sock") for mount in map(str, sidecar["volumes"]))
    assert "--wait" in sidecar["command"]


def test_the_workers_write_where_the_master_does():
    """One run folder for all of them, under the user's own id."""
    services = configured("compose.yaml", LOADKIT_UID="1234", LOADKIT_GID="5")
    for name in ("locust-master", "locust-worker"):
        assert "--run-dir=/runs" in services[name]["command"]
        assert services[name]["user"] == "1234:5"


def test_nothing_is_published_beyond_loopback():
    """A load generator and a model are nobody else's business."""
    for service in configured("compose.yaml").values():
        for port in service.get("ports", ()):
            assert str(port).startswith("127.0.0.1:")


def test_image_and_container_are_variables():
    """An experiment's arms set them."""
    services = configured("compose.yaml", VLLM_IMAGE="local/x:1", SERVER_CONTAINER="mine")
    assert (services["server"]["image"], services["server"]["container_name"]) == ("local/x:1", "mine")
    assert "--container=mine" in services["sidecar"]["command"]


def test_the_sidecars_options_exist():
    """Every option that compose passes is one of the command's."""
    import re

    from typer.testing import CliRunner

    from loadkit.commands.sidecar import app

    known = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for word in configured("compose.yaml")["sidecar"]["command"][2:]:
        assert re.search(re.escape(word.split("=")[0]) + r"\b", known), word
