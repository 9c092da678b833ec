"""Workers on other hosts: their stamps are put on the run's clock."""

from dataclasses import replace

from loadkit.record import AnchorLine
from loadkit.summary import summarise
from recorded import S, record, run, way


def anchor(worker, offset_ns, error_ns=1000):
    clocks = {"monotonic_ns": 0, "wall_ns": 0, "error_ns": 1}
    return AnchorLine(worker=worker, pid=1, boot_id=worker, **clocks, offset_ns=offset_ns, offset_error_ns=error_ns)


def test_a_round_spans_workers_whose_clocks_differ():
    """Two requests at one moment on hosts whose clocks are an hour apart: together 40 tokens in a second, two in flight."""
    here = record("a", events=(1000,), tokens=(20,), slot=replace(way(0), worker="a"))
    there = record("b", sent=3_600_000, events=(3_601_000,), tokens=(20,), slot=replace(way(1), worker="b"))
    made = run([here, there], anchors=(anchor("a", 0), anchor("b", 999, error_ns=10**9), anchor("b", -3600 * S)))
    stage = summarise(made, selftest=None).stages[0]
    assert (stage.makespan_tok_s.median, stage.peak_in_flight) == (40, 2)


def test_durations_do_not_depend_on_the_offset():
    """An offset moves every stamp of a request alike."""
    one = record("a", slot=replace(way(0, ways=1), worker="a"))
    moved = summarise(run([one], anchors=(anchor("a", 77 * S),)), selftest=None)
    assert moved.violations == ()
    assert moved.whole.distribution("ttft").values == summarise(run([one]), selftest=None).whole.distribution("ttft").values
