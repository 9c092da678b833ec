"""The report as people read it: terminal, Markdown, JUnit."""

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from made_run import Shape, make
from rich.console import Console

from loadkit import verdict
from loadkit.record import Answer, Failure, Outcome, Usage
from loadkit.report import document, junit, markdown, streams, terminal
from loadkit.report.content import Table
from loadkit.run_folder import read_run
from loadkit.summary import summarise
from recorded import case, record, run, verdict_on, watched, way

HOSTILE = "[red]x[/red] | `a` <b>&\u0007\r\n\u2028# head"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "made"
    make(folder, Shape())
    return summarise(read_run(folder), selftest=None)


def printed(summary, language="en"):
    out = io.StringIO()
    terminal.show(summary, verdict.judge(summary), Console(file=out, width=200), language=language)
    return out.getvalue()


def test_a_chinese_report_has_no_english_heads(made):
    """Sections, titles and column heads, but for the names of figures."""
    names = {"TTFT", "TPOT", "e2e", "TTFAT", "ITL", "n", "p90", "p95", "p99", "slo"}
    told = document.document(made, verdict.judge(made), "zh")
    tables = [part for section in told.sections for part in section.parts if isinstance(part, Table)]
    heads = [section.title for section in told.sections] + [table.title for table in tables if table.title]
    heads += [head for table in tables for head in table.head]
    english = {head for head in heads if not re.search(r"[\u4e00-\u9fff]|^\d+ %$", head)}
    assert sorted(english - names) == []


def test_tables_in_a_file_have_no_spaces_at_the_ends_of_lines(made):
    """Rows are padded on a terminal alone."""
    out = io.StringIO()
    terminal.show(made, verdict.judge(made), terminal.console_for(out))
    assert "TTFT median" in out.getvalue()
    assert [line for line in out.getvalue().splitlines() if line != line.rstrip()] == []


def test_the_headline_stands_first_and_last(made):
    """First for a file, last for a terminal."""
    lines = printed(made).splitlines()
    headline = verdict.judge(made).headline
    assert headline.startswith(lines[0].strip()[:150])
    assert headline.startswith(lines[-1].strip()[:150]) or lines[-1].strip() in headline


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_report_ends_with_what_was_not_verified(made, language):
    """In either language, and never empty."""
    last = document.document(made, verdict.judge(made), language).sections[-1]
    assert len(last.parts) == len(made.not_verified) > 0


def test_the_comparison_table_has_the_figures_of_the_job(made):
    """Ways, makespan with minimum and maximum, per user, scaling, TTFT, TPOT, achieved concurrency, failed."""
    stages = next(part for section in document.document(made, verdict.judge(made), "en").sections for part in section.parts)
    assert {"ways", "tokens/s (makespan)", "per user", "scaling", "TTFT median", "TTFT maximum", "TPOT median"} <= set(
        stages.head
    )
    assert {"achieved concurrency", "failed"} <= set(stages.head)


def hostile():
    bad = record(HOSTILE, outcome=Outcome.HTTP_ERROR, events=(), failure=Failure(kind="500", message=HOSTILE))
    wrong = record("w", facts=case(scenario="q|x", workload="quality"), answer=HOSTILE)
    checks = [verdict_on("w", Answer.WRONG, detail=HOSTILE)]
    return summarise(run([bad, wrong], checks=checks, manifest={"label": HOSTILE}), selftest=None)


def test_text_from_a_server_is_shown_as_it_is_on_a_terminal():
    """No markup of rich is taken from it."""
    assert "[red]x[/red]" in printed(hostile())


def test_text_from_a_server_cannot_break_a_markdown_table():
    """Each row of a table has as many cells as its head, and no line becomes a heading."""
    text = markdown.render(hostile(), verdict.judge(hostile()), language="en")
    width = 0
    for line in text.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line))
        width = cells if line.startswith("|") and not width else width if line.startswith("|") else 0
        assert not line.startswith("|") or cells == width
        assert not line.startswith("# head")


def test_the_markdown_report_holds_headline_and_doubts(made):
    """For pasting into an issue."""
    text = markdown.render(made, verdict.judge(made), language="en")
    assert "→ FAIL (4)" in text
    assert "## What was not verified" in text


