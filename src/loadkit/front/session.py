"""What loadkit is to one Locust environment: hears Locust's events, and passes them to the lead and the workplace or worker."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import gevent
from locust.runners import STATE_MISSING, MasterRunner, WorkerRunner

from loadkit.clock import SystemClock
from loadkit.engine.protocol import JSON
from loadkit.errors import FolderError, LoadkitError, UsageError
from loadkit.front import html_report, messages
from loadkit.front.arguments import options_of
from loadkit.front.lead import Lead
from loadkit.front.run import Run, usable
from loadkit.front.signals import Signals
from loadkit.front.users import follow_plan
from loadkit.front.worker import FACTS, Worker, replies_of
from loadkit.front.workplace import Workplace
from loadkit.live import Live

if TYPE_CHECKING:
    from loadkit.front.progress import Progress
    from loadkit.front.shapes import PlanShape

HALT_S = 3.0
WATCH_S = 0.5


class Session:
    """`environment.loadkit`. Roles: `lead` on a master or single process, `worker` on a worker, `workplace` where users are."""

    def __init__(self, environment: Any):
        self.environment = environment
        self.live = Live()
        self.lead: Lead | None = None
        self.worker: Worker | None = None
        self._names = itertools.count(1)
        self._settled: set[str] = set()
        self._known: set[str] = set()
        self._progress: Progress | None = None
        self._shows_progress = False
        self._begun_ahead: int | None = None
        self._main = gevent.getcurrent()
        self._clock = SystemClock()
        options = options_of(environment)
        if not isinstance(environment.runner, WorkerRunner):
            usable(options.run_dir)
        self._take_role(options.run_dir)
        self._listen()

    def _take_role(self, run_dir: Any) -> None:
        runner = self.environment.runner
        if isinstance(runner, WorkerRunner):
            self.worker = Worker(self.environment, clock=self._clock, run_dir=run_dir)
            self._workplace: Workplace | None = self.worker.workplace
            self._workplace.start()
            return
        self._workplace = None
        if not isinstance(runner, MasterRunner):
            self._workplace = Workplace(
                self.environment,
                clock=self._clock,
                tell=lambda message, data: runner.send_message(message, data),
                report=lambda reply: self.lead.ended(reply) if self.lead else None,
                started=self.live.started,
            )
            self._workplace.start()
        self.lead = Lead(self.environment, clock=self._clock, live=self.live, send=self._to_desks, workplace=self._workplace)
        if self._starts_at_once() and not self.environment.host:
            self.lead.start_simulator()
        parsed = self.environment.parsed_options
        self._shows_progress = getattr(parsed, "headless", False) and not getattr(parsed, "only_summary", False)
        if self._shows_progress and not getattr(parsed, "print_stats", False):
            parsed.only_summary = True  # its tables come once, at the end: our lines say more than a page every two seconds

    def _starts_at_once(self) -> bool:
        parsed = self.environment.parsed_options
        return bool(getattr(parsed, "headless", False) or getattr(parsed, "autostart", False))

    def _listen(self) -> None:
        runner, events = self.environment.runner, self.environment.events
        if self.lead is not None:
            for name in messages.TO_CONDUCTOR:
                runner.register_message(name, self._conductor_heard)
        if self._workplace is not None:
            for name in messages.TO_DESKS:
                runner.register_message(name, self._desk_heard)
        events.test_start.add_listener(self._test_start)
        events.test_stopping.add_listener(self._test_stopping)
        events.test_stop.add_listener(self._test_stop)
        events.quitting.add_listener(self._quitting)
        events.quit.add_listener(self._quit)
        events.user_error.add_listener(self._user_failed)

    def _user_failed(self, user_instance: Any, exception: Exception, **_: Any) -> None:
        """Locust logs it and goes on, without the user or with its task begun anew; a plan would wait for that user for ever.

        An engine that died ends the run in its own way. `user_instance` may be Locust's task set of the user.
        """
        user = getattr(user_instance, "user", user_instance)
        if self._workplace is not None and type(user).tasks == [follow_plan] and not isinstance(exception, LoadkitError):
            self._workplace.user_failed(type(user).__name__, exception)

    # ---- for users and shapes

    @property
    def run(self) -> Run | None:
        """The run that goes on, or the last one; workers have none."""
        return None if self.lead is None else self.lead.run

    @property
    def workplace(self) -> Workplace:
        """Where users work; a master has none, and no users either."""
        assert self._workplace is not None
        return self._workplace

    def name_user(self, kind: str) -> str:
        """A name for one more user of this process."""
        return f"{kind} {next(self._names)}"

    def begin(self, shape: PlanShape | None) -> int | None:
        """Begin a run; returns how many users it needs, `None` when it was refused."""
        assert self.lead is not None
        if self._begun_ahead is not None:
            ahead, self._begun_ahead = self._begun_ahead, None
            return ahead
        if shape is None and (idle := self._planless()):
            problem = "no tasks, and the locustfile has no PlanShape: nothing would be asked"
            remedy = "add a PlanShape, as locustfiles/ask.py has one, or give the user tasks"
            self.lead.refuse(UsageError(problem, where=idle, remedy=remedy))
            return None
        self._settled.clear()
        users = self.lead.begin(shape)
        if users is not None:
            self._show_progress()
        return users

    def _planless(self) -> str:
        """The names of the users that only follow a plan; empty where a user has tasks of its own."""
        users = self.environment.user_classes
        return "" if any(user.tasks != [follow_plan] for user in users) else ", ".join(user.__name__ for user in users)

    def begin_ahead(self) -> None:
        """Headless: begin before Locust starts anything, so that `-t` counts from the first user on, and a run that can't
        begin ends with one line and its exit code, without empty tables.
        """
        if self.lead is None or not getattr(self.environment.parsed_options, "headless", False):
            return
        try:
            self._begun_ahead = self.begin(self.environment.shape_class)
        except SystemExit:  # Ctrl-C
            self._quit()
            raise
        if self._begun_ahead is None:
            self._quit()
            sys.exit(self.lead.verdict.exit_code)

    def _show_progress(self) -> None:
        """Headless, and not with `--only-summary`; rich is imported only here."""
        if self._shows_progress:
            from loadkit.front.progress import Progress

            self._progress = Progress(self.live)
            self._progress.start()

    # ---- messages

    def _conductor_heard(self, environment: Any, msg: Any, **_: Any) -> None:  # noqa: ARG002 - Locust's signature
        assert self.lead is not None
        if msg.type == messages.SETTLED:
            self._settled.add(msg.node_id)
        elif msg.type == messages.CLOCK_ASKED:
            answer = {"asked_ns": msg.data["asked_ns"], "at_ns": self._clock.monotonic_ns()}
            self._to_desks(messages.CLOCK, answer, msg.node_id)
        elif msg.type == messages.DOCUMENT_ASKED:
            self._give_document(msg.data["path"], msg.node_id)
        elif msg.type == messages.ENDED:
            for reply in replies_of(msg.data["replies"]):
                self.lead.ended(reply)
        else:
            self.lead.heard(msg.type, msg.data, msg.node_id)

    def _give_document(self, path: str, worker: str) -> None:
        assert self.lead is not None
        try:
            if self.run is not None:
                self._to_desks(messages.DOCUMENT, {"path": path, "text": self.run.document(path)}, worker)
        except FolderError as problem:
            self.lead.abort("document missing", str(problem))

    def _desk_heard(self, environment: Any, msg: Any, **_: Any) -> None:  # noqa: ARG002 - Locust's signature
        if self.worker is not None:
            self.worker.heard(msg.type, msg.data)
        else:
            self.workplace.heard(msg.type, msg.data)

    def _to_desks(self, message: str, data: JSON, worker: str | None) -> None:
        self.environment.runner.send_message(message, data, worker)

    # ---- Locust's events

    def _test_start(self, environment: Any, **_: Any) -> None:
        if self.worker is not None:
            self.worker.begin()
            return
        if environment.shape_class is None and self.begin(None) is None:
            gevent.spawn(environment.runner.stop)
            return
        assert self.lead is not None
        assert self.run is not None
        if isinstance(environment.runner, MasterRunner):
            workers = max(1, environment.runner.worker_count)
            setattr(environment.parsed_options, FACTS, {**self.lead.facts(self.run), "workers": workers})
            gevent.spawn(self._watch_workers, self.run)

    def _test_stopping(self, environment: Any, **_: Any) -> None:
        """A master that quits does not wait for its workers' last words; so they are asked for them here."""
        runner = environment.runner
        if self.run is None or self.run.finished.is_set() or not isinstance(runner, MasterRunner):
            return
        self._miss_workers()  # the last one's death is why Locust stops, and it may know before we do
        clients = set(runner.clients)
        self._to_desks(messages.HALT, {}, None)
        with gevent.Timeout(HALT_S + environment.stop_timeout, False):
            while any(client not in self._settled for client in clients & _present(runner)):
                gevent.sleep(0.02)

    def _test_stop(self, environment: Any, **_: Any) -> None:  # noqa: ARG002 - Locust's signature
        if self._progress is not None:
            self._progress.stop()
        if self.worker is not None:
            self.worker.finish()
        elif self.lead is not None:
            self.lead.finish()

    def _quitting(self, environment: Any, **_: Any) -> None:
        """On some ways out this comes while users still run; and it is the last moment for an exit code."""
        if self.worker is not None:
            environment.runner.stop()
            return
        assert self.lead is not None
        if self.run is not None and not self.run.finished.is_set():
            environment.runner.stop()
            self.lead.finish()
        if self.run is not None:
            html_report.add_to_file(environment, self.run.folder)
        environment.process_exit_code = self.lead.verdict.exit_code
        csv = getattr(environment, "loadkit_csv", None)
        if csv is not None:
            csv.last_look()

    def _quit(self, **_: Any) -> None:
        if self._workplace is not None:
            self._workplace.stop()
        if self.lead is not None:
            self.lead.stop()

    # ---- other ends

    def handle_signals(self) -> None:
        """Ctrl-C, SIGTERM and SIGHUP end the run in order; for Locust's command line, not for a library user's process."""
        Signals(self._interrupted, self._leave).install()

    def _interrupted(self, name: str) -> None:
        if self.lead is not None:
            self.lead.interrupt(name)
            if self.lead.beginning and getattr(self.environment.parsed_options, "headless", False):
                gevent.get_hub().loop.run_callback(self._main.throw, SystemExit(self.lead.verdict.exit_code))
                return
        self.environment.runner.quit()
        if self.environment.web_ui is not None:
            self.environment.web_ui.stop()

    def _leave(self) -> None:
        folder = "" if self.run is None else f"; what was recorded is in {self.run.folder}"
        sys.stderr.write(f"loadkit: interrupted again, leaving at once{folder}\n")

    def _watch_workers(self, run: Run) -> None:
        """Locust tells nobody when a worker is gone; its heartbeat is missed for a few seconds, then it counts as missing."""
        self._known = _present(self.environment.runner)
        while not run.over.is_set():
            self._miss_workers()
            run.over.wait(timeout=WATCH_S)

    def _miss_workers(self) -> None:
        lost = self._known - _present(self.environment.runner)
        if lost:
            assert self.lead is not None
            self.lead.abort("worker_lost", f"{len(lost)} of {len(self._known)} workers died: {', '.join(sorted(lost))}")


def _present(runner: Any) -> set[str]:
    return {name for name, client in runner.clients.items() if client.state != STATE_MISSING}
