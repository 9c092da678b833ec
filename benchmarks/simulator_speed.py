"""How fast the simulator itself is: chunks per second of one core, schedule error, memory, start-up.

    python benchmarks/simulator_speed.py

Chunks per second are taken from the simulator's own CPU time, so that a busy machine does not count against it. The schedule
error (written − due) is the first cost to rise on a busy machine: read it together with the load average that is printed.
"""

import json
import os
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STREAM_OPTIONS = {"include_usage": True, "continuous_usage_stats": True}


def main() -> None:
    """All figures, one line each."""
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")
    start_up()
    unpaced(streams=64, tokens=1024)
    paced(streams=64, tokens=200)
    many(streams=1000, tokens=100)


def start_up() -> None:
    """Wall time from the command to the ready line, best and median of five."""
    times = []
    for _ in range(5):
        before = time.monotonic()
        process = start("instant")
        times.append(time.monotonic() - before)
        stop(process)
    times.sort()
    print(f"start-up: {times[0]:.2f} s best, {times[2]:.2f} s median")


def unpaced(*, streams: int, tokens: int) -> None:
    """As fast as it can."""
    process = start("instant")
    before = cpu_s(process.pid)
    elapsed = ask(process.url, streams, tokens)
    spent = cpu_s(process.pid) - before
    stop(process)
    chunks = streams * (tokens + 3)
    print(f"unpaced, {streams} streams: {chunks / spent:,.0f} chunks per CPU second ({chunks / elapsed:,.0f}/s by the clock)")


def paced(*, streams: int, tokens: int) -> None:
    """A step every 20 ms: how late are the writes?"""
    with tempfile.TemporaryDirectory() as folder:
        truth = Path(folder) / "truth.jsonl"
        process = start("fast", "--truth", str(truth), "--pace-ms", "20", "--spread", "--max-num-seqs", str(streams))
        before = cpu_s(process.pid)
        ask(process.url, streams, tokens)
        spent = cpu_s(process.pid) - before
        stop(process)
        errors = sorted(
            at - due
            for line in truth.read_text().splitlines()
            for at, due in zip(*[json.loads(line)[key][1:] for key in ("at_ns", "due_ns")], strict=True)
        )
    cuts = [errors[int(len(errors) * share)] / 1e6 for share in (0.5, 0.99, 0.999)]
    print(
        f"paced 20 ms, {streams} streams: schedule error p50 {cuts[0]:.3f} ms, p99 {cuts[1]:.3f} ms, p99.9 {cuts[2]:.3f} ms; "
        f"{spent / (streams * tokens) * 1e6:.1f} µs CPU a chunk"
    )


def many(*, streams: int, tokens: int) -> None:
    """Memory with many streams at a time."""
    process = start("fast", "--pace-ms", "100", "--max-num-seqs", str(streams))
    ask(process.url, streams, tokens)
    peak = Path(f"/proc/{process.pid}/status").read_text().split("VmHWM:")[1].split()[0]
    stop(process)
    print(f"{streams} streams: {int(peak) / 1024:.0f} MB at most")


def ask(url: str, streams: int, tokens: int) -> float:
    """Sends all requests at once and reads every answer to its end; seconds."""
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({
        "messages": [{"role": "user", "content": "Tell me about the sea."}],
        "stream": True, "stream_options": STREAM_OPTIONS, "max_tokens": tokens, "ignore_eos": True, "temperature": 0,
    }).encode()  # fmt: skip
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
    request += b"content-length: %d\r\n\r\n%b" % (len(body), body)
    before = time.monotonic()
    selector = selectors.DefaultSelector()
    for _ in range(streams):
        sock = socket.create_connection((host, int(port)))
        sock.sendall(request)
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ)
    left = streams
    while left:
        for key, _ in selector.select():
            if not key.fileobj.recv(1 << 18):  # type: ignore[union-attr]
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
                left -= 1
    return time.monotonic() - before


def start(preset: str, *options: str):  # type: ignore[no-untyped-def]
    """A simulator that is ready, with its `url`."""
    command = [sys.executable, "-m", "loadkit", "sim", "--port", "0", "--exit-with-stdin", "--preset", preset, *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.url = json.loads(process.stdout.readline())["url"]  # type: ignore[attr-defined]
    return process


def stop(process: subprocess.Popen) -> None:  # type: ignore[type-arg]
    """Ends it."""
    process.terminate()
    process.wait(20)
    process.stdin.close()  # type: ignore[union-attr]
    process.stdout.close()  # type: ignore[union-attr]


def cpu_s(pid: int) -> float:
    """CPU time of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    main()
