"""Options: one entry each, checked before anything is started."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit.errors import UsageError
from loadkit.front.options import ENTRIES, Options, as_text, read


def test_the_defaults_are_those_of_the_prior_work():
    """Ways 1, 2, 4; 512 and 2048 tokens; seed 42."""
    options = read({})
    assert (
        options.ways, options.max_tokens, options.long_max_tokens, options.sampling_seed, options.token_times,
    ) == ((1, 2, 4), 512, 2048, 42, True)  # fmt: skip


def test_every_option_has_help_a_flag_and_an_environment_variable():
    """What the reference page is made from."""
    for entry in ENTRIES:
        assert entry.help
        assert entry.env_var.startswith("LOADKIT_")
        assert entry.flag == f"--{entry.name.replace('_', '-')}"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("rounds", "0", "a whole number of at least 1"),
        ("rounds", "three", "a whole number of at least 1"),
        ("ways", "1,,4", "with commas between them"),
        ("ways", "2,2", "one stands twice"),
        ("sampling_seed", "x", "a whole number"),
        ("token_times", "maybe", "on or off"),
        ("slo", "fast", "no objective"),
        ("slo", "ttft_p95=soon", "no number with a unit"),
        ("rounds", "9" * 5000, "at most 1000000000"),
        ("sampling_seed", str(1 << 63), "fits into 64 bits"),
        ("rungs", "8,x", "with commas between them"),
        ("max_tokens", "-1", "at least 1"),
        ("label", "two\nlines", "one line"),
        ("guard", "maybe", "true or false"),
        ("sidecar", "spark:9101", "an address as in"),
        ("sidecar", "http://spark:port", "an address as in"),
        ("container", "a b", "name or id of a container"),
        ("scenarios", "/no/such/folder", "a folder that exists"),
        ("inputs", "/no/such/folder", "a folder that exists"),
        ("junit", "/no/such/folder/junit.xml", "can be written to"),
        ("junit", "/", "can be written to"),
    ],
)
def test_a_value_that_can_not_be_used_is_named_with_what_is_expected(name: str, value: str, expected: str):
    """Option, value, and what to write instead, in one line."""
    with pytest.raises(UsageError, match=expected) as mistake:
        read({name: value})
    assert f"--{name.replace('_', '-')}" in str(mistake.value)
    assert "\n" not in str(mistake.value)


@pytest.mark.parametrize("other", [{"guard": True}, {"sidecar": "http://spark:9101"}])
def test_options_that_contradict_each_other_are_refused(other: dict[str, object]):
    """Else one of them would be silently without effect."""
    with pytest.raises(UsageError, match="contradicts"):
        read({"no_sidecar": True, **other})


@given(st.lists(st.integers(1, 999), min_size=1, max_size=6, unique=True))
def test_ways_are_read_as_they_are_written(ways: list[int]):
    """In the order given."""
    assert tuple(ways) == read({"ways": ",".join(map(str, ways))}).ways


@given(st.dictionaries(st.sampled_from([entry.name for entry in ENTRIES]), st.text(max_size=12)))
def test_any_text_is_read_or_refused(given_text: dict[str, str]):
    """A form may send anything: never another exception than a UsageError."""
    try:
        assert isinstance(read(given_text), Options)
    except UsageError as mistake:
        assert mistake.where
        assert "\n" not in mistake.problem


@pytest.mark.parametrize("name", ["model", "scenario", "run_dir", "label"])
def test_bytes_that_are_no_text_are_refused(name: str):
    """A command line may hold any bytes; the manifest is JSON, whose text is UTF-8."""
    with pytest.raises(UsageError, match=r"'a.udcff' can't be used"):
        read({name: os.fsdecode(b"a\xff")})


def test_paths_are_plain_text_in_the_manifest():
    """So that another host can read it."""
    assert tuple(map(as_text(read({"run_dir": Path("runs/x"), "rungs": "8,32"})).get, ("run_dir", "rungs"))) == (
        "runs/x",
        [8, 32],
    )
