"""Follows the kernel's log from now on: /dev/kmsg, else `journalctl -k -f`; keeps the lines that `kernel_log` knows."""

from __future__ import annotations

import errno
import os
import select
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loadkit.kernel_log import KernelEvent, parse
from loadkit.sidecar.samples import Missing

RECORD_BYTES = 8192  # the kernel hands out one record per read, at most this long (kernel/printk/printk.c)
Tell = Callable[[dict[str, Any]], None]


class Kmsg:
    """/dev/kmsg from its end; `follow` blocks at most `wait_ms` and tells what came.

    Raises:
        Missing: no such device (a container without `--device /dev/kmsg`) or no permission (needs CAP_SYSLOG).
    """

    how = "/dev/kmsg"

    def __init__(self, path: Path = Path("/dev/kmsg")):
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            remedy = "give it --device /dev/kmsg and --cap-add SYSLOG" if problem.errno in (errno.EPERM, errno.ENOENT) else ""
            raise Missing(f"{path}: {problem.strerror}" + (f"; {remedy}" if remedy else "")) from problem
        os.lseek(self._file, 0, os.SEEK_END)
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)

    def follow(self, tell: Tell, wait_ms: int = 1000) -> None:
        self._poll.poll(wait_ms)
        while True:
            try:
                raw = os.read(self._file, RECORD_BYTES)
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno != errno.EPIPE:
                    raise Missing(f"the kernel log can't be read any more: {problem.strerror}") from problem
                tell({"event": "overrun", "text": "the kernel log ran over: lines are lost"})  # the next read goes on
                continue
            if not raw:
                return
            _tell_event(raw.split(b"\n", 1)[0], tell)

    def close(self) -> None:
        os.close(self._file)


class Journal:
    """`journalctl -k -f` as a child: for hosts where /dev/kmsg is not to be had but the journal is.

    The user-space killers (earlyoom, systemd-oomd) and systemd's own remarks are asked for as well.

    Raises:
        Missing: there is no journalctl, or it ends at once.
    """

    how = "journal"
    COMMAND = ("journalctl", "--follow", "--lines=0", "--output=json", "--boot",
               "_TRANSPORT=kernel", "+", "SYSLOG_IDENTIFIER=systemd-oomd", "+", "SYSLOG_IDENTIFIER=earlyoom")  # fmt: skip

    def __init__(self, command: tuple[str, ...] = COMMAND):
        try:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError as problem:
            raise Missing(f"{command[0]}: {problem.strerror}") from problem
        assert self._child.stdout is not None
        self._out = self._child.stdout.fileno()
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN | select.POLLHUP)
        try:
            code = self._child.wait(0.5)
        except subprocess.TimeoutExpired:
            return
        raise Missing(f"{command[0]} ended with {code}: {self._complaint()}")

    def follow(self, tell: Tell, wait_ms: int = 1000) -> None:
        if not self._poll.poll(wait_ms):
            return
        raw = os.read(self._out, 65536)
        if not raw:
            raise Missing(f"journalctl ended: {self._complaint()}")
        *lines, self._rest = (self._rest + raw).split(b"\n")
        for line in lines:
            _tell_event(line, tell)

    def close(self) -> None:
        self._child.terminate()
        self._child.wait()

    def _complaint(self) -> str:
        assert self._child.stderr is not None
        return self._child.stderr.read(300).decode("utf-8", "replace").strip() or "no reason given"


def open_log(kmsg: Path = Path("/dev/kmsg")) -> Kmsg | Journal:
    """The kernel's log, by the first way that works.

    Raises:
        Missing: neither works; both reasons are said.
    """
    try:
        return Kmsg(kmsg)
    except Missing as first:
        try:
            return Journal()
        except Missing as second:
            raise Missing(f"{first}; {second}") from second


def data_of(event: KernelEvent) -> dict[str, Any]:
    """The event as a sample's data; what the line does not say is left out."""
    return {key: value for key, value in asdict(event).items() if value is not None and key != "wall_ns"}


def _tell_event(raw: bytes, tell: Tell) -> None:
    event = parse(raw.decode("utf-8", "replace"))
    if event is not None:
        tell(data_of(event))
