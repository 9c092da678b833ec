"""What the sidecar costs on this machine: CPU of one core and memory, by what it watches.

    python benchmarks/sidecar_cost.py                               a server that serves a recorded /metrics of vLLM 0.32
    python benchmarks/sidecar_cost.py --server http://127.0.0.1:8000 --container qwen38-flash-vllm --seconds 60

Budget: 2 % of a core with everything on, 1 % without /metrics, 60 MB. Exit code 1 if a row is over it. CPU and memory are the
sidecar's own figures from its file (`recorder` samples: process_time and statm), taken after it has settled.
"""

from __future__ import annotations

import argparse
import http.server
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from loadkit.sidecar_client import command, ready

RECORDED = Path(__file__).parents[1] / "tests" / "fixtures" / "metrics" / "vllm-0.32.txt"
SETTLE_S = 5
BUDGET_MB = 60


class Recorded(http.server.BaseHTTPRequestHandler):
    """Serves the recorded scrape; it runs in this process, so its cost is not the sidecar's."""

    protocol_version = "HTTP/1.1"
    text = RECORDED.read_bytes()

    def do_GET(self) -> None:
        body = self.text if self.path == "/metrics" else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


def measured(seconds: float, **watching: str | None) -> tuple[float, float, float]:
    """CPU percent of one core, resident MB, worst lateness in ms of a sidecar that watches this."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "samples.jsonl"
        process = subprocess.Popen(
            command(out=out, **watching),  # type: ignore[arg-type]
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None
        ready(process.stdout.readline())
        time.sleep(SETTLE_S + seconds)
        process.terminate()
        process.wait()
        lines = [json.loads(raw) for raw in out.read_bytes().splitlines()]
    beats = [line for line in lines if line["source"] == "recorder" and "cpu_ns" in line["data"]]
    settled = [beat for beat in beats if beat["monotonic_ns"] >= beats[0]["monotonic_ns"] + SETTLE_S * 1_000_000_000]
    first, last = settled[0], settled[-1]
    cpu = 100 * (last["data"]["cpu_ns"] - first["data"]["cpu_ns"]) / (last["monotonic_ns"] - first["monotonic_ns"])
    late_ms = max(beat["data"]["late_ns"] for beat in settled) / 1e6
    return cpu, last["data"]["rss_bytes"] / 1e6, late_ms


def main() -> int:
    """Measure each row, print it, and say whether one is over its budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server")
    parser.add_argument("--container")
    parser.add_argument("--seconds", type=float, default=30)
    asked = parser.parse_args()
    server = asked.server
    if server is None:
        own = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorded)
        threading.Thread(target=own.serve_forever, daemon=True).start()
        server = f"http://127.0.0.1:{own.server_address[1]}"
    rows = [
        ("host, kernel log, GPU", 1.0, {}),
        ("+ container" if asked.container else "", 1.0, {"container": asked.container}),
        ("+ /metrics (everything)", 2.0, {"container": asked.container, "server": server}),
    ]
    over = False
    print(f"{'watching':28} {'CPU %':>7} {'budget':>7} {'MB':>6} {'late, worst ms':>15}")
    for name, budget, watching in rows:
        if not name:
            continue
        cpu, resident_mb, late_ms = measured(asked.seconds, **watching)
        over = over or cpu > budget or resident_mb > BUDGET_MB
        print(f"{name:28} {cpu:7.2f} {budget:7.1f} {resident_mb:6.1f} {late_ms:15.1f}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
