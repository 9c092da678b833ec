"""Asks every case of one scenario, one after the other, and checks the answers where it has checks: to begin with for your own.

locust -f locustfiles/ask.py --headless --scenario code
locust -f locustfiles/ask.py --headless --scenarios my-scenarios --scenario mine --rounds 3 --host http://spark:8000
"""

from loadkit.front import Job, LLMUser, PlanShape
from loadkit.plan import Plan, sequence


class AskUser(LLMUser):
    """Asks what the plan says."""


class Ask(PlanShape):
    """--rounds times all cases, in order."""

    def plan(self, job: Job) -> Plan:
        cases = job.cases()
        return sequence(
            cases,
            rounds=job.rounds,
            name=job.options.scenario,
            seed=job.options.plan_seed,
            asked={"answers": any(turn.checks for case in cases for turn in case.turns), "truncation": True},
        )
