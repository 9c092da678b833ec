"""How fast the client is, beside a floor in the same run: CPU per chunk, chunks per second, stamps, bursts, set-up, memory.

    python benchmarks/client_speed.py [--rounds 3] [--quick] [--realtime] [--shape content|usage|null-keys]

The floor is a bare asyncio.Protocol on uvloop that undoes the chunking and parses every event with orjson: what any Python
client pays at least. The server (paced_stream.c, built with `cc`) is pinned to the first CPU, clients to the last one. Floor
and client take turns, because a machine's mood changes from minute to minute: read the ratios, not the microseconds. On a busy
machine only `--realtime` (SCHED_FIFO, as root) shows more than how the CPU was shared out.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import uvloop

SHAPES = {"content": 0, "usage": 1, "null-keys": 2}
BODY = orjson.dumps({"model": "mock", "messages": [{"role": "user", "content": "hi"}], "stream": True})


@dataclass(frozen=True)
class Load:
    """`streams` at once, `requests` in all, each of `tokens` chunks, one every `interval_ms` (0: as fast as it goes)."""

    name: str
    streams: int
    requests: int
    tokens: int
    interval_ms: float


@dataclass(frozen=True)
class Bench:
    """What all loads share: the server's binary, the shape of its chunks, a folder for its truth, how it is scheduled."""

    server: Path
    shape: int
    folder: Path
    realtime: bool


LOADS = [
    Load("64 streams, 20 ms", 64, 320, 256, 20),
    Load("1000 streams, 20 ms", 1000, 2000, 100, 20),
    Load("64 streams, unpaced", 64, 4096, 256, 0),
]
QUICK = [
    Load("64 streams, 20 ms", 64, 64, 128, 20),
    Load("1000 streams, 20 ms", 1000, 1000, 50, 20),
    Load("64 streams, unpaced", 64, 512, 256, 0),
]


def main() -> None:
    """Compare all loads, or, as a child, run one client."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--rounds", type=int, default=3)
    ask.add_argument("--quick", action="store_true")
    ask.add_argument("--shape", choices=SHAPES, default="usage")
    ask.add_argument("--realtime", action="store_true", help="run server and clients with SCHED_FIFO (root)")
    ask.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    ask.add_argument("--port", type=int, help=argparse.SUPPRESS)
    ask.add_argument("--load", help=argparse.SUPPRESS)
    asked = ask.parse_args()
    if asked.client:
        run_client(asked.client, asked.port, Load(**json.loads(asked.load)))
        return
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs, chunks of the shape '{asked.shape}'")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(build(Path(folder)), SHAPES[asked.shape], Path(folder), asked.realtime)
        for load in QUICK if asked.quick else LOADS:
            compare(bench, load, asked.rounds)
    set_up_cost()


# --- one load, floor and client in turns


def compare(bench: Bench, load: Load, rounds: int) -> None:
    """Floor and clients in turns; medians of the rounds."""
    results: dict[str, list[dict]] = {name: [] for name in CLIENTS}
    for _ in range(rounds):
        for name in CLIENTS:
            results[name].append(measure(bench, name, load))
    floor = results["floor"]
    print(f"\n{load.name}")
    for name, measured in results.items():
        per_chunk = [one["cpu_s"] / one["chunks"] * 1e6 for one in measured]
        ratio = statistics.median(per_chunk) / statistics.median(one["cpu_s"] / one["chunks"] * 1e6 for one in floor)
        print(
            f"  {name:12} CPU {statistics.median(per_chunk):5.1f} µs a chunk ({min(per_chunk):.1f} best, {ratio:.2f} × floor)"
            f" · {max(one['chunks'] / one['wall_s'] for one in measured):9,.0f} chunks/s"
            f" · {max(one['rss_mb'] for one in measured)} MB"
        )
        for title, key in (
            ("first chunk's stamp late", "late_ms"),
            ("TTFT reported − true", "error_ms"),
            ("send to received", "send_ms"),
        ):
            p50, p99 = (statistics.median(one[key][index] for one in measured) for index in (0, 1))
            print(f"               {title:26} {p50:8.3f} / {p99:8.3f} ms p50/p99")
        print(
            f"               last of the burst received after {statistics.median(one['burst_ms'] for one in measured):.1f} ms"
        )


def measure(bench: Bench, name: str, load: Load) -> dict:
    """One run of one client in a process of its own, joined with what the server noted."""
    first_ms = 100 if load.interval_ms else 0
    truth_file = bench.folder / "truth.tsv"
    with serving(bench, load, first_ms, truth_file) as port:
        command = [sys.executable, __file__, "--client", name, "--port", str(port), "--load", json.dumps(asdict(load))]
        ended = subprocess.run(command, check=True, capture_output=True, preexec_fn=pinned(-1, realtime=bench.realtime))
    measured = orjson.loads(ended.stdout)
    truth = {row[0]: [int(cell) for cell in row[1:]] for row in map(str.split, truth_file.read_text().splitlines())}
    rows = [(sent, first, *truth[key]) for key, sent, first in measured.pop("rows")]
    released = measured.pop("released")
    measured["late_ms"] = percentiles([first - true_first for _, first, _, true_first, _ in rows])
    measured["error_ms"] = percentiles([(first - sent) - (true_first - read) for sent, first, read, true_first, _ in rows])
    measured["send_ms"] = percentiles([read - sent for sent, _, read, _, _ in rows])
    measured["burst_ms"] = (sorted(row[2] for row in rows)[load.streams - 1] - released) / 1e6
    return measured


def percentiles(values_ns: list[int]) -> tuple[float, float]:
    """p50 and p99, in milliseconds."""
    ranked = sorted(values_ns)
    return ranked[len(ranked) // 2] / 1e6, ranked[min(len(ranked) - 1, len(ranked) * 99 // 100)] / 1e6


# --- the server


def build(folder: Path) -> Path:
    """Compile the server."""
    binary = folder / "paced_stream"
    subprocess.run(["cc", "-O2", "-o", binary, Path(__file__).with_name("paced_stream.c")], check=True)
    return binary


@contextlib.contextmanager
def serving(bench: Bench, load: Load, first_ms: int, truth: Path) -> Iterator[int]:
    """The server's port while it runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    values = [port, first_ms, load.interval_ms, load.tokens, bench.shape, truth]
    process = subprocess.Popen(
        [bench.server, *map(str, values)], stdout=subprocess.PIPE, preexec_fn=pinned(0, realtime=bench.realtime)
    )
    try:
        process.stdout.readline()
        yield port
    finally:
        process.terminate()
        process.wait()


