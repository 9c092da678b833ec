"""Is the client good enough to be believed? Its measured error beside the figures that it could reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadkit.record import Heartbeat
from loadkit.statistics import Distribution, Histogram
from loadkit.summary.group import Group

FLOOR_NS = 1_000_000
TTFT_SHARE = 0.02
COALESCED_SHARE = 0.01
_JUDGED_SHARES = (0.99, 0.95, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientError:
    """What the client added or lost.

    Attributes:
        stamp_error: read time − kernel stamp, ns; empty where stamps are read times (then the error is not measured).
        send_lag: sent − due, ns.
        coalesced_share: chunks whose stamp is a later one's / gaps between chunks.
        loop_late: worst of the 50 ms probes of each heartbeat, ns.
        cpu_share: busiest engine's CPU time / wall time between its first and last heartbeat (1.0 = one core).
        rss_max_bytes: largest engine.
        limit_ns: max(1 ms, 2 % of the TTFT median): an error above it reaches a figure.
        stamp_sources, transports: how many requests came by each.
        bottleneck, degraded: why the measurement is invalid; empty if it is not.
    """

    stamp_error: Histogram
    send_lag: Distribution
    coalesced_share: float | None
    loop_late: Distribution
    cpu_share: float | None
    rss_max_bytes: int | None
    limit_ns: float
    stamp_sources: dict[str, int]
    transports: dict[str, int]
    bottleneck: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()


def client_error(
    group: Group,
    heartbeats: Sequence[Heartbeat],
    *,
    stamp_sources: dict[str, int],
    transports: dict[str, int],
) -> ClientError:
    """The client's error over all measured requests, judged where it reaches a figure.

    The method judges the p99. Where there are too few values for a p99 the highest percentile that the count allows is
    judged, down to the median: a single late request among twenty is printed, not judged.
    """
    ttft = group.distribution("ttft").median
    limit = max(FLOOR_NS, TTFT_SHARE * ttft) if ttft is not None else float(FLOOR_NS)
    gaps = group.gaps.count
    coalesced = group.coalesced / gaps if gaps else None
    bottleneck = []
    if coalesced is not None and coalesced > COALESCED_SHARE:
        bottleneck.append(f"{100 * coalesced:.1f} % of the gaps are coalesced")
    if (late := _tail(group.stamp_error)) is not None and late[1] > limit:
        bottleneck.append(f"stamps are late by {late[1] / 1e6:.1f} ms ({late[0]}), more than {limit / 1e6:.1f} ms")
    degraded = []
    send_lag = group.distribution("send_lag")
    if (lag := _tail(send_lag)) is not None and lag[1] > limit:
        degraded.append(f"requests were sent {lag[1] / 1e6:.1f} ms late ({lag[0]}), more than {limit / 1e6:.1f} ms")
    if unsent := group.outcomes.get("not_sent", 0):
        degraded.append(f"{unsent} arrivals found no free slot and were not sent")
    return ClientError(
        stamp_error=group.stamp_error,
        send_lag=send_lag,
        coalesced_share=coalesced,
        loop_late=Distribution.of(beat.loop_late_max_ns for beat in heartbeats),
        cpu_share=_cpu_share(heartbeats),
        rss_max_bytes=max((beat.rss_bytes for beat in heartbeats), default=None),
        limit_ns=limit,
        stamp_sources=stamp_sources,
        transports=transports,
        bottleneck=tuple(bottleneck),
        degraded=tuple(degraded),
    )


def _tail(values: Distribution | Histogram) -> tuple[str, float] | None:
    """The highest percentile that the number of values allows, with its name; the median where none of them is allowed."""
    for p in _JUDGED_SHARES:
        if (found := values.percentile(p)) is not None:
            return f"p{100 * p:.0f}", found
    middle = values.median
    return None if middle is None else ("median", middle)


def _cpu_share(heartbeats: Sequence[Heartbeat]) -> float | None:
    shares = []
    for worker in {beat.worker for beat in heartbeats}:
        beats = sorted((beat for beat in heartbeats if beat.worker == worker), key=lambda beat: beat.at_ns)
        # An engine that was started again counts its CPU from 0: only rises are summed.
        cpu = sum(max(after.cpu_ns - before.cpu_ns, 0) for before, after in pairwise(beats))
        wall = beats[-1].at_ns - beats[0].at_ns
        if wall > 0:
            shares.append(cpu / wall)
    return max(shares, default=None)
