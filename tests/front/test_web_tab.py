"""The tab "LLM" in Locust's own web UI, in a real Chromium, on a run against the embedded simulator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONCURRENCY = ROOT / "locustfiles" / "concurrency.py"
STARTS_IN_S = 60
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class UI:
    """A Locust with its web UI, and a page in it."""

    url: str
    run_dir: Path
    page: Any
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def open(self, where: str = "") -> None:
        self.page.goto(f"{self.url}{where}")

    def start(self, **values: str) -> None:
        """Fill the form and press Start."""
        self.page.get_by_text("Custom parameters").first.click()
        for name, value in values.items():
            self.page.locator(f"input[name={name}]").fill(value)
        self.page.get_by_role("button", name="Start", exact=False).last.click()

    def tab(self) -> None:
        self.page.get_by_role("tab", name="LLM").click()
        self.page.wait_for_selector(".lk-live .verdict")

    def verdict(self, within_s: float = 90) -> str:
        """The headline, once there is one."""
        self.page.wait_for_function(
            "() => (document.querySelector('.lk-live .verdict')?.textContent || '').includes('→')",
            timeout=within_s * 1000,
        )
        return str(self.page.locator(".lk-live .verdict").inner_text())


def started(run_dir: Path, *flags: str, base: str = "") -> tuple[subprocess.Popen[bytes], str]:
    port = free_port()
    environment = {"LANG": "C", **os.environ}
    process = subprocess.Popen(
        [sys.executable, "-m", "locust", *([] if "-f" in flags else ["-f", str(CONCURRENCY)]), "--web-host", "127.0.0.1",
         "--web-port", str(port), "--run-dir", str(run_dir), *flags],
        stdout=(run_dir.parent / "locust.log").open("wb"), stderr=subprocess.STDOUT, env=environment, start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}{base}/"
    deadline = time.monotonic() + STARTS_IN_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):  # behind a login this is the login page
                return process, url
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                pytest.fail((run_dir.parent / "locust.log").read_text()[-3000:])
            time.sleep(0.2)


def ended(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(30)
    finally:
        if process.poll() is None:
            process.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield chromium
        chromium.close()


@pytest.fixture(autouse=True)
def english(monkeypatch):
    monkeypatch.setenv("LOADKIT_LANG", "en")


@pytest.fixture
def ui_of(browser, tmp_path) -> Iterator[Any]:
    """`ui_of(*flags, base="", **context)` starts Locust and opens its page."""
    running: list[tuple[subprocess.Popen[bytes], Any]] = []

    def make(*flags: str, base: str = "", **context: Any) -> UI:
        run_dir = tmp_path / "runs"
        run_dir.mkdir(exist_ok=True)
        process, url = started(run_dir, *flags, *(["--web-base-path", base] if base else []), base=base)
        inside = browser.new_context(**{"viewport": {"width": 1024, "height": 900}, **context})
        ui = UI(url=url, run_dir=run_dir, page=inside.new_page())
        ui.page.on("console", lambda m: ui.complaints.append(m.text) if m.type in ("error", "warning") else None)
        ui.page.on("pageerror", lambda error: ui.complaints.append(str(error)))
        ui.page.on("request", lambda request: ui.asked.append(request.url))
        running.append((process, inside))
        return ui

    yield make
    for process, inside in running:
        inside.close()
        ended(process)


def elsewhere(ui: UI) -> set[str]:
    """Addresses that the page asked for outside this server."""
    own = ui.url.split("/")[2]
    return {url for url in ui.asked if not url.startswith(("data:", "blob:")) and url.split("/")[2] != own}


def points(ui: UI) -> int:
    """How many points the first chart has."""
    return int(ui.page.evaluate("fetch('./loadkit/state').then((answer) => answer.json()).then((state) => state.times.length)"))


def test_form_run_charts_verdict_second_run_report(ui_of):
    """From the form through a run with moving charts to verdict and report, and a second run with other values."""
    ui = ui_of()
    ui.open()
    ui.start(rounds="2", ways="1,2", maxTokens="200", label="first")
    ui.tab()
    ui.page.wait_for_function("() => document.querySelectorAll('.lk-live .u-wrap canvas').length === 6")
    headline = ui.verdict()
    assert ui.asked.count(ui.url) == 1, "the page was loaded again under the reader's hands"
    assert headline.startswith("COMPLETED 6/6")
    assert points(ui) > 1
    rows = ui.page.locator(".lk-live table.rows tbody tr").all_inner_texts()
    assert [row.split("\t")[2] for row in rows] == ["2", "4"]
    with ui.page.context.expect_page() as opening:
        ui.page.get_by_role("link", name="HTML report").click()
    report = opening.value
    report.wait_for_selector("[data-lk-timeline] canvas")
    assert headline in report.locator(".verdict").inner_text()
    report.close()
    with ui.page.expect_download() as download:
        ui.page.get_by_role("link", name="Requests as CSV").click()
    assert len(download.value.path().read_text(encoding="utf-8-sig").splitlines()) == 1 + 2 + 6
    for address in ("stats/requests/csv", "stats/failures/csv", "exceptions/csv"):
        assert ui.page.request.get(ui.url + address).body().startswith(b"\xef\xbb\xbf"), address

    ui.page.get_by_role("button", name="New").click()
    ui.start(rounds="1", ways="3", maxTokens="50", label="second")
    ui.tab()
    ui.page.wait_for_function("() => document.querySelector('.lk-live .status').textContent.includes('second')")
    assert ui.verdict().startswith("COMPLETED 3/3")
    assert len(list(ui.run_dir.iterdir())) == 2
    assert ui.complaints == []
    assert elsewhere(ui) == set()


def test_a_wrong_value_is_refused_with_the_words_of_the_command_line(ui_of):
    """The run does not start, and the form says what the command line would have said."""
    ui = ui_of()
    ui.open()
    ui.start(rounds="0")
    ui.page.wait_for_selector("text=--rounds: '0' can't be used")
    said = subprocess.run(
        [sys.executable, "-m", "locust", "-f", str(CONCURRENCY), "--headless", "--rounds", "0",
         "--run-dir", str(ui.run_dir)], capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert said.returncode == 2
    assert ui.page.locator(".MuiAlert-message").first.inner_text() in said.stderr
    assert list(ui.run_dir.iterdir()) == []


def test_stop_and_reset_leave_a_page_that_works(ui_of):
    """Stop ends the run with a verdict that says interrupted; reset empties Locust's table and harms nothing of ours."""
    ui = ui_of()
    ui.open()
    ui.start(rounds="50", ways="1,2", maxTokens="400")
    ui.tab()
    ui.page.wait_for_selector(".lk-live table.rows")
    ui.page.get_by_role("button", name="Reset").click()
    ui.page.get_by_role("button", name="Stop").click()
    assert "INTERRUPTED" in ui.verdict()
    assert "(130)" in ui.verdict()
    assert ui.complaints == []