def test_junit_is_well_formed_and_counts_its_own_cases():
    """Control characters can't stand in XML, and every count is that of the elements."""
    root = ET.fromstring(junit.render(hostile(), verdict.judge(hostile())))
    for suite in root:
        for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.get(plural)) == len(suite.findall(f"testcase/{kind}"))
        assert int(suite.get("tests")) == len(suite.findall("testcase"))


def test_junit_tells_requests_apart():
    """One that did not complete is an error, a wrong answer a failure, an axis without evidence skipped."""
    root = ET.fromstring(junit.render(hostile(), verdict.judge(hostile())))
    assert root.find(".//testcase[@name='w']/failure").get("type") == "wrong"
    assert len(root.findall(".//testcase/error[@type='http_error']")) == 1
    assert root.find(".//testcase[@name='host']/skipped") is not None
    assert root.find(".//testcase[@name='exit code']/failure").get("type") == "exit 3"


def test_retries_are_listed_apart():
    """And stand in no figure."""
    again = summarise(run([record("a"), record("b", slot=way(0, attempt=2))]), selftest=None)
    assert "Retries, listed apart and in no figure: 1 attempts" in printed(again)


def test_the_words_of_the_self_test():
    """Cited where there is one, named where there is none."""
    passed = replace(summarise(run([record()]), selftest=None), selftest={"passed": True, "at": "2026-12-01"})
    assert document.self_test_words(passed, "en") == "met (2026-12-01)"
    rated = replace(passed, selftest={"passed": False, "at": "2026-12-01", "trusted_events_per_s": 12800.0})
    assert document.self_test_words(rated, "en") == "not met (2026-12-01, up to 12,800 chunks/s)"
    assert "none on this machine" in printed(summarise(run([record()]), selftest=None))


RETEST = {"manifest": {"label": "eager", "plan": {"name": "retest"}}}


def retest_run():
    """One round in small: 3 short answers, 2 and 4 ways, 8K first and repeated."""
    alone = way(0, ways=1, stage="short")
    short = [record(f"s{t}", sent=t, events=(t + 278, t + 1278), tokens=(1, 30), slot=alone) for t in (0, 9000, 18000)]
    places = [(ways, number) for ways in (2, 4) for number in range(ways)]
    ways = [record(f"{w}-{k}", sent=50000, events=(51000,), tokens=(20 + w,), slot=way(k, ways=w)) for w, k in places]
    reading = case(scenario="retest-long", workload="quality", tier="8K")
    long = [
        record(
            f"l{n}",
            sent=60000 + n * 1000,
            events=(60100 + n * 1000, 60500 + n * 1000),
            kinds="ra",
            tokens=(1, 1),
            facts=replace(reading, cache=("cold", "warm")[n], tags={"repeat": bool(n)}),
            slot=way(0, ways=1, stage="8K"),
            usage=Usage(prompt_tokens=8000, completion_tokens=400 + n, reasoning_tokens=300, cached_tokens=n * 6000),
            finish_reason="stop" if n else "length",
        )
        for n in range(2)
    ]
    reuse = record(
        "p",
        sent=70000,
        events=(70100, 70500),
        facts=case(scenario="prefix", workload="quality", tier="8K", cache="warm"),
        slot=way(0, ways=1, stage="prefix"),
        usage=Usage(prompt_tokens=25000, completion_tokens=2, reasoning_tokens=0, cached_tokens=24000),
        tokens=(1, 1),
        finish_reason="stop",
    )
    checks = [verdict_on("l0", Answer.WRONG), verdict_on("l1"), verdict_on("p")]
    return summarise(run([*short, *ways, *long, reuse], checks=checks, **RETEST), selftest=None)


def rows_of(summary, place=0):
    section = document.document(summary, verdict.judge(summary), "en").sections[0]
    return {row[0]: row[1:] for row in section.parts[place].rows}


