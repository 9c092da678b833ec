"""Where a run comes from: versions, host, options, plan and server, as the manifest stores them. Secrets are masked."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from loadkit import __version__
from loadkit.plan import Plan, digest, size
from loadkit.record import Phase
from loadkit.request import Target
from loadkit.secrets import masked, masked_json, masked_text

JSON = dict[str, Any]
PACKAGES = ("locust", "openai", "httpx2", "httptools", "uvloop", "gevent", "orjson")
"""Packages that the figures pass through."""


def manifest(
    *,
    run_id: str,
    created_wall_ns: int,
    options: Mapping[str, object],
    target: Target,
    found: Mapping[str, Any],
    embedded_simulator: bool,
    argv: Sequence[str] = tuple(sys.argv),
    proc: Path = Path("/proc"),
) -> JSON:
    """The manifest of a run that begins. `found` is what preflight learned of the server (`server` holds its part)."""
    return {
        "run_id": run_id,
        "label": options.get("label", ""),
        "loadkit_version": __version__,
        "created_wall_ns": created_wall_ns,
        "boot_id": boot_id(proc),
        "argv": [text.encode(errors="backslashreplace").decode() for text in masked(argv)],  # file names may be no UTF-8
        "options": masked_json(dict(options)),
        "target": {
            "base_url": masked_text(target.base_url),
            "model": target.model,
            "dialect": target.dialect,
            "embedded_simulator": embedded_simulator,
            "max_model_len": target.max_model_len,
        },
        "server": masked_json(dict(found.get("server", {}))),
        "preflight": masked_json({key: value for key, value in found.items() if key not in ("server", "target")}),
        "host": host(proc),
        "client": client(),
        "plan": {},
        "scenarios": {},
        "asked": {"answers": False, "slo": bool(options.get("slo")), "host": _host_asked(options), "truncation": False},
        "slo": list(options.get("slo", ())),  # type: ignore[call-overload]
        "clock": {},
        "state": "running",
        "ended_reason": "",
        "exit_code": None,
        "headline": None,
    }


def plan_facts(plan: Plan) -> JSON:
    """What of the plan makes two runs the same work in the same order."""
    measured = [stage for stage in plan.stages if stage.phase is Phase.MEASURED]
    return {
        "name": plan.name,
        "seed": plan.seed,
        "hash": digest(plan),
        "ways": sorted({stage.ways for stage in measured}),
        "rounds": max((stage.round for stage in measured), default=0),
        "items": size(plan),
        "measured_items": sum(len(stage.items) for stage in measured),
    }


def host(proc: Path = Path("/proc")) -> JSON:
    """This host: kernel, processors, memory (bytes), GPU driver; what can't be read is left out."""
    memory = _memory(proc)
    driver = _first_line(proc / "driver" / "nvidia" / "version")
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "mem_total_bytes": memory.get("MemTotal"),
        "mem_available_bytes": memory.get("MemAvailable"),
        **({"driver": driver} if driver else {}),
    }


def client() -> JSON:
    """The software that measured."""
    return {"python": platform.python_version(), "packages": {name: _version(name) for name in PACKAGES}}


def boot_id(proc: Path = Path("/proc")) -> str:
    """Which boot of the kernel this is; empty where there is no such file."""
    return _first_line(proc / "sys" / "kernel" / "random" / "boot_id")


def _host_asked(options: Mapping[str, object]) -> bool:
    return bool(options.get("guard") or options.get("sidecar"))


def _memory(proc: Path) -> dict[str, int]:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return {}
    parts = (line.split() for line in lines)
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in parts if len(words) == 3}


def _first_line(path: Path) -> str:
    try:
        return path.read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
