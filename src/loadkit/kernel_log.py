"""Kernel log lines that say something about the host's memory or GPU, from whatever prints them.

`parse` reads one line of /dev/kmsg, of `journalctl -k` (short, short-iso, short-precise, short-monotonic, `-o json`) or of
`dmesg` (plain, `-T`, `-x`, `--time-format iso`). Formats: Documentation/ABI/testing/dev-kmsg; mm/oom_kill.c
(`dump_oom_victim`, `__oom_kill_process`); NVIDIA's driver writes `NVRM: Xid (PCI:…): code, …`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEvent:
    """One line of interest; a field that the line does not hold is `None`.

    `event` is one of
        oom_invoked       a process asked for memory and the kernel began to look for a victim (`comm` asked)
        oom_constraint    whose memory ran out (`constraint`: CONSTRAINT_NONE is the whole host), which cgroup, which victim
        oom_kill          the host is out of memory: a process was killed
        memcg_kill        a cgroup (container) is over its limit: a process was killed
        userspace_kill    systemd-oomd or earlyoom killed a process: no kernel counter rises
        unit_oom          systemd noticed that a unit lost a process to the OOM killer
        nv_err_no_memory  the NVIDIA driver could not allocate; no verdict by itself
        xid               the GPU reported a fault (`code`)
        hung_task         a task is blocked for minutes

    `boot_us` is the kernel's own stamp, microseconds since boot; `wall_ns` stands where the printer gave a date.
    `cgroup` is the victim's (`task_memcg`); `limit_cgroup` the one whose limit was hit; with `global_oom` the host ran out.
    """

    event: str
    text: str
    seq: int | None = None
    pid: int | None = None
    comm: str | None = None
    constraint: str | None = None
    cgroup: str | None = None
    limit_cgroup: str | None = None
    global_oom: bool | None = None
    anon_rss_kb: int | None = None
    code: int | None = None
    boot_us: int | None = None
    wall_ns: int | None = None


def parse(line: str, *, near_wall_ns: int | None = None) -> KernelEvent | None:
    """The event of one line, `None` for a line of no interest.

    A date without a year (`journalctl -k`) is read as the year nearest to `near_wall_ns`, in this machine's time zone;
    without `near_wall_ns` such a line has no `wall_ns`.
    """
    if not _INTERESTING.search(line):
        return None
    stamped = _unwrapped(line.rstrip("\r\n"), near_wall_ns)
    found = _event_of(stamped.text)
    if found is None:
        return None
    return replace(found, seq=stamped.seq, boot_us=stamped.boot_us, wall_ns=stamped.wall_ns)


@dataclass(frozen=True, slots=True)
class _Stamped:
    text: str
    seq: int | None = None
    boot_us: int | None = None
    wall_ns: int | None = None


_INTERESTING = re.compile(
    r"oom|Out of memory|Killed |NVRM|NV_ERR|blocked for more than|sending SIG(?:TERM|KILL) to process|\"MESSAGE\" ?: ?\[",
    re.IGNORECASE,
)

_KMSG = re.compile(r"^\d+,(?P<seq>\d+),(?P<us>\d+),[^;]*;(?P<text>.*)$")
_DMESG = re.compile(r"^(?:<\d+>|\w+\s*:\w+\s*: )?\[\s*(?P<s>\d+)\.(?P<fraction>\d+)\]\s(?:\S+ kernel: )?(?P<text>.*)$")
_DMESG_T = re.compile(r"^(?:\w+\s*:\w+\s*: )?\[\w{3} (?P<date>\w{3} +\d+ [\d:]{8} \d{4})\] (?P<text>.*)$")
_INNER_STAMP = re.compile(r"^\[\s*\d+\.\d+\] ")
_ISO = re.compile(
    r"^(?P<date>\d{4}-\d\d-\d\dT[\d:]{8})(?:[.,](?P<fraction>\d+))?(?P<zone>Z|[+-]\d\d:?\d\d)"
    r" (?:\S+ (?P<unit>[\w@.-]+)(?:\[\d+\])?: )?(?P<text>.*)$"
)
_SYSLOG = re.compile(
    r"^(?P<date>[A-Z][a-z]{2} +\d+ [\d:]{8})(?:\.(?P<fraction>\d+))? \S+ (?P<unit>[\w@.-]+)(?:\[\d+\])?: (?P<text>.*)$"
)


def _unwrapped(line: str, near_wall_ns: int | None) -> _Stamped:
    if line.startswith("{"):
        return _from_json(line)
    if match := _KMSG.match(line):
        return _Stamped(match["text"], seq=int(match["seq"]), boot_us=int(match["us"]))
    if match := _DMESG.match(line):
        return _Stamped(match["text"], boot_us=int(match["s"]) * 1_000_000 + int(match["fraction"][:6].ljust(6, "0")))
    if match := _DMESG_T.match(line):
        moment = datetime.strptime(match["date"], "%b %d %H:%M:%S %Y")
        return _Stamped(match["text"], wall_ns=_ns(moment.astimezone()))
    if match := _ISO.match(line):
        zone = match["zone"].replace("Z", "+0000").replace(":", "")
        moment = datetime.strptime(match["date"] + zone, "%Y-%m-%dT%H:%M:%S%z")
        return _Stamped(_with_unit(match), wall_ns=_ns(moment, match["fraction"]))
    if match := _SYSLOG.match(line):
        wall_ns = None if near_wall_ns is None else _in_nearest_year(match["date"], match["fraction"], near_wall_ns)
        return _Stamped(_with_unit(match), wall_ns=wall_ns)
    return _Stamped(line)


def _with_unit(match: re.Match[str]) -> str:
    """Who wrote a line matters only where it was not the kernel; older journals repeat the kernel's stamp in the text."""
    if match["unit"] in (None, "kernel", "systemd"):
        return _INNER_STAMP.sub("", match["text"])
    return f"{match['unit']}: {match['text']}"


