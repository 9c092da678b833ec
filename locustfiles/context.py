"""The earlier context experiment: 64K, 128K, nearly 256K; two documents each; front, middle, back, front again: 24 requests.

locust -f locustfiles/context.py --headless --label eager --host http://spark:8000
locust -f locustfiles/context.py --headless --label graph --host http://spark:8000 --inputs runs/…-eager

The second line asks the very same documents. --rungs 8,32 shortens. Nothing longer is sent after a failure or a host event.
"""

from itertools import groupby

from loadkit.front import Job, LLMUser, PlanShape
from loadkit.plan import Plan, ladder


class ContextUser(LLMUser):
    """Asks what the plan says."""


class Context(PlanShape):
    """One serial stage for each length."""

    def plan(self, job: Job) -> Plan:
        rungs = [
            (tier, list(cases)) for tier, cases in groupby(job.documents("context"), key=lambda case: case.facts.tier or "")
        ]
        return ladder(rungs, name="context", seed=job.options.plan_seed, asked={"answers": True, "truncation": True})
