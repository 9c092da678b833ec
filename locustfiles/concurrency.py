"""How does throughput grow with the number of requests in flight? 1, 2 and 4 at once, three rounds.

locust -f locustfiles/concurrency.py --headless                              # on the embedded simulator
locust -f locustfiles/concurrency.py --headless --host http://spark:8000     # on your server
"""

from loadkit.front import Job, LLMUser, PlanShape
from loadkit.plan import Plan, cases_of_comparison, comparison


class ShortUser(LLMUser):
    """Asks what the plan says."""


class Ways(PlanShape):
    """Round-major: in each round all stages, each released by one barrier, each request a prompt of its own."""

    def plan(self, job: Job) -> Plan:
        shape = {
            "ways": job.options.ways,
            "rounds": job.rounds,
            "requests_per_user": job.options.requests_per_user,
        }
        cases = job.cases(count=cases_of_comparison(**shape), speed=True)
        return comparison(cases, **shape, seed=job.options.plan_seed, name="concurrency")
