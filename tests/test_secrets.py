"""Masking of credentials, wherever they come from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadkit.secrets import MASK, is_secret, masked, masked_environment, masked_json, masked_text

VALUES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=12, max_size=30).map(lambda text: f"q7{text}")
SECRET_NAMES = st.sampled_from(
    [
        "api-key",
        "hf-token",
        "auth-secret",
        "db-password",
        "OPENAI_API_KEY",
        "X-Auth-Token",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASS",
        "ssl-keyfile-password",
    ]
)


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "--api-key",
        "HF_TOKEN",
        "LOADKIT_SIDECAR_TOKEN",
        "Authorization",
        "Cookie",
        "db.password",
        "KEY",
        "SECRET",
        "PGPASS",
    ],
)
def test_names_of_credentials_are_secret(name):
    """A name of a credential is recognised in each of the ways that people write it."""
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "--max-num-batched-tokens",
        "--tokenizer",
        "--token-times",
        "KEYBOARD",
        "TOKENIZERS_PARALLELISM",
        "max_tokens",
        "--kv-cache-dtype",
        "token_ids",
    ],
)
def test_names_that_only_sound_alike_are_kept(name):
    """The provenance of a run needs these values."""
    assert not is_secret(name)


@settings(deadline=None)
@given(name=SECRET_NAMES, value=VALUES)
def test_a_secret_value_never_survives_in_arguments(name, value):
    """Whether it follows its option, hangs on an equals sign, or stands in a header."""
    shown = masked(
        [
            f"--{name}",
            value,
            "--port",
            "8000",
            f"--{name}={value}",
            f"{name.replace('-', '_')}={value}",
            "-H",
            f"{name}: {value}",
        ]
    )
    assert not any(value in argument for argument in shown)
    assert shown[2:4] == ("--port", "8000")


@settings(deadline=None)
@given(name=SECRET_NAMES, value=VALUES)
def test_a_secret_value_never_survives_in_nested_json(name, value):
    """`docker inspect` holds an environment of NAME=value strings, commands and labels."""
    shown = masked_json(
        {"Config": {"Env": [f"{name.replace('-', '_')}={value}", "A=2"], "Cmd": ["serve", f"--{name}", value]}, name: value}
    )
    assert value not in repr(shown)
    assert "A=2" in shown["Config"]["Env"]


def test_credentials_in_urls_and_texts_are_masked():
    """User and password of a URL, bearer values and keys of known shapes."""
    assert masked_text("http://ada:pw@spark:8000/v1") == f"http://{MASK}@spark:8000/v1"
    assert "abcdefghij" not in masked_text("Authorization: Bearer abcdefghij")
    assert "sk-" not in masked_text("401 for key sk-abcdefgh12345678")


def test_an_environment_keeps_its_names_and_harmless_values():
    """Only values are masked, and an empty value says that it is empty."""
    assert masked_environment({"HF_TOKEN": "x", "EMPTY_KEY": "", "PATH": "/bin"}) == {
        "HF_TOKEN": MASK,
        "EMPTY_KEY": "",
        "PATH": "/bin",
    }
