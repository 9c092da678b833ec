"""Parts of the HTML report that are pure functions: scales, lanes, gaps, what is chosen and cut."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.record import CaseFacts, Events, Outcome, Record, Slot
from loadkit.report import figures
from loadkit.report.html import charts, detail, timeline
from loadkit.report.html.scale import Scale, around
from loadkit.run_folder import Run
from loadkit.summary import Judged
from loadkit.summary.stage import Spread

MS = 1_000_000


@settings(deadline=None)
@given(st.lists(st.integers(min_value=0, max_value=3600 * 1000 * MS), max_size=200))
def test_gaps_survive_packing(gaps):
    """Every gap comes back to within the unit of 10 µs, whatever its length."""
    at = [0]
    for gap in gaps:
        at.append(at[-1] + gap)
    back = detail.unpack(detail.pack(at))
    assert len(back) == len(gaps)
    assert all(abs(found - gap) <= detail.GAP_UNIT_NS / 2 for found, gap in zip(back, gaps, strict=True))


@settings(deadline=None)
@given(st.floats(0.001, 1e12), st.floats(1.0001, 1e6), st.booleans())
def test_ticks_stand_inside_their_scale(low, factor, log):
    """Ticks are inside, in order, at least two and never a crowd."""
    scale = Scale(low, low * factor, 0, 100, log=log)
    ticks = scale.ticks(5)
    assert 1 <= len(ticks) <= 12
    assert all(low * 0.999999 <= tick <= low * factor * 1.000001 for tick in ticks)
    assert all(before < after for before, after in pairwise(ticks))


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 1e9), min_size=1, max_size=50), st.booleans())
def test_a_scale_holds_all_its_values(values, log):
    """Each value lies on the page, and larger ones do not lie to the left of smaller ones."""
    scale = around(values, 10, 500, log=log)
    places = [scale(value) for value in sorted(values)]
    assert all(10 <= place <= 500 for place in places)
    assert all(before <= after for before, after in pairwise(places))


def record(number: int, sent: int, took: int, **more: object) -> Record:
    return Record(
        id=str(number), slot=Slot(), case=CaseFacts(scenario="s", case="c", workload="speed"), outcome=Outcome.COMPLETED,
        due_ns=sent, sent_ns=sent, end_ns=sent + took, closed_ns=sent + took, **more,
    )  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 3_000)), min_size=1, max_size=60))
def test_bars_in_one_lane_never_overlap(spans):
    """Two requests that were in flight together are in different lanes, and no lane is used without need."""
    run = Run(folder=None, records=tuple(record(i, sent * MS, took * MS) for i, (sent, took) in enumerate(spans)))
    drawn = timeline.columns(run)
    by_lane: dict[int, list[tuple[int, int]]] = {}
    for begin, length, lane in zip(drawn["start"], drawn["length"], drawn["lane"], strict=True):
        by_lane.setdefault(lane, []).append((begin, begin + length))
    assert all(end <= begin for bars in by_lane.values() for (_, end), (begin, _) in pairwise(sorted(bars)))
    moments = sorted(step for sent, took in spans for step in ((sent, 1), (sent + took, -1)))
    now = peak = 0
    for _, step in moments:
        now += step
        peak = max(peak, now)
    assert len(by_lane) == peak


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=400), st.integers(4, 50))
def test_a_thinned_curve_keeps_its_dips(values, most):
    """However few points are drawn, the lowest and the highest value are among them."""
    points = list(enumerate(values))
    kept = timeline._extremes(points, most)
    assert len(kept) <= most
    assert {min(values), max(values)} <= {value for _, value in kept}
    assert [at for at, _ in kept] == sorted(at for at, _ in kept)


def test_failed_requests_are_chosen_before_slow_ones():
    """With more requests than places, a failed one is never left out for a slow one."""
    slow = [Judged(record=record(i, i * MS, 10_000 * MS)) for i in range(500)]
    bad = Judged(record=Record(**{**_fields(record(999, 0, 1)), "outcome": Outcome.TIMEOUT}))
    chosen = detail.choose([*slow, bad])
    assert len(chosen) == detail.MOST
    assert [one.why for one in chosen if one.request is bad] == ["failed"]


def test_every_request_of_a_small_run_is_chosen():
    """Nothing is left out while there are places."""
    requests = [Judged(record=record(i, i * MS, MS)) for i in range(53)]
    assert len(detail.choose(requests)) == 53


@settings(deadline=None)
@given(st.text(max_size=300), st.integers(0, 200))
def test_a_cut_text_says_how_much_is_missing(text, most):
    """Kept and missing characters add up, and no character is cut in two."""
    kept, missing = detail.cut(text, most)
    assert len(kept.encode("utf-8", "replace")) <= max(most, 0)
    assert text.startswith(kept)
    assert len(kept) + missing == len(text)


def test_a_lost_request_is_drawn_to_the_last_sign_of_life():
    """A start without a record is a bar of its own kind."""
    from loadkit.record import Heartbeat, Start

    facts = CaseFacts(scenario="s", case="c", workload="speed")
    beat = Heartbeat(at_ns=9_000 * MS, in_flight=1, cpu_ns=0, loop_late_max_ns=0, rss_bytes=0)
    run = Run(folder=None, starts=(Start(id="x", due_ns=1_000 * MS, slot=Slot(), case=facts),), heartbeats=(beat,))
    drawn = timeline.columns(run)
    assert (drawn["length"], [timeline.KINDS[kind] for kind in drawn["kind"]]) == ([8_000], ["lost"])


def test_a_curve_with_failures_ends_below_one():
    """Failed requests never got there: with 1 of 4 failed the staircase ends at 75 %."""
    from loadkit.statistics import Distribution

    chart = str(charts.ecdf({"a": Distribution.of([1e9, 2e9, 3e9], failed=1)}, "TTFT", "en"))
    top, bottom = 14.0, 300 - 44.0
    heights = [float(pair.split()[1]) for pair in chart.split('d="M')[-1].split('"')[0].split("L")[1:]]
    assert min(heights) == pytest.approx(bottom + 0.75 * (top - bottom), abs=0.1)


def test_prompts_of_one_size_have_one_median():
    """Lengths that differ by a few tokens do not make the line jump."""
    points = [(96.0, 1.0), (97.0, 9.0), (99.0, 2.0), (4000.0, 5.0), (4010.0, 7.0)]
    assert charts._medians(points) == [(97.0, 2.0), (4005.0, 6.0)]


def test_first_tokens_of_all_kinds_are_drawn():
    """The prefill part of a bar ends at the first event."""
    run = Run(folder=None, records=(record(1, 1000 * MS, 500 * MS, events=Events(at_ns=(1200 * MS, 1500 * MS), kinds="ra")),))
    assert timeline.columns(run)["first"] == [200]


@pytest.mark.parametrize(
    ("value_ns", "words"),
    [(None, "–"), (0, "0 ms"), (850_000, "850 µs"), (23_140_000, "23.1 ms"), (1_424_000_000, "1.42 s"),
     (999_600_000, "1.00 s"), (200 * 10**9, "3 min 20 s"), (7_300 * 10**9, "2 h 01 min")],
)  # fmt: skip
def test_durations_read_as_people_write_them(value_ns, words):
    """Three digits, a unit, and a dash for what is not known."""
    assert figures.duration(value_ns) == words


@pytest.mark.parametrize(("value", "words"), [(0, "0 %"), (1, "100 %"), (0.9999, "99.9 %"), (0.00001, "0.1 %"), (None, "–")])
def test_a_share_is_exact_at_its_ends(value, words):
    """99.99 % never reads as 100 %, nor 0.001 % as none."""
    assert figures.share(value) == words


def test_a_spread_of_one_round_is_one_figure():
    """Minimum and maximum are only given where rounds differ."""
    from loadkit.report.content import spread

    assert (spread(Spread(median=48.9, minimum=48.9, maximum=48.9)), spread(None)) == ("48.9", "–")


def _fields(one: Record) -> dict[str, object]:
    return {name: getattr(one, name) for name in Record.__dataclass_fields__}
