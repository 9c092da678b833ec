"""The side of the master, or of the single process: begins a run, leads it through its plan, and ends it with a verdict."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gevent

from loadkit import provenance, run_folder
from loadkit.clock import Clock
from loadkit.engine.protocol import JSON, heartbeat_of, target_message, target_of
from loadkit.errors import FolderError, LoadkitError, UsageError
from loadkit.front import messages
from loadkit.front.arguments import options_of, options_of_form
from loadkit.front.bridge import Bridge, Listener, Reply
from loadkit.front.children import Child, simulator
from loadkit.front.conductor import Conductor
from loadkit.front.ending import Verdict, reported
from loadkit.front.job import Job, scenarios_of, text_of
from loadkit.front.options import Options, as_text
from loadkit.front.run import Run, usable
from loadkit.front.signals import INTERRUPTED
from loadkit.front.watching import Watch
from loadkit.live import Live
from loadkit.plan import Stage, users_of
from loadkit.secrets import masked_text
from loadkit.sidecar_client import GuardState

if TYPE_CHECKING:
    from loadkit.front.shapes import PlanShape
    from loadkit.front.workplace import Workplace

SIMULATED = "fast"
PATIENCE_S = 5.0
"""After this a look at the server says that it is still waiting; a model that is being loaded can take minutes to answer."""

DRAIN_S = 600.0
"""How long users without a plan may take to finish what they began, when the guard allows nothing new."""


class Lead:
    """One per environment that is no worker. `workplace` is there in the single process only; `send` reaches desks."""

    def __init__(
        self,
        environment: Any,
        *,
        clock: Clock,
        live: Live,
        send: Callable[[str, JSON, str | None], None],
        workplace: Workplace | None,
    ):
        self._environment = environment
        self._clock = clock
        self._send = send
        self._workplace = workplace
        self._simulator: Child | None = None
        self.beginning = False
        self.live = live
        self.run: Run | None = None
        self.verdict = Verdict(exit_code=0, headline="")

    # ---- before a run

    def checked(self, form: dict[str, str]) -> UsageError | None:
        """What would be wrong with a run of this form: options, scenario, server, model. Looks at them as the run would."""
        try:
            options = options_of_form(self._environment, form)
            self._looked_at(
                options,
                form.get("host", self._environment.host or ""),
                scenario=options.scenario,
                folder=text_of(scenarios_of(options)),
            )
        except UsageError as mistake:
            return mistake
        except LoadkitError as problem:
            return UsageError(str(problem))
        return None

    def start_simulator(self) -> None:
        """Start it without waiting for it; idempotent while it runs."""
        if self._simulator is None or not self._simulator.running:
            self._simulator = simulator(SIMULATED)

    def _looked_at(self, options: Options, host: str, **scenario: Any) -> JSON:
        """What preflight found; the look of the form's check is not repeated when that form starts a run."""
        if not host:
            self.start_simulator()
            assert self._simulator is not None
            url = self._simulator.ready()["url"]
        patience = gevent.spawn_later(PATIENCE_S, self._say, f"{masked_text(host or url)} has not answered yet; waiting for it")
        try:
            found: JSON = self._call("loadkit.engine.preparation:look", host=host or url, model=options.model, **scenario)
        finally:
            patience.kill()
        return {**found, "embedded_simulator": not host}

    def _call(self, function: str, **arguments: Any) -> Any:
        """In the single process's own engine; the master has none, so there in a short-lived one."""
        if self._workplace is not None:
            return self._workplace.bridge.call(function, **arguments)
        bridge = Bridge(Listener())
        bridge.start()
        try:
            return bridge.call(function, **arguments)
        finally:
            bridge.stop()

    # ---- a run begins

    def begin(self, shape: PlanShape | None) -> int | None:
        """Make folder, plan and manifest, and start the conductor. Returns how many users are needed, `None` when refused."""
        self.beginning = True
        try:
            options = options_of(self._environment)
            usable(options.run_dir)
            found = self._looked_at(options, self._environment.host or "")
            if options.preflight_only:
                self._say(found.get("said", f"{found['target']['base_url']} serves {found['target']['model']}"))
                return None
            run, users = self._ready(options, found, shape)
        except LoadkitError as problem:
            self.refuse(problem)
            return None
        finally:
            self.beginning = False
        self.run = run
        self._say(f"run folder {run.folder}")
        gevent.spawn(self._led, run)
        return users

    def _ready(self, options: Options, found: JSON, shape: PlanShape | None) -> tuple[Run, int]:
        run = self._made(options, found)
        try:
            run.watch = self._watch(run)
            users = self._planned(run, found, shape)
        except (LoadkitError, SystemExit):  # a mistake, or Ctrl-C while prompts and documents are drawn
            run.discard()
            raise
        return run, users

    def refuse(self, problem: LoadkitError) -> None:
        """The run can't begin: one line, and the exit code that says so."""
        self._say(str(problem))
        self.verdict = Verdict(exit_code=2 if isinstance(problem, UsageError) else 3, headline=str(problem))

    def facts(self, run: Run) -> JSON:
        """What workers need to know; it travels with the spawn message."""
        options = run.options
        folder = run.folder.resolve()
        return {
            "run_id": run.run_id,
            "folder": str(folder),
            "run_dir": str(folder.parent),
            "boot_id": provenance.boot_id(),
            "target": target_message(run.target),
            "keep_text": not options.no_text,
            "token_times": options.token_times,
            "scenarios": None if options.scenarios is None else str(options.scenarios),
            "drawing": {
                "seed": options.plan_seed,
                "sampling_seed": options.sampling_seed,
                "max_tokens": options.max_tokens,
                "long_max_tokens": options.long_max_tokens,
            },
        }

    def _made(self, options: Options, found: JSON) -> Run:
        wall_ns = self._clock.wall_ns()
        folder = run_folder.new_folder(options.run_dir, options.label, wall_ns=wall_ns)
        target = target_of(found["target"], None)
        simulated = found["embedded_simulator"]
        if simulated:
            self._say(f"no --host given: measuring the embedded simulator (preset {SIMULATED}) at {target.base_url}")
        manifest = provenance.manifest(
            run_id=folder.name,
            created_wall_ns=wall_ns,
            options={**as_text(options), "host": "" if simulated else target.base_url},
            target=target,
            found={key: value for key, value in found.items() if key != "embedded_simulator"},
            embedded_simulator=simulated,
        )
        return Run(folder=folder, options=options, target=target, manifest=manifest)

    def _watch(self, run: Run) -> Watch:
        watch = Watch(
            folder=run.folder,
            live=self.live,
            clock=self._clock,
            environment=self._environment,
            guard=lambda state: self._guarded(run, state),
            say=self._say,
        )
        watch.start(run.options, run.target.base_url)
        return watch

    def _guarded(self, run: Run, state: GuardState) -> None:
        """An armed guard: send nothing new and let what runs end, or close everything now."""
        if not state.armed or run.over.is_set():
            return
        if state.level in ("stop_new", "abort") and not run.reason:
            self._say(f"guard: {state.level}: {state.reason}")
        if state.level == "abort":
            run.end("aborted", f"guard: {state.reason}")
            self._close_streams()
            assert run.watch is not None
            run.watch.closed()
            self._end_free_run()
        elif state.level == "stop_new" and run.conductor is not None:
            run.conductor.drain(f"guard: {state.reason}")
        elif state.level == "stop_new":
            self._send(messages.STOP_NEW, {}, None)
            self._environment.stop_timeout = max(self._environment.stop_timeout, DRAIN_S)
            run.end("aborted", f"guard: {state.reason}")
            self._end_free_run()

    def _planned(self, run: Run, found: JSON, shape: PlanShape | None) -> int:
        job = Job(
            options=run.options,
            target=run.target,
            folder=run.folder,
            run_id=run.run_id,
            preflight=found,
            call=self._call,
        )
        if shape is not None:
            run.plan = shape.plan(job)
            run.manifest["plan"] = provenance.plan_facts(run.plan)
            run.manifest["asked"] |= run.plan.asked
            run.conductor = Conductor(run.plan, self, self._clock, stop_on_failure=run.options.stop_on_failure)
        run.manifest["slo"] = job.slo
        run.manifest["asked"]["slo"] = bool(job.slo)
        run.snapshot(job.scenario_files)
        run.save()
        if self._workplace is not None:
            self._workplace.open(self.facts(run), folder=run.folder, worker="", first=0, workers=1)
        assert run.watch is not None
        run.watch.begin(run.options)
        run.manifest["clock"] = run.watch.clock
        run.save()
        stages = () if run.plan is None else run.plan.stages
        self.live.begin(run.folder, manifest=run.manifest, stages=stages, at_ns=self._clock.monotonic_ns())
        return 0 if run.plan is None else users_of(run.plan)

    def _led(self, run: Run) -> None:
        if run.conductor is not None:
            run.conductor.lead()
            if run.conductor.cut_short:
                run.end("aborted", run.conductor.cut_short)
            run.over.set()

    # ---- while it runs: what the conductor does …

    def send(self, message: str, data: JSON, worker: str | None) -> None:
        self._send(message, data, worker)

    def _close_streams(self) -> None:
        """Cancel all requests on all workers now."""
        self._send(messages.HALT, {}, None)
        if self._workplace is not None:
            self._workplace.settle()

    def note(self, line: JSON) -> None:
        assert self.run is not None
        self.run.note(line)

    def stage_began(self, stage: Stage, at_ns: int) -> None:
        self.live.stage_began(stage, at_ns)

    def stage_ended(self, stage: Stage, at_ns: int) -> None:
        self.live.stage_ended(stage, at_ns)

    # ---- … and what desks tell

    def heard(self, message: str, data: JSON, worker: str) -> None:
        """Runs in Locust's listening greenlet, so nothing here waits."""
        if self.run is None:
            return
        if message == messages.PULSE:
            self.live.heartbeat(heartbeat_of(data["heartbeat"]))
        elif message == messages.TROUBLE:
            self.abort(data["reason"], data["problem"])
        elif message == messages.LINES:
            self.run.lines_of(data["worker"], data["data"])
        elif self.run.conductor is not None:
            self.run.conductor.heard(message, data, worker)

    def ended(self, reply: Reply) -> None:
        self.live.ended(reply.record, reply.verdicts)

    def abort(self, reason: str, problem: str) -> None:
        """The run can't go on; everything that is recorded stays."""
        if self.run is None or self.run.over.is_set():
            return
        self._say(problem)
        self.run.end("aborted", f"{reason}: {problem}")
        self._end_free_run()

    def interrupt(self, reason: str) -> None:
        """Ctrl-C or SIGTERM."""
        if self.run is not None and not self.run.finished.is_set():
            self.run.end("interrupted", reason)
        elif self.beginning:
            self.verdict = Verdict(exit_code=INTERRUPTED, headline=f"interrupted before the first request ({reason})")

    def _end_free_run(self) -> None:
        """A shape sees that its run is over; users without one are stopped here."""
        if self._environment.shape_class is None:
            headless = bool(getattr(self._environment.parsed_options, "headless", False))
            gevent.spawn(self._environment.runner.quit if headless else self._environment.runner.stop)

    # ---- the end

    def finish(self) -> None:
        """Write everything, judge, print. Called from several of Locust's events: the first begins it, all wait.

        It has a greenlet of its own, because Locust kills its own ones while it shuts down, callers of this among them.
        """
        run = self.run
        if run is None:
            return
        if not run.finishing:
            run.finishing = True
            gevent.spawn(self._finish, run)
        run.finished.wait()

    def _finish(self, run: Run) -> None:
        try:
            self._finished(run)
        except FolderError as problem:
            self._say(str(problem))
            self.verdict = Verdict(exit_code=3, headline=str(problem))
        finally:
            run.finished.set()

    def _finished(self, run: Run) -> None:
        self._settled(run)
        self._closed(run)
        self.verdict = reported(run, csv_prefix=getattr(self._environment.parsed_options, "csv_prefix", None))
        run.manifest |= {"exit_code": self.verdict.exit_code, "headline": self.verdict.headline}
        run.save()
        run.close()
        self.live.finished(self.verdict.headline, self.verdict.exit_code, run.state, self._clock.monotonic_ns())

    def _settled(self, run: Run) -> None:
        if run.plan is not None and not run.over.is_set():
            run.end("interrupted", "stopped before the plan was done")
        if self._workplace is not None:
            left = self._workplace.close()
            if left["unwritten"]:
                where = f"they are in {left['elsewhere']}" if left["elsewhere"] else "and there is no room elsewhere either"
                self._say(f"{left['unwritten']} records could not be written to {run.folder}: {where}")
        run.over.set()

    def _closed(self, run: Run) -> None:
        assert run.watch is not None
        run.watch.end(getattr(self._environment.parsed_options, "csv_prefix", None))
        csv = getattr(self._environment, "loadkit_csv", None)
        if csv is not None:
            csv.write_all()
        run.manifest |= {"state": run.state or "finished", "ended_reason": run.reason, "clock": run.watch.clock}
        run.state = run.manifest["state"]
        run.save()

    def stop(self) -> None:
        """Locust ends."""
        if self._simulator is not None:
            self._simulator.stop()

    @staticmethod
    def _say(text: str) -> None:
        sys.stderr.write(f"loadkit: {text}\n")
        sys.stderr.flush()
