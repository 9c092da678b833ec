"""A real Docker engine with an image of one static busybox: nothing is pulled."""

import io
import shutil
import subprocess
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

IMAGE = "loadkit-busybox:test"
BUSYBOX = Path("/bin/busybox")


def docker(*words: str, check: bool = True) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=60)
    if check and done.returncode != 0:
        raise AssertionError(f"docker {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def import_busybox() -> None:
    """Import a root of busybox and its applets as symbolic links, once."""
    if docker("images", "-q", IMAGE):
        return
    busybox = Path(shutil.which("busybox") or BUSYBOX).resolve()
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "tmp", "proc", "dev", "hog"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(entry)
        tar.add(busybox, "bin/busybox")
        for applet in applets:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            if applet != "busybox":
                tar.addfile(entry)
    subprocess.run(["docker", "import", "-", IMAGE], input=buffer.getvalue(), capture_output=True, check=True, timeout=60)


class Engine:
    """Starts containers under names of this test's own and removes them, and only them, at the end."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def name(self, hint: str) -> str:
        name = f"loadkit-test-{hint}-{uuid.uuid4().hex[:8]}"
        self._names.append(name)
        return name

    def run(self, name: str, *command: str, flags: tuple[str, ...] = ()) -> str:
        return docker("run", "-d", "--name", name, *flags, IMAGE, *command)

    def close(self) -> None:
        for name in self._names:
            docker("rm", "-f", "-v", name, check=False)


@pytest.fixture
def engine() -> Iterator[Engine]:
    if not shutil.which("busybox") and not BUSYBOX.exists():
        pytest.skip("no busybox: install busybox-static")
    import_busybox()
    own = Engine()
    yield own
    own.close()


def eventually(what: Callable[[], object], *, within_s: float = 30) -> None:
    """Wait until `what()` is true; a hang guard, not a timing."""
    due = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < due, f"not within {within_s} s"
        time.sleep(0.05)