def test_the_retest_table_has_the_rows_of_the_earlier_experiment():
    """Medians over the short answers, throughput by ways, long retrieval with its budget, prefix reuse."""
    assert rows_of(retest_run()) == {
        "short answer, decode rate (tokens/s)": ("30.000",),
        "short answer, first token (s, thinking included)": ("0.2780",),
        "2 ways, total throughput (tokens/s)": ("44.000",),
        "4 ways, total throughput (tokens/s)": ("96.000",),
        "long retrieval, correct": ("1/2",),
        "long retrieval, cut off by the budget": ("1/2",),
        "long retrieval, most output tokens": ("401",),
        "long retrieval, most thinking tokens": ("300",),
        "prefix reuse, correct": ("1/1",),
        "prefix reuse, cached tokens": ("24000",),
        "prefix reuse, same answers cold and warm": ("–",),
        "smoke (arithmetic, Chinese, tool call), correct": ("–",),
        "code, correct": ("–",),
    }


def test_the_context_tables_tell_first_readings_and_reuse_apart():
    """Answers by length with stability, and latency by length; an unstable host does not hold, whatever the answers."""
    moments = [(tier, begin + 1000 * n, n) for tier, begin in (("64K", 0), ("128K", 100_000)) for n in range(4)]
    records = [
        record(
            f"{tier}-{n}",
            sent=moment,
            events=(moment + (500 if n == 0 else 20), moment + 600),
            tokens=(1, 1),
            facts=case(scenario="context", workload="quality", tier=tier, cache="warm" if n else "cold"),
            slot=way(0, ways=1, stage=tier),
            finish_reason="stop",
        )
        for tier, moment, n in moments
    ]
    samples = [*watched(-1000, 101000), *watched(102000, 106000, oom_kill=7)]
    summary = summarise(
        run(records, checks=[verdict_on(r.id) for r in records], samples=samples, manifest={"plan": {"name": "context"}}),
        selftest=None,
    )
    assert rows_of(summary)["64K"] == ("10", "4/4", "4/4", "held")
    assert rows_of(summary)["128K"] == ("10", "4/4", "4/4", "host unstable")
    assert rows_of(summary, 1)["64K"] == ("0.50", "0.02", "0.60", "3")


def test_goodput_says_that_answers_were_not_checked():
    """Where no check is declared, the name says so."""
    made = summarise(run([record(f"r{n}") for n in range(3)], manifest={"slo": ["ttft_max=1s"]}), selftest=None)
    assert "goodput (answers not checked)" in printed(made)


def test_an_open_loop_is_read_from_the_planned_start():
    """A request sent 400 ms late has a TTFT of 500 ms from due, and arrivals that were not sent are counted."""
    late = record("a", sent=400, due=0, events=(500, 600), tokens=(1, 1), slot=way(0, stage="open", load="open"))
    gone = record(
        "b", outcome=Outcome.NOT_SENT, events=(), slot=way(1, stage="open", load="open"), sent_ns=None, closed_ns=None
    )
    table = document.document(*judged(run([late, gone])), "en").sections[0].parts
    rows = next(part for part in table if getattr(part, "title", "").startswith("Open loop")).rows
    assert rows == (("open", "500 ms", "–", "500 ms", "600 ms", "–", "600 ms", "1"),)


def judged(made):
    found = summarise(made, selftest=None)
    return found, verdict.judge(found)


def test_gaps_stalls_and_itl_are_shown_and_agree_with_the_exact_ones():
    """A stall of 1.5 s among gaps of 10 ms; two tokens a chunk halve the ITL. The histogram is within a thousandth."""
    times = [100 + 10 * n for n in range(400)] + [5590]
    made = summarise(run([record(events=times, tokens=[2] * 401, end=5590, slot=way(0, ways=1))]), selftest=None)
    gaps, exact = streams.gaps(made, "en"), streams.exact_gaps(made, "en")
    assert gaps.rows == (("1 ways", "400", "10.0 ms", "10.0 ms", "10.0 ms", "1.50 s", "1", "5.00 ms", "5.00 ms"),)
    assert exact.rows[0] == gaps.rows[0][:7]


def test_rates_of_single_requests_stand_in_a_table_of_their_own():
    """A decode rate is never called a throughput."""
    made = summarise(run([record(usage=Usage(prompt_tokens=100, completion_tokens=3, cached_tokens=0))]), selftest=None)
    table = streams.rates(made, "en")
    assert table.rows == (("short", "100", "3", "1.00", "10.0", "1,000", "3"),)
