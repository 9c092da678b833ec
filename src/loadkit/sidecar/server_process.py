"""Is the server's own process on this host? Only then do this host's samples say anything about it (a tunnel is no host).

The port's owner, or the container behind it, must have been started when the server says that it was.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TOLERANCE_S = 1.0  # btime of /proc/stat is whole seconds, and a step of the wall clock moves it
FORWARDERS = frozenset(
    ("ssh", "sshd", "sshd-session", "autossh", "kubectl", "socat", "haproxy", "nginx", "envoy", "caddy", "traefik",
     "tailscaled", "frpc", "cloudflared")
)  # fmt: skip
LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp (include/net/tcp_states.h)


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What the engine says of the container: PID 1, ports of the host that lead into it, its own addresses."""

    id: str
    pid: int
    ports: frozenset[int]
    addresses: frozenset[str]


def find(url: str, started_s: float | None, *, container: ContainerFacts | None, proc: Path = Path("/proc")) -> dict[str, Any]:
    """`server_seen` (absent where it can't be known), `server_pid`, `server_how`.

    `started_s` is the server's process_start_time_seconds; without one (llama.cpp, several API servers) the owner of the
    port counts unless it is a known forwarder.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    ips = _resolved(parts.hostname or "")
    if container is not None and (ips & container.addresses or (port in container.ports and any(map(_is_here, ips)))):
        return _in_container(container, started_s, proc)
    if not ips:
        return {"server_how": f"{parts.hostname} is not known here"}
    if not any(map(_is_here, ips)):
        return {"server_seen": False, "server_how": f"{parts.hostname} is another host"}
    return _by_port(port, started_s, proc)


def start_s(pid: int, proc: Path = Path("/proc")) -> float | None:
    """Wall time of a process's start: btime + field 22 of its stat (proc(5)), as prometheus_client computes it."""
    try:
        ticks = int((proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[19])
        btime = next(int(line.split()[1]) for line in (proc / "stat").read_bytes().splitlines() if line.startswith(b"btime"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return btime + ticks / os.sysconf("SC_CLK_TCK")


def _in_container(container: ContainerFacts, started_s: float | None, proc: Path) -> dict[str, Any]:
    """Any process of the container may be the server: PID 1 is often a shell."""
    if started_s is None:
        return {"server_seen": True, "server_pid": container.pid, "server_how": "container's port; no start time is exported"}
    for pid in (container.pid, *_pids_of(container.id, proc)):
        if _matches(start_s(pid, proc), started_s):
            return {"server_seen": True, "server_pid": pid, "server_how": "container's process, started as the server says"}
    if start_s(container.pid, proc) is None:
        return {"server_how": "the container's processes can't be seen: run with --pid host"}
    return {"server_seen": False, "server_how": "no process of the container was started when the server says that it was"}


def _by_port(port: int, started_s: float | None, proc: Path) -> dict[str, Any]:
    inodes = set(_listening(port, proc))
    if not inodes:
        return {"server_how": f"nobody is seen listening on port {port}: another network namespace?"}
    owners = list(_owners(inodes, proc))
    if not owners:
        return {"server_how": f"whose port {port} is can't be seen: run as root, or with --pid host and CAP_SYS_PTRACE"}
    if started_s is None:
        return _without_start(owners[0], port, proc)
    for pid in owners:
        if _name(pid, proc) not in FORWARDERS and _matches(start_s(pid, proc), started_s):
            return {"server_seen": True, "server_pid": pid, "server_how": f"owner of port {port}, started when the server says"}
    who = f"{_name(owners[0], proc)} (pid {owners[0]})"
    return {"server_seen": False, "server_how": f"port {port} belongs to {who}, which is not the server: a tunnel or forward"}


def _without_start(pid: int, port: int, proc: Path) -> dict[str, Any]:
    name = _name(pid, proc)
    if name in FORWARDERS:
        return {"server_seen": False, "server_how": f"port {port} belongs to {name}: a tunnel or forward"}
    if name == "docker-proxy":
        return {"server_how": f"port {port} leads into a container: name it with --container"}
    return {"server_seen": True, "server_pid": pid, "server_how": f"owner of port {port}; its start time is not exported"}


def _matches(actual_s: float | None, said_s: float) -> bool:
    return actual_s is not None and abs(actual_s - said_s) <= TOLERANCE_S


def _resolved(host: str) -> frozenset[str]:
    try:
        return frozenset(str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except OSError:
        return frozenset()


def _is_here(ip: str) -> bool:
    """An address is this host's if a socket can be bound to it."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((ip, 0))
    except OSError:
        return False
    return True


def _listening(port: int, proc: Path) -> Iterator[str]:
    """Inodes of sockets that listen on a port: in our network namespace and, with a shared pid namespace, in the host's."""
    for table in ("net/tcp", "net/tcp6", "1/net/tcp", "1/net/tcp6"):
        try:
            lines = (proc / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _owners(inodes: set[str], proc: Path) -> Iterator[int]:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in proc.glob("[0-9]*"):
        try:
            with os.scandir(folder / "fd") as files:
                links = (os.readlink(file.path) for file in files)  # noqa: PTH115  -- a Path for each costs ten times as much
                if any(link in wanted for link in links):
                    yield int(folder.name)
        except OSError:  # it ended, or is another user's
            continue


def _pids_of(container_id: str, proc: Path) -> Iterator[int]:
    for folder in proc.glob("[0-9]*"):
        try:
            if container_id in (folder / "cgroup").read_text():
                yield int(folder.name)
        except OSError:
            continue


def _name(pid: int, proc: Path) -> str:
    try:
        return (proc / str(pid) / "comm").read_text().strip()
    except OSError:
        return "a process"
