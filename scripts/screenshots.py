"""Makes the pictures of the documentation: a run in Locust's web UI on the embedded simulator, its report, both themes.

    python scripts/screenshots.py [RUN …]       RUN: folders of runs whose reports are photographed too, named by their label

Needs Debian's chromium, and fonts-noto-cjk for the Chinese ones.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "images"
WIDTH = 1180
STATUS = "() => document.querySelector('.lk-live .status')?.textContent || ''"


def main(runs: list[Path]) -> None:
    """Everything, one after the other."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        of_a_live_run(chromium, Path(folder))
        for run in [*Path(folder).iterdir(), *runs]:
            of_a_report(chromium, run)
        chromium.close()


def of_a_live_run(chromium: Any, folder: Path) -> None:
    """The form, the tab while the run goes on (light), and when it has ended (dark, Chinese)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "locust", "-f", "locustfiles/concurrency.py", "--web-host", "127.0.0.1",
               "--web-port", str(port),
               "--run-dir", str(folder)]  # fmt: skip
    process = subprocess.Popen(command, cwd=ROOT, env={name: os.environ[name] for name in os.environ if name != "LOADKIT_LANG"})
    try:
        _wait_for(f"http://127.0.0.1:{port}/")
        page = _page(chromium)
        page.goto(f"http://127.0.0.1:{port}/")
        page.get_by_text("Custom parameters").click()
        page.wait_for_timeout(500)
        for name, value in (("label", "demo"), ("requestsPerUser", "4"), ("maxTokens", "300")):
            page.locator(f"input[name={name}]").fill(value)
        _shoot(page, "form")
        page.get_by_role("button", name="Start").last.click()
        page.get_by_role("tab", name="LLM").click()
        page.wait_for_function(f"({STATUS})().includes('round 2')", timeout=120_000)
        _shoot(page, "tab-light")
        page.wait_for_function(
            "(document.querySelector('.lk-live .verdict')?.textContent || '').includes('→')", timeout=180_000
        )
        chinese = _page(chromium, color_scheme="dark", locale="zh-CN")
        chinese.goto(f"http://127.0.0.1:{port}/?tab=loadkit")
        chinese.wait_for_selector(".lk-live .links a")
        chinese.wait_for_timeout(1500)
        _shoot(chinese, "tab-dark-zh")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def of_a_report(chromium: Any, run: Path) -> None:
    """Top, timeline, single request and retrieval of a report, as far as it has them."""
    name = run.name.partition("Z-")[2] or run.name
    for theme in ("light", "dark"):
        page = _page(chromium, color_scheme=theme)
        page.goto((run / "report.html").resolve().as_uri())
        page.wait_for_timeout(500)
        for section in ("figures", "latency", "timeline", "requests", "retrieval", "length"):
            place = page.locator(f"#lk-{section}")
            if place.count() and (theme == "light" or section == "timeline"):
                place.screenshot(path=PICTURES / f"report-{name}-{section}-{theme}.png")
        if theme == "light":
            page.locator("header").screenshot(path=PICTURES / f"report-{name}-verdict-{theme}.png")
        page.close()


def _page(chromium: Any, **context: Any) -> Any:
    return chromium.new_context(viewport={"width": WIDTH, "height": 900}, **context).new_page()


def _shoot(page: Any, name: str) -> None:
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def _wait_for(url: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"nothing answers at {url}")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