def pinned(index: int, *, realtime: bool) -> Callable[[], None]:
    """What a child does before it runs: keep to one CPU, and to itself where asked."""
    cpu = sorted(os.sched_getaffinity(0))[index]

    def prepare() -> None:
        os.sched_setaffinity(0, {cpu})
        if realtime:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

    return prepare


# --- the clients; each returns its rows, and the CPU seconds and the time at which all streams were released

Row = tuple[str, int, int]  # id, sent, stamp of the first chunk (ns)


async def floor(port: int, load: Load) -> tuple[list[Row], float, int]:
    """Bare protocols."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    left = iter(range(load.requests))
    rows: list[Row] = []
    cpu_s, begun = time.process_time(), time.monotonic_ns()
    for _ in range(load.streams):  # each begins as it is connected: sends at one moment would also arrive, and be read, as one
        await loop.create_connection(lambda: Floor(left, rows, load, over), "127.0.0.1", port)
    await over
    return rows, cpu_s, begun


class Floor(asyncio.Protocol):
    """Finds the HTTP chunks by their sizes, parses each event, notes the time of the first token."""

    def __init__(self, left: Iterator[int], rows: list[Row], load: Load, over: asyncio.Future):
        self.left, self.rows, self.load, self.over = left, rows, load, over

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.begin()

    def begin(self) -> None:
        number = next(self.left, None)
        if number is None:
            return
        self.key, self.first, self.rest, self.in_body = f"q-{number}", 0, b"", False
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-request-id: {self.key}\r\ncontent-length: {len(BODY)}\r\n\r\n"
        )
        self.sent = time.monotonic_ns()
        self.transport.write(head.encode() + BODY)

    def data_received(self, data: bytes) -> None:
        at = time.monotonic_ns()
        data = self.rest + data
        position = 0
        if not self.in_body:
            position = data.find(b"\r\n\r\n") + 4
            self.in_body = True
        while position < len(data):
            line = data.find(b"\r\n", position)
            if line < 0:
                break
            size = int(data[position:line], 16)
            if line + 4 + size > len(data):
                break
            if size == 0:
                self.end()
                return
            event = data[line + 8 : line + size]
            position = line + 4 + size
            if event != b"[DONE]":
                choices = orjson.loads(event)["choices"]
                if choices and not self.first:
                    delta = choices[0]["delta"]
                    if delta.get("content") or delta.get("reasoning"):
                        self.first = at
        self.rest = data[position:]

    def end(self) -> None:
        self.rows.append((self.key, self.sent, self.first))
        if len(self.rows) == self.load.requests:
            self.over.set_result(None)
        self.begin()


async def loadkit(port: int, load: Load, *, kernel_stamps: bool = True) -> tuple[list[Row], float, int]:
    """The client with kernel stamps, or with read times."""
    from loadkit.client import Client
    from loadkit.record import CaseFacts, Outcome, Slot
    from loadkit.request import Request, Target

    slot, case = Slot(), CaseFacts(scenario="s", case="c", workload="speed")
    requests = [Request(id=f"q-{number}", slot=slot, case=case, body=BODY) for number in range(load.requests)]
    left = iter(requests)
    rows: list[Row] = []
    async with Client(Target(base_url=f"http://127.0.0.1:{port}/v1", model="mock"), kernel_stamps=kernel_stamps) as client:
        release = asyncio.Event()

        async def user() -> None:
            await release.wait()
            for request in left:
                record = await client.send(request)
                if record.outcome is not Outcome.COMPLETED or len(record.events.kinds) != load.tokens:
                    raise SystemExit(f"{record.outcome}: {record.failure}")
                rows.append((record.id, record.sent_ns, record.events.at_ns[0]))

        users = [asyncio.ensure_future(user()) for _ in range(load.streams)]
        await asyncio.sleep(0.05)
        gc.collect()
        gc.freeze()
        gc.disable()  # as the engine does while measuring
        cpu_s, begun = time.process_time(), time.monotonic_ns()
        release.set()
        await asyncio.gather(*users)
    return rows, cpu_s, begun


async def loadkit_read(port: int, load: Load) -> tuple[list[Row], float, int]:
    """The client with read times."""
    return await loadkit(port, load, kernel_stamps=False)


CLIENTS = {"floor": floor, "loadkit": loadkit, "loadkit-read": loadkit_read}


def run_client(name: str, port: int, load: Load) -> None:
    """What a child prints."""

    async def run() -> dict:
        rows, cpu_s, released = await CLIENTS[name](port, load)
        return {
            "wall_s": (time.monotonic_ns() - released) / 1e9,
            "cpu_s": time.process_time() - cpu_s,
            "chunks": load.requests * load.tokens,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "released": released,
            "rows": rows,
        }

    sys.stdout.buffer.write(orjson.dumps(uvloop.run(run())))


# --- what a request costs before its first byte


def set_up_cost(count: int = 400) -> None:
    """CPU from the call to the first byte, by the three ways that `loadkit.client` chose from; no server is needed."""
    import httpx2
    from openai import AsyncOpenAI

    class Nowhere(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:  # noqa: ARG002
            return httpx2.Response(200, headers=[(b"content-type", b"text/event-stream")], stream=httpx2.ByteStream(b""))

    async def run() -> dict[str, float]:
        http = httpx2.AsyncClient(transport=Nowhere(), trust_env=False)
        sdk = AsyncOpenAI(base_url="http://x/v1", api_key="x", max_retries=0, http_client=http)
        url, headers = httpx2.URL("http://x/v1/chat/completions"), [(b"content-type", b"application/json")]

        async def typed() -> None:
            await sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)

        async def post() -> None:
            await sdk.post("/chat/completions", content=BODY, cast_to=httpx2.Response)

        async def inner() -> None:
            await http.send(httpx2.Request("POST", url, stream=httpx2.ByteStream(BODY), headers=headers), stream=True)

        costs = {}
        for name, way in (("create(), typed", typed), ("post(content=…)", post), ("inner HTTP client", inner)):
            await way()
            begun = time.process_time()
            for _ in range(count):
                await way()
            costs[name] = (time.process_time() - begun) / count * 1e6
        return costs

    print("\nCPU of a request before its first byte, transport excluded")
    for name, cost_us in asyncio.run(run()).items():
        print(f"  {name:20} {cost_us:6.0f} µs")


if __name__ == "__main__":
    main()
