"""Is the server alive and of sound mind? Arithmetic, Chinese, a tool call; seconds.

locust -f locustfiles/smoke.py --headless --host http://spark:8000
"""

from loadkit.front import Job, LLMUser, PlanShape
from loadkit.plan import Plan, sequence


class SmokeUser(LLMUser):
    """Asks what the plan says."""


class Smoke(PlanShape):
    """Every case once, one after the other."""

    def plan(self, job: Job) -> Plan:
        cases = job.cases("smoke")
        return sequence(cases, name="smoke", seed=job.options.plan_seed, asked={"answers": True, "truncation": True})