def test_the_tab_comes_and_goes_with_locusts_tabs(ui_of):
    """On another tab nothing of ours is seen; coming back shows it again, also after a reload."""
    ui = ui_of("--autostart", "--rounds", "1", "--ways", "1", "--max-tokens", "50")
    ui.open("?tab=loadkit")
    ui.verdict()
    ui.page.get_by_role("tab", name="Failures").click()
    ui.page.wait_for_function("() => !document.querySelector('.lk-live') || document.querySelector('.lk-live').hidden")
    ui.page.get_by_role("tab", name="LLM").click()
    ui.page.wait_for_selector(".lk-live .verdict", state="visible")
    ui.page.reload()
    assert "COMPLETED 1/1" in ui.verdict()


def test_base_path_workers_and_dark(ui_of):
    """Behind a base path, with two worker processes, on a dark screen: the master's state feeds the tab."""
    ui = ui_of("--processes", "2", "--autostart", "--rounds", "1", "--max-tokens", "100", base="/load", color_scheme="dark")
    ui.open("?tab=loadkit")
    assert ui.verdict().startswith("COMPLETED 7/7")
    assert ui.page.locator(".lk-live").get_attribute("data-theme") == "dark"
    assert all("/load/" in url for url in ui.asked if not url.startswith("data:"))
    assert ui.complaints == []


def test_the_page_speaks_the_reader_s_language(ui_of, monkeypatch):
    """A Chinese browser gets Chinese words in our tab; Locust's own stay English."""
    monkeypatch.delenv("LOADKIT_LANG", raising=False)
    ui = ui_of("--autostart", "--rounds", "1", "--ways", "1", "--max-tokens", "50", locale="zh-CN")
    ui.open("?tab=loadkit")
    ui.page.wait_for_function("() => (document.querySelector('.lk-live') || {}).textContent?.includes('输出 token/秒')")
    assert ui.verdict().startswith("完成 1/1")


def test_nothing_is_shown_without_login(ui_of):
    """With --web-login every route of ours asks for the login too."""
    ui = ui_of("-f", f"{CONCURRENCY},{Path(__file__).with_name('login_locustfile.py')}", "--web-login")
    for route in ("state", "words", "report.html", "assets/live.js"):
        assert ui.page.goto(f"{ui.url}loadkit/{route}").url.split("?")[0].endswith("/login")