def _from_json(line: str) -> _Stamped:
    """`journalctl -o json`: a message with odd bytes is a list of numbers (systemd's JSON export format)."""
    try:
        entry = orjson.loads(line)
    except ValueError:
        return _Stamped(line)
    message = entry.get("MESSAGE")
    text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message)
    who = str(entry.get("SYSLOG_IDENTIFIER", "kernel"))
    boot_us = entry.get("_SOURCE_MONOTONIC_TIMESTAMP", entry.get("__MONOTONIC_TIMESTAMP"))
    wall_us = entry.get("__REALTIME_TIMESTAMP")
    return _Stamped(
        text if who in ("kernel", "systemd") else f"{who}: {text}",
        boot_us=None if boot_us is None else int(boot_us),
        wall_ns=None if wall_us is None else int(wall_us) * 1000,
    )


def _ns(moment: datetime, fraction: str | None = None) -> int:
    return int(moment.timestamp()) * 1_000_000_000 + int((fraction or "0")[:9].ljust(9, "0"))


def _in_nearest_year(date: str, fraction: str | None, near_wall_ns: int) -> int | None:
    middle = datetime.fromtimestamp(near_wall_ns / 1e9, UTC).year
    moments = []
    for year in (middle - 1, middle, middle + 1):
        try:
            moment = datetime.strptime(f"{year} {date}", "%Y %b %d %H:%M:%S")
        except ValueError:  # 29 February of another year
            continue
        moments.append(_ns(moment.astimezone(), fraction))
    return min(moments, key=lambda wall_ns: abs(wall_ns - near_wall_ns), default=None)


