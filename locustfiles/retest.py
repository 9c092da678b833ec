"""The earlier retest: per round 3 short questions, code, 2 and 4 at once, 8K and 32K first and repeated.

locust -f locustfiles/retest.py --headless --label eager --host http://spark:8000
locust -f locustfiles/retest.py --headless --rungs 8 --rounds 1

Three rounds unless --rounds says otherwise. Then the prefix test and the smoke test, once. Everything is asked, whatever fails.
"""

from loadkit.front import Job, LLMUser, PlanShape
from loadkit.plan import Plan, Stage, joined, sequence, stage, ways_name

ASKED = {"answers": True, "truncation": True}


class RetestUser(LLMUser):
    """Asks what the plan says."""


class Retest(PlanShape):
    """Rounds, then prefix and smoke."""

    def plan(self, job: Job) -> Plan:
        rounds, seed = job.rounds, job.options.plan_seed
        short, code = job.cases("short", count=3), job.cases("code", count=1)
        crowd = job.cases("short", count=6 * rounds, first=3)
        long = job.documents("retest-long")
        stages: list[Stage] = []
        for number in range(1, rounds + 1):
            two, four = crowd[6 * number - 6 : 6 * number - 4], crowd[6 * number - 4 : 6 * number]
            stages += [
                stage("short", short, round=number),
                stage("code", code, round=number),
                stage(ways_name(2), two, ways=2, round=number, release="barrier"),
                stage(ways_name(4), four, ways=4, round=number, release="barrier"),
                stage("long", long, round=number),
            ]
        body = Plan(stages=tuple(stages), name="retest", seed=seed, asked=ASKED)
        prefix = sequence(job.documents("prefix", rungs=[8]), name="prefix", seed=seed)
        return joined(body, prefix, sequence(job.cases("smoke"), name="smoke", seed=seed), name="retest")
