"""The user class of a locustfile: asks what the plan says, or what its own tasks say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from locust import User
from locust.exception import StopUser
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_STOPPING, LOCUST_STATE_WAITING

from loadkit.case import Case
from loadkit.errors import EngineDied
from loadkit.front.bridge import Reply, Unsent
from loadkit.front.own_check import Opinion
from loadkit.record import Record

if TYPE_CHECKING:
    from loadkit.front.session import Session

T = TypeVar("T")


class LLMUser(User):
    """A user that talks to a language model.

    Without tasks of its own it follows the plan of the locustfile's `PlanShape`. With tasks it is an ordinary Locust user:
    `self.ask("short")` in a task asks the next case of that scenario.
    """

    abstract = True
    scenarios: ClassVar[tuple[str, ...]] = ()
    """Scenarios that the tasks ask for; they are checked before the first request."""

    def __init_subclass__(cls, **arguments: Any):
        super().__init_subclass__(**arguments)
        if not cls.tasks:
            cls.tasks = [follow_plan]

    def __init__(self, environment: Any):
        super().__init__(environment)
        self.session: Session = environment.loadkit
        self.name = self.session.name_user(type(self).__name__)

    def ask(self, scenario: str) -> Reply:
        """Ask the next case of a scenario, all its turns in order; returns the last turn's reply.

        It is another case each time until all were asked, on all workers together; each request has a salt of its own.
        """
        desk = self.session.workplace.desk
        if desk.nothing_new:
            raise StopUser
        item, lap = self.session.workplace.supply.take(scenario)
        try:
            return desk.do(self, item, lap=lap)[-1]
        except (Unsent, EngineDied):  # who abandons or aborts the run says why
            raise StopUser from None

    def check(self, case: Case, record: Record) -> Opinion:  # noqa: ARG002 - for locustfiles to override
        """A check of your own: whether the answer in `record` is right; `None` leaves it to the scenario's checks."""
        return None

    def idle(self, wait: Callable[[], T]) -> T:
        """Wait as Locust's WAITING, so that a user without work can be stopped at once."""
        if self._state == LOCUST_STATE_STOPPING:
            raise StopUser
        self._state = LOCUST_STATE_WAITING
        found = wait()
        self._state = LOCUST_STATE_RUNNING
        return found


def follow_plan(user: LLMUser) -> None:
    """The task of users without tasks: take what the conductor deals, until Locust stops the user."""
    desk = user.session.workplace.desk
    chair = desk.sit()
    while True:
        hand = user.idle(chair.hands.get)
        try:
            desk.play(user, chair, hand)
        except EngineDied:  # the run is aborted with the reason
            raise StopUser from None
