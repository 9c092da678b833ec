"""Failed units and victims, from a stand-in for systemctl that answers as the real one prints."""

from pathlib import Path

import pytest

from loadkit.sidecar.samples import Missing
from loadkit.sidecar.services import Services, unit_of

SYSTEMCTL = """#!/bin/sh
case "$*" in
  *"--machine=1000@.host"*list-units*) echo "wireplumber.service loaded failed failed Multimedia Service Session Manager" ;;
  *"--machine=1001@.host"*) echo "Failed to connect to bus" >&2; exit 1 ;;
  *list-units*) echo "nvidia-persistenced.service loaded failed failed NVIDIA Persistence Daemon" ;;
  *"--machine=1000@.host"*show*) echo inactive ;;
  *show*) echo active ;;
esac
"""


@pytest.fixture
def systemctl(tmp_path: Path) -> str:
    path = tmp_path / "systemctl"
    path.write_text(SYSTEMCTL)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("/system.slice/docker-4f1d.scope", ("system", "docker-4f1d.scope")),
        (
            "/user.slice/user-1000.slice/user@1000.service/session.slice/wireplumber.service",
            ("user-1000", "wireplumber.service"),
        ),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", ("user-1000", "init.scope")),
        ("/user.slice/user-1000.slice/user@1000.service", ("system", "user@1000.service")),
        ("/user.slice/user-1000.slice/session-4.scope", ("system", "session-4.scope")),
        ("wireplumber.service", ("system", "wireplumber.service")),
        ("/docker/4f1d", None),
        ("/", None),
    ],
)
def test_the_unit_of_a_cgroup(cgroup: str, unit: tuple[str, str] | None):
    """Below a user's manager it is that user's unit, else the system's."""
    assert unit_of(cgroup) == unit


def test_users_and_system_are_asked(systemctl: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Root asks every user's manager; one that does not answer is named, not passed over."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    for uid in ("1000", "1001"):
        (tmp_path / "run" / uid).mkdir(parents=True)
    (data,) = Services(systemctl, tmp_path / "run").look("start")
    assert data == {
        "at": "start",
        "failed_units": [
            "system:nvidia-persistenced.service",
            "user-1000:wireplumber.service",
            "user-1001:user manager does not answer",
        ],
    }


def test_victims_are_followed(systemctl: str, tmp_path: Path):
    """Units that lost a process: their state now, so that "everything is back" is a fact."""
    services = Services(systemctl, tmp_path)
    services.lost("/user.slice/user-1000.slice/user@1000.service/session.slice/wireplumber.service")
    services.lost("/system.slice/docker-4f1d.scope")
    services.lost("/docker/no-unit")
    (data,) = services.look("oom")
    assert data["victims"] == {"user-1000:wireplumber.service": "inactive", "system:docker-4f1d.scope": "active"}


def test_a_host_without_systemd_is_said():
    """A container, or another init."""
    with pytest.raises(Missing, match="there is no systemctl"):
        Services("/nonexistent/systemctl").look()
