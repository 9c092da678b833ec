from dataclasses import replace

import pytest

from loadkit import preflight, scenario
from loadkit.errors import UsageError
from loadkit.request import Target
from odd_servers import Odd, serving

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
