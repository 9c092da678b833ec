"""The truth log: what the server says it did is what its clients see, on the same clock."""

import http.client
import json
import time
import urllib.parse
from pathlib import Path

from simulator_process import simulator

from .asking import HELLO, chat, post


def test_a_line_per_request_with_every_event(tmp_path: Path):
    """Stamps are in order, tokens add up to the usage, and the kinds are those of the deltas."""
    with simulator(preset="fast", truth=tmp_path / "truth.jsonl") as sim:
        before = time.monotonic_ns()
        answer = chat(sim, "What is 6 * 7? Answer with the number alone.", max_tokens=300)
        after = time.monotonic_ns()
        (truth,) = sim.truths()
    assert before < truth["received_ns"] < truth["headers_ns"] < truth["role_ns"] < truth["at_ns"][0]
    assert truth["at_ns"] == sorted(truth["at_ns"])
    assert truth["at_ns"][-1] <= truth["finish_ns"] < truth["done_ns"] < after
    assert len(truth["at_ns"]) == len(truth["due_ns"]) == len(truth["tokens"]) == len(truth["kinds"])
    assert sum(truth["tokens"]) == answer.usage["completion_tokens"] - 1  # the end of the sequence shows nothing
    assert truth["kinds"].rstrip("a").strip("r") == ""
    assert (truth["finish"], truth["status"], truth["fault"], truth["aborted"]) == ("stop", 200, None, False)


def test_nothing_is_written_before_it_is_due(tmp_path: Path):
    """A paced stream's events come at or after their due time, which are a step apart."""
    with simulator("--pace-ms", "10", preset="fast", truth=tmp_path / "truth.jsonl") as sim:
        chat(sim, max_tokens=30, ignore_eos=True)
        (truth,) = sim.truths()
    assert all(at >= due for at, due in zip(truth["at_ns"], truth["due_ns"], strict=True))
    gaps = {later - earlier for earlier, later in zip(truth["due_ns"][1:], truth["due_ns"][2:], strict=False)}
    assert min(gaps) == 10_000_000


def test_ids_join_with_the_client_s(tmp_path: Path):
    """The X-Request-Id that was sent and the id of the response are both there, also of whole answers and refusals."""
    with simulator(truth=tmp_path / "truth.jsonl") as sim:
        whole = post(sim, "/v1/chat/completions", {"messages": HELLO, "max_tokens": 2}, X_Request_Id="mine-1").json
        post(sim, "/v1/chat/completions", {"messages": HELLO, "max_tokens": 0}, X_Request_Id="mine-2")
        truths = sim.truths(2)
    assert [(truth["request_id"], truth["status"]) for truth in truths] == [("mine-1", 200), ("mine-2", 400)]
    assert truths[0]["id"] == whole["id"] == "chatcmpl-mine-1"
    assert truths[0]["usage"]["completion_tokens"] == 2


def test_a_client_that_goes_away_is_logged_as_aborted(tmp_path: Path):
    """What was written until then is in the log."""
    with simulator(preset="fast", truth=tmp_path / "truth.jsonl") as sim:
        parts = urllib.parse.urlsplit(sim.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        body = json.dumps({"messages": HELLO, "stream": True, "ignore_eos": True, "max_tokens": 5000})
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read(2000)
        response.close()
        connection.close()
        (truth,) = sim.truths()
    assert truth["aborted"]
    assert len(truth["at_ns"]) > 0
    assert truth["finish"] is None
