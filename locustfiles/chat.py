"""Conversations of five turns with a growing history, several at once; one cache salt for each conversation.

locust -f locustfiles/chat.py --headless --ways 4 --host http://spark:8000
"""

from loadkit.front import Job, LLMUser, PlanShape
from loadkit.plan import Plan, sequence


class ChatUser(LLMUser):
    """Asks what the plan says; all turns of a conversation, in order."""


class Conversations(PlanShape):
    """Two conversations for each user; as many users as the largest of --ways."""

    def plan(self, job: Job) -> Plan:
        users = max(job.options.ways)
        cases = job.cases("chat", count=2 * users)
        return sequence(cases, ways=users, name="chat", seed=job.options.plan_seed, asked={"answers": True, "truncation": True})
