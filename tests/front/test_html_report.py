"""Our section in Locust's HTML report."""

from loadkit.front.html_report import section_of, with_section


def test_the_section_stands_before_the_last_end_of_the_body():
    """An end tag inside a script's text is not the end of the page."""
    page = "<body><script>'</body>'</script></body></html>"
    assert with_section(page, "<p>ours</p>") == "<body><script>'</body>'</script><p>ours</p></body></html>"


def test_a_page_without_an_end_gets_it_at_its_end():
    """Nothing is lost where Locust's page changes."""
    assert with_section("<p>", "ours") == "<p>ours"


def test_no_section_before_the_run_has_ended(tmp_path):
    """A run without a report, and no run at all, give nothing."""
    assert (section_of(tmp_path), section_of(None)) == ("", "")
