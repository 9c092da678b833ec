"""The bundled tokenizer stands in for a real one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadkit import cli
from loadkit.encoding import SPECIAL, bundled, ranks_of

ENGLISH = (
    "The committee met on Tuesday to discuss the plan for the following year. Several members said that the road should be "
    "repaired before winter, while others wanted to wait until the results of the first test were known."
)
CHINESE = "测试完成以后系统已经恢复，服务状态正常。本次实验没有验证长期运行的稳定性，需要在以后继续研究。"


@given(st.text())
def test_any_text_comes_back(text: str):
    """Decoding undoes encoding, for every text."""
    assert bundled().decode(bundled().encode_ordinary(text)) == text


@pytest.mark.parametrize(
    ("text", "least", "most"), [(ENGLISH, 3.6, 5.2), (Path(cli.__file__).read_text(), 2.8, 4.5), (CHINESE, 1.1, 1.9)],
    ids=["English", "code", "Chinese"],
)  # fmt: skip
def test_characters_per_token_are_near_a_real_tokenizer_s(text: str, least: float, most: float):
    """Qwen's tokenizer has about 4.5, 3.4 and 1.6 characters a token on such texts."""
    assert least < len(text) / len(bundled().encode(text)) < most


def test_control_tokens_are_one_token_each():
    """Where they are allowed they are themselves; in ordinary text they are text."""
    assert [len(bundled().encode(name, allowed_special="all")) for name in SPECIAL] == [1] * len(SPECIAL)
    assert len(bundled().encode_ordinary("<|im_end|>")) > 1


def test_ranks_are_read_from_tiktoken_s_format():
    """One token a line, base64 and rank."""
    assert ranks_of(b"YQ== 0\nYmM= 1\n") == {b"a": 0, b"bc": 1}
