"""How long a context does the server really manage? Archives from 8K to 256K tokens, climbing, with right answers known.

locust -f locustfiles/retrieval.py --headless --host http://spark:8000
locust -f locustfiles/retrieval.py --headless --rungs 8,32 --scenario retrieval-zh

The climb stops at the first length that does not complete, and at the first host event: nothing longer is sent.
"""

from itertools import groupby

from loadkit.front import Job, LLMUser, PlanShape
from loadkit.plan import Plan, joined, ladder, sequence

ARCHIVES = ("retrieval", "retrieval-zh")


class RetrievalUser(LLMUser):
    """Asks what the plan says."""


class Climb(PlanShape):
    """The short questions first (the base score), then one serial stage for each length."""

    def plan(self, job: Job) -> Plan:
        seed = job.options.plan_seed
        archive = job.options.scenario if job.options.scenario in ARCHIVES else "retrieval"
        asked = {"answers": True, "truncation": True}
        base = sequence(job.cases("short", count=6), name="short", seed=seed, asked=asked)
        rungs = [(tier, list(cases)) for tier, cases in groupby(job.documents(archive), key=lambda case: case.facts.tier or "")]
        return joined(base, ladder(rungs, name="retrieval", seed=seed), name="retrieval")
