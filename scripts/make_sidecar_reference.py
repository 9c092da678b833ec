"""Writes docs/reference/sidecar.md from the code: options, routes, samples.

usage: python scripts/make_sidecar_reference.py        (a test compares the file with what this makes)
"""

from __future__ import annotations

from pathlib import Path

import typer

from loadkit.commands.sidecar import app
from loadkit.sidecar.samples import KEYS
from loadkit.sidecar.service import ROUTES

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "sidecar.md"

HEAD = """\
# Sidecar

`loadkit sidecar` runs on the server's host and writes down, several times a second, what the host, the kernel's log, the
container, its cgroup, the GPU and the server's `/metrics` say. Locust starts one by itself for a server on this host, and is
pointed at another with `--sidecar http://host:9101`. It keeps its own file and goes on when Locust is gone; at the end of a run
Locust copies the run's span (± 60 s) into `samples.jsonl`. This page is made from the code.

On stdout it prints one line when it listens: `{"url": "http://127.0.0.1:9101", "pid": 4711, "out": "/…/samples.jsonl"}`.
What it has to say to a person goes to stderr, each thing once. SIGTERM and Ctrl-C end it with 0 after the last samples are on
disk; 2 is a mistake in the options, 3 an output file that can't be opened.

A host counts only if the sidecar sees the server's own process: the owner of the listening port, or a process of the container
behind it, that was started when the server says that it was (`process_start_time_seconds`). Behind a tunnel or a port forward
the host is unverified, and the samples say why (`server_how`).

## Options
"""

RIGHTS = """\
## What it may need

Every source fails alone: what is missing is said once, recorded as unknown (`missing`), and tried again.

| source | needs | in a container |
|---|---|---|
| host | `/proc` | nothing: it shows the host's values |
| kernel | `/dev/kmsg` (root), else `journalctl -k` | `--device /dev/kmsg --cap-add SYSLOG`; a volume is denied |
| container | the Docker socket | `-v /var/run/docker.sock:/var/run/docker.sock`, which is as good as root |
| cgroup | `/sys/fs/cgroup`, the container's PID | `--pid host -v /sys/fs/cgroup:/sys/fs/cgroup:ro` |
| server's own process | root, or the same user | `--pid host --cap-add SYS_PTRACE` |
| gpu | `pip install 'loadkit[gpu]'` and the driver | the NVIDIA runtime |
| services | systemd | not from within a container |

Its own memory is locked and its OOM score lowered where that is permitted. Cost on two busy cores: 1.2 % of one with everything
on, 0.95 % without `/metrics`, 52 MB (`benchmarks/sidecar_cost.py` measures yours).

## The guard

It always judges and records; it acts only with `--guard`.

| level | when | what Locust does | what the sidecar does |
|---|---|---|---|
| `warn` | MemAvailable below 8 GiB | nothing | records it |
| `stop_new` | below 6 GiB, until it is above `warn` again | sends nothing new, lets run what runs | records it |
| `abort` | one of the reasons below | closes its streams | half a second later stops the container |

An abort has one of these reasons: MemAvailable is below 4 GiB for 1 s; each of the last three seconds by itself leads to zero
within 10 s; a process was killed for memory (`oom_kill` rose, or the kernel says so); the container died or was started anew,
unasked. The container gets SIGTERM, and SIGKILL after 5 s, or at once when MemAvailable falls below half of the threshold.

The prediction counts only after the server has answered once: loading a model falls as steeply as a collapse. Swap is no
condition. Only the container that was named is stopped, and only if its Id is that of the baseline. Every action is recorded
with its reason before it is taken. Afterwards it waits for memory to come back and records how long that took.

## HTTP

Without `LOADKIT_SIDECAR_TOKEN` it listens on loopback only; with it every route wants `Authorization: Bearer …`. Times are
nanoseconds of the sidecar's CLOCK_MONOTONIC. `loadkit.sidecar_client` is a client for all of it.
"""

SAMPLES = """\
## Samples

A line of `samples.jsonl` is an object with `kind` ("sample"), `source`, `monotonic_ns`, `wall_ns`, `boot_id`, `data` and
`missing`. A key that is absent from `data` is unknown, never 0. In a run folder the stamps are in the run's clock (the copy
translates them by the offset that round trips gave; the manifest holds it with its error), wall time and boot id are those of
the sidecar's host.
"""


def pages() -> dict[str, str]:
    """File name → content."""
    return {PAGE.name: page()}


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, _options(), RIGHTS, _routes(), SAMPLES, _keys()])


def _options() -> str:
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for option in typer.main.get_command(app).params:
        name = " / ".join([*option.opts, *option.secondary_opts])
        default = "" if option.default in (None, False) else f"`{option.default}`"
        rows.append(f"| `{name}` | {default} | {getattr(option, 'help', None) or ''} |")
    return "\n".join(row for row in rows if "`--help`" not in row) + "\n"


def _routes() -> str:
    rows = [f"| `{method} {path}` | {route.meaning} |" for (method, path), route in ROUTES.items()]
    return "\n".join(["| route | answer |", "|---|---|", *rows]) + "\n"


def _keys() -> str:
    parts = []
    for source, keys in KEYS.items():
        rows = "\n".join(f"| `{key}` | {meaning.replace('|', '·')} |" for key, meaning in keys.items())
        parts.append(f"### {source}\n\n| key | meaning |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
