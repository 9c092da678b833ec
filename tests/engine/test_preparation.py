"""What is checked before a plan is made: the server's address and what is sent with each request."""

import pytest

from loadkit.engine.preparation import HEADER_VARIABLES, base_url, look
from loadkit.errors import UsageError


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("spark:8000", "http://spark:8000/v1"),
        ("http://spark:8000/", "http://spark:8000/v1"),
        ("http://spark:8000//?x=1", "http://spark:8000/v1"),
        ("http://spark:8000/v1/", "http://spark:8000/v1"),
        ("https://spark/prefix/v2", "https://spark/prefix/v2"),
        (" http://[::1]:8000 ", "http://[::1]:8000/v1"),
    ],
)
def test_an_address_is_read_as_people_write_it(written: str, meant: str):
    """With or without scheme, version, path prefix and slashes."""
    assert meant == base_url(written)


@pytest.mark.parametrize("written", ["ftp://x", "http://", "http://[::1", "http://x:port", "http://x:99999"])
def test_no_address_is_a_mistake_with_a_remedy(written: str):
    """One line, whatever is wrong with it."""
    with pytest.raises(UsageError, match="is no address of a server; write http://host:8000"):
        base_url(written)


def test_a_password_in_a_wrong_address_is_not_shown():
    """The line ends in the logs of a CI."""
    with pytest.raises(UsageError) as mistake:
        base_url("ftp://me:hunter2@x")
    assert "hunter2" not in str(mistake.value)


@pytest.mark.parametrize("variable", HEADER_VARIABLES)
@pytest.mark.parametrize("value", ["two\nlines", "windows\r", "schl\u00fcssel"])
async def test_a_key_that_no_header_can_carry_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
):
    """Before anything is sent, and without showing it."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=f"{variable}: holds what no header can carry") as mistake:
        await look("http://127.0.0.1:1", "")
    assert value not in str(mistake.value)
