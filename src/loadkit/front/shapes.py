"""The shape of a locustfile with a plan: as many users as the widest stage needs, until the plan is done."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from locust import LoadTestShape

from loadkit.plan import Plan

if TYPE_CHECKING:
    from loadkit.front.job import Job
    from loadkit.front.session import Session

SPAWN_RATE = 100
"""Locust warns above this rate; idle users cost nothing, so wider stages go above it."""


class PlanShape(LoadTestShape):
    """Subclass it and say what the plan is."""

    abstract = True
    _begun = False

    @abstractmethod
    def plan(self, job: Job) -> Plan:
        """The stages of this run, made before its first request.

        Raises:
            UsageError: what is wrong with the options or the scenario; the run ends with exit code 2.
        """

    def tick(self) -> tuple[int, float] | None:
        """Locust's question, asked once a second; the second time it waits here, so the end is not polled for."""
        assert self.runner is not None
        session: Session = self.runner.environment.loadkit  # type: ignore[attr-defined]
        if not self._begun:
            self._begun = True
            users = session.begin(self)
            return None if users is None else (users, max(SPAWN_RATE, users))
        assert session.run is not None
        session.run.over.wait()
        return None

    def reset_time(self) -> None:
        """Locust starts this shape (again), so that the next tick begins a run; a master says so once more while it begins."""
        session: Session | None = None if self.runner is None else getattr(self.runner.environment, "loadkit", None)
        run = None if session is None else session.run
        if run is None or run.finished.is_set():
            self._begun = False
        super().reset_time()  # type: ignore[no-untyped-call]
