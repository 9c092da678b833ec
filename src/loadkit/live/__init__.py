"""What is known of a run while it goes on, in bounded memory, for web tab and progress line. Knows nothing of Locust."""

from loadkit.live.run import Live, eta_s

__all__ = ["Live", "eta_s"]
