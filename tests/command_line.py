"""`loadkit …` called in this process through its console entry: what a user types, without a second's imports each time.

Each command keeps one or two tests that start it as a process (`process=True`), as a shell does.
"""

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from loadkit.cli import main

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C", "XDG_STATE_HOME": "/nonexistent", "LOADKIT_LANG": "en"}


@dataclass(frozen=True)
class Done:
    """How a command ended and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def loadkit(*words: object, cwd: Path | None = None, process: bool = False) -> Done:
    """Run `loadkit WORDS` to its end. An exception that would be a traceback is raised here: it fails the test."""
    typed = [str(word) for word in words]
    return _started(typed, cwd) if process else _called(typed, cwd)


def _started(typed: list[str], cwd: Path | None) -> Done:
    command = [sys.executable, "-m", "loadkit", *typed]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=ENVIRONMENT, cwd=cwd)
    return Done(done.returncode, done.stdout, done.stderr)


def _called(typed: list[str], cwd: Path | None) -> Done:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    before = sys.argv, dict(os.environ)
    sys.argv = ["loadkit", *typed]
    _set_environment(ENVIRONMENT)
    try:
        with chdir(cwd or Path.cwd()), redirect_stdout(out), redirect_stderr(err):
            code = _exit_code()
    finally:
        sys.argv = before[0]
        _set_environment(before[1])
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)
