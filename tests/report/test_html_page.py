"""The HTML report as a whole: safe, offline, small enough, there for any run folder, readable by keyboard and in Chinese."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_run import HOSTILE, Shape, make

from loadkit import verdict
from loadkit.report import html
from loadkit.run_folder import Run, read_run
from loadkit.summary import summarise

CJK = re.compile(r"[\u4e00-\u9fff]")


class Page(HTMLParser):
    """What a browser would find in the page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.heads: list[str] = []
        self._head = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._head = tag in ("h2", "caption", "th") and dict(attrs).get("scope") != "row"

    def handle_data(self, data: str) -> None:
        if self._head and data.strip():
            self.heads.append(data.strip())
        self._head = False


def page_of(run: Run, language: str = "en") -> str:
    summary = summarise(run, selftest=None)
    return html.render(run, summary, verdict.judge(summary), language=language)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(make(tmp_path_factory.mktemp("made") / "run", Shape(per_user=4)))


@pytest.fixture(scope="module")
def page_file(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_of(run))
    return path


def test_untrusted_text_never_becomes_markup(run):
    """Answers, error messages and kernel lines with tags in them add no element, no handler and no script."""
    assert any(record.answer == HOSTILE for record in run.records)
    found = Page(page_of(run))
    scripts = [attrs for tag, attrs in found.tags if tag == "script"]
    assert len(scripts) == 5  # three blocks of data, the chart library, the report's own
    assert not [tag for tag, _ in found.tags if tag in ("img", "b1", "iframe", "object")]
    assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on")]


def test_nothing_is_loaded_from_elsewhere(run):
    """No element names an address, and the page's policy allows none."""
    found = Page(page_of(run))
    addresses = [attrs.get(name) for tag, attrs in found.tags for name in ("src", "href") if attrs.get(name)]
    assert [address for address in addresses if not address.startswith(("#", "data:"))] == []
    assert "default-src 'none'" in page_of(run)


def test_every_section_ends_with_what_was_not_verified(run):
    """The last section says what the run does not show."""
    text = page_of(run)
    assert text.rindex('<section id="lk-unverified"') > text.rindex('<section id="lk-provenance"')
    assert "Self-test: none on this machine" in text


def test_a_killed_run_has_a_report(tmp_path):
    """What kill -9 left behind, a cut line included, becomes a page that says so."""
    run = read_run(make(tmp_path / "killed", Shape(killed=True)))
    text = page_of(run)
    assert run.broken_lines == 1
    assert "the run was killed" in text
    assert "records_incomplete" in text


def test_an_empty_run_has_a_report(tmp_path):
    """A run that ended before its first request is a page too, not a traceback."""
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"state": "aborted", "ended_reason": "worker_lost", "label": "none"}')
    assert "no request was measured" in page_of(read_run(folder))


def test_a_chinese_page_has_no_english_heads(run):
    """Headings, captions and column heads are Chinese, but for the names of figures."""
    names = {"TTFT", "TPOT", "e2e", "TTFAT", "n", "N", "p90", "p95", "p99"}
    english = [head for head in Page(page_of(run, "zh")).heads if not CJK.search(head) and head not in names]
    assert english == []


def test_a_section_for_another_page_follows_its_theme(run):
    """Inside Locust's report there is no second html element, and the theme is taken from around."""
    summary = summarise(run, selftest=None)
    text = html.section(run, summary, verdict.judge(summary))
    assert "<html" not in text
    assert 'data-theme="inherit"' in text


@pytest.mark.slow
def test_ten_thousand_requests_take_three_megabytes(tmp_path):
    """With long Chinese answers and every gap of the 200 requests that are shown one by one."""
    shape = Shape(rounds=10, per_user=143, tokens=512, host=True, answer_characters=6000)
    run = read_run(make(tmp_path / "big", shape))
    assert len(run.records) > 10_000
    text = page_of(run)
    assert len(text.encode()) < 3_000_000


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def opened(browser, page_file) -> Iterator[object]:
    """The page in Chromium, with what it complained about and asked for."""
    page = browser.new_page()
    page.complaints, page.asked = [], []
    page.on("console", lambda message: page.complaints.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(page_file.as_uri())
    yield page
    page.close()


@pytest.mark.browser
def test_the_page_draws_itself_offline(opened, page_file):
    """Timeline and gaps are drawn, nothing is asked for but the file, the console is silent, no hostile script ran."""
    opened.wait_for_selector("[data-lk-timeline] canvas")
    assert opened.locator("[data-lk-timeline] canvas").count() == 3
    assert opened.locator("[data-lk-gaps] canvas").count() == 1
    assert opened.evaluate("window.hacked") is None
    assert {url for url in opened.asked if not url.startswith("data:")} == {page_file.as_uri()}
    assert opened.complaints == []


@pytest.mark.browser
def test_requests_are_chosen_by_keyboard(opened):
    """Arrow keys move through the list, and the facts follow."""
    opened.locator("[data-lk-list] button").first.focus()
    before = opened.locator("[data-lk-request] dd").first.inner_text()
    opened.keyboard.press("ArrowDown")
    assert opened.locator("[data-lk-request] dd").first.inner_text() != before
    assert opened.locator("[data-lk-list] button[aria-selected=true]").count() == 1


@pytest.mark.browser
def test_only_failed_requests_can_be_shown(opened):
    """The filter leaves those of one kind, and shows the first of them."""
    opened.select_option("[data-lk-filter]", "failed")
    shown = opened.locator("[data-lk-list] button:visible .tag").all_inner_texts()
    assert set(shown) == {"failed"}


@pytest.mark.browser
def test_a_hostile_answer_is_shown_as_text(opened):
    """The answer's tags stand there as characters."""
    opened.evaluate(
        """() => { for (const b of document.querySelectorAll('[data-lk-list] button')) {
             b.click(); if (document.querySelector('[data-lk-request]').textContent.includes('onerror')) return; } }"""
    )
    assert "<img src=x onerror=" in opened.locator("[data-lk-request] pre").first.inner_text()
    assert opened.evaluate("window.hacked") is None


@pytest.mark.browser
def test_zoom_by_button_and_key(opened):
    """The timeline is zoomed without a mouse's wheel or drag."""
    line = opened.locator("[data-lk-timeline]")
    labels = "[...document.querySelectorAll('[data-lk-timeline] .uplot')].length"
    assert opened.evaluate(labels) == 3
    before = opened.locator("[data-lk-timeline] canvas").first.screenshot()
    line.focus()
    opened.keyboard.press("+")
    opened.wait_for_timeout(100)
    assert opened.locator("[data-lk-timeline] canvas").first.screenshot() != before


@pytest.mark.browser
def test_paper_is_light_and_unfolded(opened):
    """Printing from a dark screen gives a light page with everything on it."""
    opened.emulate_media(color_scheme="dark")
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.evaluate("document.querySelector('.lk').dataset.theme") == "light"
    assert opened.evaluate("[...document.querySelectorAll('details')].every((node) => node.open)")


def test_no_id_stands_twice(run):
    """Links inside the page lead to one place."""
    ids = [attrs["id"] for _, attrs in Page(page_of(run)).tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