_INVOKED = re.compile(r"^(?P<comm>.+) invoked oom-killer: ")
_CONSTRAINT = re.compile(r"oom-kill:constraint=(?P<constraint>\w+),(?P<rest>.*)")
_VICTIM = re.compile(r"task_memcg=(?P<cgroup>[^,]+),task=(?P<comm>.+),pid=(?P<pid>\d+),uid=\d+")
_LIMIT = re.compile(r"oom_memcg=(?P<cgroup>[^,]+)")
_KILLED = re.compile(
    r"(?P<memcg>Memory cgroup o|O)ut of memory(?: \(oom_kill_allocating_task\))?: "
    r"Kill(?:ed)? process (?P<pid>\d+),? \((?P<comm>.*?)\)(?:.*?anon-rss:(?P<anon>\d+)kB)?"
)
_XID = re.compile(r"NVRM: Xid \([^)]*\): (?P<code>\d+)(?:, pid='?(?P<pid>\d+)'?(?:, name=(?P<comm>[^,]+))?)?")
_HUNG = re.compile(r"task (?P<comm>\S+):(?P<pid>\d+) blocked for more than \d+ seconds")
_EARLYOOM = re.compile(r'sending SIG(?:TERM|KILL) to process (?P<pid>\d+)(?: uid \d+)? "(?P<comm>[^"]*)"')
_OOMD = re.compile(r"(?:systemd-)?oomd.*: Killed (?P<cgroup>/\S+) due to|^Killed (?P<cgroup_alone>/\S+) due to (?:memory|swap)")
_UNIT = re.compile(
    r"(?P<cgroup>\S+\.(?:scope|service|slice)): (?:A process of this unit has been killed by|.*result 'oom-kill')"
)


def _event_of(text: str) -> KernelEvent | None:
    for pattern, made in _READERS:
        if match := pattern.search(text):
            return made(match, text)
    return None


def _invoked(match: re.Match[str], text: str) -> KernelEvent:
    return KernelEvent(event="oom_invoked", text=text, comm=match["comm"])


def _constraint(match: re.Match[str], text: str) -> KernelEvent:
    rest = match["rest"]
    victim = _VICTIM.search(rest)
    limit = _LIMIT.search(rest)
    return KernelEvent(
        event="oom_constraint",
        text=text,
        constraint=match["constraint"],
        cgroup=victim["cgroup"] if victim else None,
        limit_cgroup=limit["cgroup"] if limit else None,
        global_oom="global_oom" in rest.split(","),
        comm=victim["comm"] if victim else None,
        pid=int(victim["pid"]) if victim else None,
    )


def _killed(match: re.Match[str], text: str) -> KernelEvent:
    return KernelEvent(
        event="memcg_kill" if match["memcg"].startswith("M") else "oom_kill",
        text=text,
        pid=int(match["pid"]),
        comm=match["comm"],
        anon_rss_kb=int(match["anon"]) if match["anon"] else None,
    )


def _xid(match: re.Match[str], text: str) -> KernelEvent:
    pid = int(match["pid"]) if match["pid"] else None
    return KernelEvent(event="xid", text=text, code=int(match["code"]), pid=pid, comm=match["comm"])


def _no_memory(match: re.Match[str], text: str) -> KernelEvent:  # noqa: ARG001  -- one shape for all readers
    return KernelEvent(event="nv_err_no_memory", text=text)


def _hung(match: re.Match[str], text: str) -> KernelEvent:
    return KernelEvent(event="hung_task", text=text, comm=match["comm"], pid=int(match["pid"]))


def _earlyoom(match: re.Match[str], text: str) -> KernelEvent:
    return KernelEvent(event="userspace_kill", text=text, comm=match["comm"], pid=int(match["pid"]))


def _oomd(match: re.Match[str], text: str) -> KernelEvent:
    return KernelEvent(event="userspace_kill", text=text, cgroup=match["cgroup"] or match["cgroup_alone"])


def _unit(match: re.Match[str], text: str) -> KernelEvent:
    return KernelEvent(event="unit_oom", text=text, cgroup=match["cgroup"])


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], KernelEvent]], ...] = (
    (_CONSTRAINT, _constraint),
    (_KILLED, _killed),
    (_INVOKED, _invoked),
    (_XID, _xid),
    (re.compile(r"NV_ERR_NO_MEMORY"), _no_memory),
    (_HUNG, _hung),
    (_EARLYOOM, _earlyoom),
    (_OOMD, _oomd),
    (_UNIT, _unit),
)
