"""What Locust's documentation asks for with --web-login: a secret key, a user, and one who loads it."""

from flask_login import UserMixin
from locust import events


class Reader(UserMixin):
    """Nobody logs in in the test."""

    def get_id(self) -> str:
        return "reader"


@events.init.add_listener
def with_login(environment, **_):
    if environment.web_ui is not None:
        environment.web_ui.app.secret_key = "for the test only"
        environment.web_ui.login_manager.user_loader(lambda _: Reader())
