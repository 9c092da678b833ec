"""Real servers for the tests: a CPU vLLM, the Docker engine, Chromium; each is skipped with its reason where it is absent."""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VLLM = Path(os.environ.get("LOADKIT_VLLM_DIR", Path.home() / ".cache" / "loadkit-vllm"))
VLLM_STARTS_IN_S = 240


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


def _docker_answers() -> bool:
    if not shutil.which("docker"):
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=30).returncode == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def vllm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """`vllm_server(*flags)` gives the URL of a real vLLM with these flags; one runs at a time, other flags replace it."""
    running: list[tuple[tuple[str, ...], subprocess.Popen[bytes], str]] = []

    def stop() -> None:
        while running:
            _, process, _ = running.pop()
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def serve(*flags: str, kv_gib: int = 1) -> str:
        if running and running[0][0] == flags:
            return running[0][2]
        stop()
        port = free_port()
        log = tmp_path_factory.mktemp("vllm") / "server.log"
        process = subprocess.Popen(
            [ROOT / "scripts" / "vllm" / "serve.sh", str(port), *flags],
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            env={**os.environ, "KV": str(kv_gib), "LOADKIT_VLLM_DIR": str(VLLM)},
        )
        url = f"http://127.0.0.1:{port}"
        running.append((flags, process, url))
        _wait_until_healthy(url, process, log)
        return url

    yield serve
    stop()


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
