"""Real servers for the tests: a CPU vLLM, the Docker engine, Chromium; each is skipped with its reason where it is absent."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A property holds or does not; how long an example took says how busy the machine is.
settings.register_profile("loadkit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loadkit")

ROOT = Path(__file__).parents[1]
VLLM = Path(os.environ.get("LOADKIT_VLLM_DIR", Path.home() / ".cache" / "loadkit-vllm"))
VLLM_STARTS_IN_S = 600  # 40 to 80 s on an idle machine
SPECULATIVE = (
    "--speculative-config",
    json.dumps({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4}),
)
OWN = "starts servers of its own"
"""In place of flags, `@pytest.mark.vllm(OWN)`: the shared server is in its way, so it comes last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine can't run, and say what would bring it."""
    absent = {
        "vllm": None if (VLLM / ".done").exists() else "no vLLM installed: run scripts/vllm/install.sh",
        "docker": None if _docker_answers() else "no Docker engine answers: install docker.io and start dockerd",
        "browser": None if shutil.which("chromium") else "no chromium: install Debian's package",
    }
    for item in items:
        for name, reason in absent.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=_flags)


def _flags(item: pytest.Item) -> tuple[str, ...]:
    """Tests of one vLLM stand together, after all that need none: the server starts once for each set of flags."""
    marker = item.get_closest_marker("vllm")
    return () if marker is None else ("vllm", *marker.args)


def _docker_answers() -> bool:
    if not shutil.which("docker"):
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=30).returncode == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class VllmServer:
    """`server(*flags)` gives the URL of a real vLLM with these flags; one runs at a time, other flags replace it.

    A test names the same flags in its marker, `@pytest.mark.vllm(*flags)`, so that it is run beside others of its kind.
    """

    def __init__(self, new_folder: Callable[[str], Path]):
        self._new_folder = new_folder
        self._flags: tuple[str, ...] = ()
        self._url = ""
        self._log = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, *flags: str) -> str:
        if self._process is None or self._process.poll() is not None or self._flags != flags:
            self.stop()
            self._process = self._started(flags)
        _wait_until_healthy(self._url, self._process, self._log)
        return self._url

    def _started(self, flags: tuple[str, ...]) -> subprocess.Popen[bytes]:
        port = free_port()
        self._log = self._new_folder("vllm") / "server.log"
        self._flags, self._url = flags, f"http://127.0.0.1:{port}"
        return subprocess.Popen(
            [ROOT / "scripts" / "vllm" / "serve.sh", str(port), *flags],
            stdout=self._log.open("wb"),
            stderr=subprocess.STDOUT,
            env={**os.environ, "KV": "1", "LOADKIT_VLLM_DIR": str(VLLM)},
        )

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


@pytest.fixture
def hangups_heard() -> Iterator[None]:
    """Children hear SIGHUP, also where the tests themselves were started with nohup: an ignored signal is inherited."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB: a tmpfs, where this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    server = VllmServer(tmp_path_factory.mktemp)
    yield server
    server.stop()


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + VLLM_STARTS_IN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            pytest.fail(f"vLLM ended with {process.returncode}:\n{log.read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    pytest.fail(f"vLLM was not healthy within {VLLM_STARTS_IN_S} s:\n{log.read_text()[-3000:]}")
