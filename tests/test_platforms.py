import subprocess
import sys

import pytest

from loadkit.errors import UsageError
from loadkit.platforms import lacks, watchable


def test_nothing_is_missing_on_linux():
    """Everything was made for it."""
    assert lacks("linux") == ()
    watchable("linux")


def test_what_is_missing_on_a_mac_is_said():
    """Kernel stamps and the sidecar, with what to do instead."""
    said = " ".join(lacks("darwin"))
    assert "receive stamps" in said
    assert "--sidecar" in said


def test_windows_is_refused_with_a_way_out():
    """A run can't begin there; the read half works."""
    with pytest.raises(UsageError, match="WSL"):
        lacks("win32")


def test_the_sidecar_refuses_in_one_line():
    """The command itself, on a Python that says it is no Linux."""
    lie = "import sys; true, sys.platform = sys.platform, 'darwin'; import loadkit.platforms; sys.platform = true"
    code = f"{lie}; sys.argv = ['loadkit', 'sidecar']; from loadkit.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "this is darwin" in ended.stderr
