"""Does the prefix cache give what it should? Several questions about one document, warm and cold, and are the answers the same?

locust -f locustfiles/prefix.py --headless --host http://spark:8000
"""

from loadkit.front import Job, LLMUser, PlanShape
from loadkit.plan import Plan, sequence


class PrefixUser(LLMUser):
    """Asks what the plan says."""


class Prefix(PlanShape):
    """The first question is cold, the others find the document cached; then each of those once more, cold."""

    def plan(self, job: Job) -> Plan:
        cases = job.documents("prefix")
        return sequence(cases, name="prefix", seed=job.options.plan_seed, asked={"answers": True, "truncation": True})
