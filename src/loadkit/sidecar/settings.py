"""What a sidecar is asked to do, checked; sizes and shares as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from loadkit.errors import UsageError
from loadkit.sidecar.recorder import Rotation
from loadkit.sidecar.watchman import Thresholds

_SIZE = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>%|[KMGT]i?B?|B)?\s*$", re.IGNORECASE)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """Seconds between two looks at a source."""

    host_s: float = 0.25
    container_s: float = 1.0
    cgroup_s: float = 1.0
    gpu_s: float = 1.0
    server_s: float = 1.0
    services_s: float = 60.0
    recorder_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One sidecar. `owner` is a process whose end ends it too, `linger_s` later. `docker_url` `None` is the usual socket."""

    out: Path
    server: str | None = None
    container: str | None = None
    host: str = "127.0.0.1"
    port: int = 9101
    token: str | None = None
    guard: bool = False
    thresholds: Thresholds = field(default_factory=Thresholds)
    wait: bool = False
    owner: int | None = None
    linger_s: float = 60.0
    docker_url: str | None = None
    gpu: bool = True
    rotation: Rotation = field(default_factory=Rotation)
    periods: Periods = field(default_factory=Periods)
    proc: Path = Path("/proc")
    kmsg: Path = Path("/dev/kmsg")
    cgroup_root: Path = Path("/sys/fs/cgroup")


def size(text: str, *, total_bytes: int | None, where: str) -> int:
    """Bytes of `8GiB`, `8G`, `512M`, `6%` (of `total_bytes`).

    Raises:
        UsageError: it is no size, or a share of an unknown total.
    """
    match = _SIZE.match(text)
    if match is None:
        raise UsageError(f"{text!r} is no size", where=where, remedy="write 8GiB, 512MiB or 6%")
    number, unit = float(match["number"]), (match["unit"] or "B").upper()
    if unit != "%":
        return int(number * _UNITS.get(unit[0], 1))
    if total_bytes is None or number > 100:
        raise UsageError(f"{text!r} is no share of this host's memory", where=where, remedy="write a size, such as 8GiB")
    return int(number * total_bytes / 100)


def thresholds(
    warn: str, stop_new: str, abort: str, *, total_bytes: int | None, hold_s: float = 1.0, horizon_s: float = 10.0
) -> Thresholds:
    """The guard's thresholds.

    Raises:
        UsageError: a size can't be read, or the order warn ≥ stop-new ≥ abort is not kept.
    """
    found = Thresholds(
        warn_bytes=size(warn, total_bytes=total_bytes, where="--guard-warn"),
        stop_new_bytes=size(stop_new, total_bytes=total_bytes, where="--guard-stop-new"),
        abort_bytes=size(abort, total_bytes=total_bytes, where="--guard-abort"),
        hold_ns=int(hold_s * 1e9),
        horizon_ns=int(horizon_s * 1e9),
    )
    if not found.warn_bytes >= found.stop_new_bytes >= found.abort_bytes:
        levels = zip(("warn", "stop-new", "abort"), (found.warn_bytes, found.stop_new_bytes, found.abort_bytes), strict=True)
        told = ", ".join(f"{name} {level / _UNITS['G']:.1f} GiB" for name, level in levels)
        raise UsageError(
            f"the levels must fall from warn over stop-new to abort, and here they are {told}",
            where="--guard-warn", remedy="raise the first or lower the others",
        )  # fmt: skip
    return found


def address(listen: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:9101`, `[::1]:9101` or `:9101` (loopback).

    Raises:
        UsageError: no such address.
    """
    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{listen!r} is no address", where="--listen", remedy="write 127.0.0.1:9101")
    return host.strip("[]") or "127.0.0.1", int(port)
