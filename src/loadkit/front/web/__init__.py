"""The tab "LLM" in Locust's own web UI: no fork, no second server, nothing loaded from elsewhere."""

from loadkit.front.web.tab import install

__all__ = ["install"]
