"""Stamps of workers on other hosts, put on the run's clock by the offset that was measured with round trips."""

from __future__ import annotations

from dataclasses import replace

from loadkit.record import Heartbeat, Record, Start
from loadkit.run_folder import Run


def on_run_clock(run: Run) -> Run:
    """The run with every record, start and heartbeat in the run's clock; the run itself where all share one host.

    Each worker's anchor says how far its clock is from the run's (`offset_ns`, ± `offset_error_ns`); of several the one with
    the smallest error counts. Durations within a request don't change, so only windows, host charges and rounds depend on it.
    """
    best = sorted(run.anchors, key=lambda anchor: anchor.offset_error_ns, reverse=True)
    offsets = {anchor.worker: anchor.offset_ns for anchor in best}
    if not any(offsets.values()):
        return run
    return replace(
        run,
        records=tuple(_record(record, offsets.get(record.slot.worker, 0)) for record in run.records),
        starts=tuple(_start(start, offsets.get(start.slot.worker, 0)) for start in run.starts),
        heartbeats=tuple(_heartbeat(beat, offsets.get(beat.worker, 0)) for beat in run.heartbeats),
    )


def _record(record: Record, offset_ns: int) -> Record:
    if not offset_ns:
        return record
    events = replace(
        record.events,
        at_ns=tuple(stamp + offset_ns for stamp in record.events.at_ns),
        coalesced=tuple((index, not_before + offset_ns) for index, not_before in record.events.coalesced),
    )
    return replace(
        record,
        due_ns=record.due_ns + offset_ns,
        sent_ns=_moved(record.sent_ns, offset_ns),
        connected_ns=_moved(record.connected_ns, offset_ns),
        written_ns=_moved(record.written_ns, offset_ns),
        headers_ns=_moved(record.headers_ns, offset_ns),
        end_ns=_moved(record.end_ns, offset_ns),
        closed_ns=_moved(record.closed_ns, offset_ns),
        events=events,
    )


def _start(start: Start, offset_ns: int) -> Start:
    return replace(start, due_ns=start.due_ns + offset_ns) if offset_ns else start


def _heartbeat(beat: Heartbeat, offset_ns: int) -> Heartbeat:
    return replace(beat, at_ns=beat.at_ns + offset_ns) if offset_ns else beat


def _moved(stamp: int | None, offset_ns: int) -> int | None:
    return None if stamp is None else stamp + offset_ns
