"""JUnit XML for CI: one test case for each request that counts, and one for each axis of the verdict."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from datetime import UTC, datetime

from loadkit.metrics import elapsed_ns
from loadkit.summary import Judged, Summary
from loadkit.verdict import PASS, Axis, Verdict

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BAD_STATES = ("incomplete", "nothing", "wrong", "unstable", "invalid", "missed", "truncated", "aborted")


def render(summary: Summary, verdict: Verdict) -> bytes:
    """The document as bytes. A failed request or axis is a failure; an axis without evidence is skipped, or an error if asked.

    The schema is the one that Jenkins, GitLab and GitHub's actions read (Ant's JUnit).
    """
    root = ET.Element("testsuites", name="loadkit")
    counting = [request for request in summary.requests if request.counts]
    for scenario in dict.fromkeys(request.record.case.scenario for request in counting):
        part = [request for request in counting if request.record.case.scenario == scenario]
        _suite(root, scenario, summary, [_request(request) for request in part])
    _suite(root, "verdict", summary, [*(_axis(axis) for axis in verdict.axes), _whole(verdict)])
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(root: ET.Element, name: str, summary: Summary, cases: Iterable[ET.Element]) -> None:
    suite = ET.SubElement(root, "testsuite", name=_text(f"{summary.manifest.get('label') or 'loadkit'}.{name}"))
    suite.extend(cases)
    suite.set("tests", str(len(suite)))
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(plural, str(len(suite.findall(f"testcase/{kind}"))))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in suite):.3f}")
    created = summary.manifest.get("created_wall_ns")
    if isinstance(created, int):
        suite.set("timestamp", datetime.fromtimestamp(created / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S"))


def _request(request: Judged) -> ET.Element:
    record = request.record
    seconds = (elapsed_ns(record) or 0) / 1e9
    case = ET.Element("testcase", classname=_text(record.case.scenario), name=_text(record.id), time=f"{seconds:.3f}")
    if not request.completed:
        failure = record.failure
        message = f"{record.outcome.value}: {failure.kind}: {failure.message}" if failure else record.outcome.value
        ET.SubElement(case, "error", type=record.outcome.value, message=_text(message))
    elif request.answer is not None and request.answer not in ("correct", "unverified"):
        found = ET.SubElement(case, "failure", type=request.answer.value, message=_text(request.detail or request.answer.value))
        found.text = _text((record.answer or "")[:4000])
    elif request.truncated is not None:
        ET.SubElement(case, "failure", type="truncated", message=f"the budget ran out while {_place(request)}")
    elif request.answer == "unverified":
        ET.SubElement(case, "skipped", message="the answer was not verified")
    return case


def _place(request: Judged) -> str:
    return "thinking" if request.truncated == "thinking" else "answering"


def _axis(axis: Axis) -> ET.Element:
    case = ET.Element("testcase", classname="verdict", name=axis.name, time="0")
    message = _text("; ".join(axis.reasons) or axis.state)
    failed = axis.state in _BAD_STATES and (axis.name != "stop" or axis.asked)
    if failed:
        ET.SubElement(case, "failure", type=axis.state, message=message)
    elif axis.state in ("unverified", "inconclusive", "suspect"):
        found = ET.SubElement(case, "error" if axis.asked else "skipped", message=message)
        if axis.asked:
            found.set("type", axis.state)
    return case


def _whole(verdict: Verdict) -> ET.Element:
    case = ET.Element("testcase", classname="verdict", name="exit code", time="0")
    if verdict.exit_code != PASS:
        ET.SubElement(case, "failure", type=f"exit {verdict.exit_code}", message=_text(verdict.headline))
    return case


def _text(text: str) -> str:
    """XML 1.0 can't hold control characters, whatever a server sent."""
    return _NOT_XML.sub("\ufffd", text)
