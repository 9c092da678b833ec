"""A run as one HTML page that opens offline, and as a section for Locust's own report."""

from loadkit.report.html.page import render, section

__all__ = ["render", "section"]
