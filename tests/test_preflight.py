import json
from dataclasses import replace

import httpx2
import pytest

from loadkit import preflight, scenario
from loadkit.errors import UsageError
from loadkit.request import Target
from loadkit.server import Server
from odd_servers import Odd, serving
from wire_servers import Pause, playing, whole

METRICS = """vllm:cache_config_info{block_size="1600",enable_prefix_caching="%s",engine="0"} 1.0
vllm:spec_decode_num_drafts_total{engine="0"} 0.0
process_start_time_seconds 1.7e9
"""


async def looked(odd: Odd, *, model: str = "", key: str | None = None) -> preflight.Findings:
    with serving(odd) as url:
        return await preflight.look(Target(base_url=url, model=model, api_key=key))


async def test_a_server_that_has_everything_is_found_so():
    """Model, limit and dialect are filled in, nothing is remarked, and the key is not in what is found."""
    found = await looked(Odd(key="sk-1", metrics=METRICS % "True"), key="sk-1")
    assert (found.target.model, found.target.max_model_len, found.target.dialect) == ("m", 4096, "vllm")
    assert (found.counts_agree, found.block_size, found.remarks, found.lacks) == (True, 1600, (), ())
    assert "sk-1" not in str(found)


@pytest.mark.parametrize(
    ("odd", "flag"),
    [
        (Odd(details=False, metrics=METRICS % "True"), "--enable-prompt-tokens-details"),
        (Odd(metrics=METRICS % "False"), "--enable-prefix-caching"),
        (Odd(running=False), "--token-times off"),
        (Odd(tools=False), "--enable-auto-tool-choice"),
        (Odd(details=False), "--reasoning-parser"),
        (Odd(counted=32), "chat_template_kwargs"),
        (Odd(owned_by="sglang", details=False), "--enable-cache-report"),
        (Odd(owned_by="llamacpp"), "--metrics"),
    ],
)
async def test_what_is_missing_is_named_with_the_flag_that_brings_it(odd, flag):
    """A user can act on each remark."""
    found = await looked(odd)
    assert flag in " ".join(remark.remedy for remark in found.remarks)
    assert flag in preflight.said(found)


async def test_the_template_trap_is_found():
    """A count that differs by 12 tokens is a finding, not a shrug."""
    found = await looked(Odd(counted=32))
    assert found.counts_agree is False
    assert "32 tokens where usage says 20" in preflight.said(found)


async def test_both_calls_carry_the_same_template_arguments():
    """/tokenize ignores a top-level effort in silence, so it goes inside the arguments, in both."""
    odd = Odd()
    await looked(odd)
    sent = {path: body for path, body in odd.seen if "tools" not in body}
    assert sent["/tokenize"]["chat_template_kwargs"] == sent["/v1/chat/completions"]["chat_template_kwargs"]
    assert sent["/tokenize"]["messages"] == sent["/v1/chat/completions"]["messages"]
    assert all("reasoning_effort" not in body for _, body in odd.seen)


async def test_preflight_warms_nothing():
    """Every request it sends has a salt that no other has."""
    odd = Odd()
    await looked(odd)
    await looked(odd)
    salts = [body["cache_salt"] for path, body in odd.seen if path == "/v1/chat/completions"]
    assert len(salts) == len(set(salts)) == 4


async def test_a_plain_server_is_asked_plainly():
    """No extension is sent to a server that says nothing about itself, and what it lacks is said."""
    odd = Odd(owned_by="me", tokenize=False, max_model_len=None)
    found = await looked(odd)
    assert found.target.dialect == "plain"
    assert len(found.lacks) == 5
    assert not {"cache_salt", "chat_template_kwargs"} & {key for _, body in odd.seen for key in body}


@pytest.mark.parametrize(("method", "drops"), [("mtp", True), ("eagle3", True), ("ngram", False)])
async def test_a_draft_model_that_costs_a_block_is_known_from_server_info(method, drops):
    """Where the server tells its configuration; otherwise it is unknown, not guessed."""
    info = {"vllm_config": {"speculative_config": {"method": method}}}
    assert (await looked(Odd(metrics=METRICS % "True", info=info))).drops_last_block is drops
    assert (await looked(Odd(metrics=METRICS % "True"))).drops_last_block is None


@pytest.mark.parametrize(
    ("odd", "model", "says"),
    [
        (Odd(models=("qwen-tiny",)), "qwen-tini", "did you mean 'qwen-tiny'?"),
        (Odd(key="sk-1"), "", "OPENAI_API_KEY"),
        (Odd(models=()), "", "lists no models"),
        (Odd(status=503), "", "answers 503"),
        (Odd(status=404), "", "up to /v1"),
    ],
)
async def test_a_server_that_can_not_be_used_is_one_sentence(odd, model, says):
    """Before the run, with what to do."""
    with pytest.raises(UsageError, match=says.replace("?", r"\?")):
        await looked(odd, model=model)


async def test_nobody_there_is_one_sentence():
    """A port that nothing listens on."""
    with serving(Odd()) as url:
        pass
    with pytest.raises(UsageError, match="start the server"):
        await preflight.look(Target(base_url=url, model=""))


