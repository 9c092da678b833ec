"""A server's log with a limit."""

from loadkit.experiment.server_log import ServerLog


def test_head_and_end_are_kept_while_the_server_goes_on_writing(tmp_path):
    """What is cut is the middle, it is said, and the writer's next line lands at the end."""
    log = ServerLog(tmp_path / "server.log", limit_bytes=4000)
    with log.path.open("ab", buffering=0) as server:
        for number in range(2000):
            server.write(b"line %05d\n" % number)
            if number % 100 == 0:
                log.bound()
        log.bound()
        server.write(b"the end\n")
    text = log.text()
    assert log.path.stat().st_size <= 4000 + 200
    assert text.startswith("line 00000\n")
    assert text.endswith("line 01999\nthe end\n")
    assert "left out" in text


def test_a_short_log_is_left_alone(tmp_path):
    """Below the limit nothing changes."""
    log = ServerLog(tmp_path / "server.log", limit_bytes=4000)
    assert (log.text(), log.last_lines()) == ("", "")
    log.path.write_text("a\nb\nc\n")
    log.bound()
    assert (log.text(), log.last_lines(2)) == ("a\nb\nc\n", "b\nc")
