"""Ordinary Locust: as many users as you like, for as long as you like, each choosing by weight what to ask.

locust -f locustfiles/mixed.py --headless -u 4 -r 4 -t 1m --host http://spark:8000
"""

from locust import between, task

from loadkit.front import LLMUser


class MixedUser(LLMUser):
    """Three short questions for one of code and one with tools."""

    wait_time = between(0.2, 1.0)
    scenarios = ("short", "code", "tools")

    @task(3)
    def short(self) -> None:
        self.ask("short")

    @task(1)
    def code(self) -> None:
        self.ask("code")

    @task(1)
    def tools(self) -> None:
        self.ask("tools")
