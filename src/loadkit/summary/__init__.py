"""Records become distributions, windows, throughput and audits; merges are associative."""

from loadkit.summary.audit import TokenAudit, Violation
from loadkit.summary.client import ClientError
from loadkit.summary.doubts import Drift
from loadkit.summary.flow import Flow, Window
from loadkit.summary.group import Group, group_of
from loadkit.summary.host import Host
from loadkit.summary.host_events import HostEvent
from loadkit.summary.judged import Judged
from loadkit.summary.retrieval import Cell, EffectiveContext, Rung
from loadkit.summary.stage import Round, Spread, Stage
from loadkit.summary.summary import Summary, summarise, summary_of
from loadkit.summary.tally import Leaf, Part, Tally, merged_tallies, tally

__all__ = [
    "Cell",
    "ClientError",
    "Drift",
    "EffectiveContext",
    "Flow",
    "Group",
    "Host",
    "HostEvent",
    "Judged",
    "Leaf",
    "Part",
    "Round",
    "Rung",
    "Spread",
    "Stage",
    "Summary",
    "Tally",
    "TokenAudit",
    "Violation",
    "Window",
    "group_of",
    "merged_tallies",
    "summarise",
    "summary_of",
    "tally",
]