async def test_a_prompt_that_would_be_clamped_is_refused_ahead():
    """prompt + budget ≤ max_model_len; short prompts are known to fit without being counted."""
    cases = scenario.cases(scenario.find("short"))
    odd = Odd(counted=3700)
    with serving(odd) as url:
        target = Target(base_url=url, model="m", max_model_len=4096)
        await preflight.check_limits(cases, target)
        assert odd.seen == []
        with pytest.raises(UsageError, match="prompt of 3700 tokens"):
            await preflight.check_limits(cases, replace(target, max_model_len=700))


@pytest.mark.vllm
@pytest.mark.timeout(800)
async def test_a_real_vllm_has_everything(vllm_server):
    """One-token usage equals /tokenize, cache details and running usage are there, the block size is read."""
    found = await preflight.look(Target(base_url=f"{vllm_server()}/v1", model=""))
    assert (found.counts_agree, found.running_usage, found.cached_tokens_reported) == (True, True, True)
    assert found.block_size
    assert found.remarks == ()


USAGE = {"prompt_tokens": 5, "completion_tokens": 1}


@pytest.mark.parametrize(
    "models",
    [
        ["a"],
        [{"id": None}],
        {"a": 1},
        "m",
        [{"id": "m", "max_model_len": "4096"}],
        [{"id": "m", "meta": [1], "max_model_len": -1}],
    ],
)
async def test_a_list_of_models_of_any_shape_is_read_or_refused(models):
    """What stands in the place of a model, a limit or its facts is not taken for one, and is no fault of ours."""
    with serving(Odd(answers={"/v1/models": {"data": models}})) as url:
        try:
            found = await preflight.look(Target(base_url=url, model=""))
        except UsageError as refused:
            assert "lists no models; check that --host" in str(refused)
        else:
            assert (found.target.model, found.target.max_model_len) == ("m", None)


@pytest.mark.parametrize(
    "usage",
    [[1], "x", {"prompt_tokens": "5"}, {"prompt_tokens": -5}, {**USAGE, "prompt_tokens_details": [3]}, {"prompt_tokens": True}],
)
async def test_usage_of_any_shape_is_read_or_left_out(usage):
    """A server that counts oddly can still be measured; its counts are then unknown."""
    chunks = f'data: {{"choices": []}}\n\ndata: {json.dumps({"choices": [], "usage": usage})}\n\ndata: [DONE]\n\n'
    with serving(Odd(answers={"/v1/chat/completions": chunks})) as url:
        found = await preflight.look(Target(base_url=url, model=""))
    assert (found.counts_agree, found.cached_tokens_reported) in ((None, False), (False, False))


async def test_side_routes_of_any_shape_are_read_or_left_out():
    """Garbage in /metrics, /version, /server_info and /tokenize is as if they were not there."""
    odd = Odd(
        metrics="process_start_time_seconds abc\nvllm:cache_config_info{x",
        info={"vllm_config": [1]},
        answers={"/version": {"version": [1]}, "/tokenize": {"tokens": [1, 2], "count": "x"}},
    )
    found = await looked(odd)
    assert "process_start_time_s" not in found.server
    assert found.counts_agree is False


@pytest.mark.parametrize("page", ["<html>Welcome</html>", "", {"hello": 1}])
async def test_an_answer_that_is_no_stream_is_refused_before_the_run(page):
    """A page of something else at the same address would fail each request; one line says so instead."""
    with serving(Odd(answers={"/v1/chat/completions": page})) as url, pytest.raises(UsageError, match="with no stream"):
        await preflight.look(Target(base_url=url, model=""))


async def test_a_redirection_is_named_with_where_it_points_to():
    """Requests are never redirected, as that would be in their times."""
    play = [whole("301 Moved Permanently", b"", more="location: https://spark/v1/models\r\n")]
    async with playing(play) as wire:
        with pytest.raises(UsageError, match=r"points to https://spark/v1/models \(301\); give the address"):
            await preflight.look(wire.target)


async def test_a_body_that_is_not_encoded_as_it_says_is_one_line():
    """As a broken proxy sends it."""
    async with playing([whole("200 OK", b"no gzip", more="content-encoding: gzip\r\n")]) as wire:
        with pytest.raises(UsageError, match="can't be reached: the body is not encoded as its headers say"):
            await preflight.look(wire.target)


async def test_a_server_that_drips_is_given_up():
    """The limit is for the whole answer: a byte now and then does not begin it anew."""
    drips = [b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", *([b"x", Pause(0.02)] * 200)]
    async with playing(drips) as wire, Server(wire.target, timeout_s=0.2) as server:
        with pytest.raises(httpx2.ReadTimeout, match=r"no whole answer within 0\.2 s"):
            await server.get(f"{wire.base_url}/models")


async def test_what_a_server_says_stays_one_line():
    """Messages of servers have lines of their own, and end with full stops."""
    body = b'{"error": {"message": "Too much.\\nCome later."}}'
    async with playing([whole("429 Too Many Requests", body)]) as wire:
        with pytest.raises(UsageError) as refused:
            await preflight.look(wire.target)
    assert str(refused.value).endswith("answers 429: Too much. Come later; wait until the server is healthy")


async def test_https_to_a_server_without_tls_is_said_so():
    """The library's words alone (wrong version number) lead nowhere."""
    with serving(Odd()) as url, pytest.raises(UsageError, match="write http:// if the server speaks no TLS"):
        await preflight.look(Target(base_url=url.replace("http:", "https:"), model=""))


async def test_side_routes_are_reached_as_requests_are(monkeypatch):
    """A proxy variable for the world outside does not stand between here and a server on this host."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert (await looked(Odd())).target.model == "m"
