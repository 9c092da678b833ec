"""What a locustfile's plan is made from: options, the server, and cases of scenarios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from loadkit.case import Case
from loadkit.engine.protocol import JSON, case_of, target_message
from loadkit.errors import UsageError
from loadkit.front.bridge import call_apart
from loadkit.front.options import Options
from loadkit.request import Target
from loadkit.run_folder import INPUTS

SCENARIOS = Path("scenarios")
ROUNDS = 3
MOST_CASES = 250_000
"""Every prompt is made before the first request: so many take minutes and a GB or two; a million would look like a hang."""


def text_of(path: Path | None) -> str | None:
    """A path as JSON takes it."""
    return None if path is None else str(path)


def scenarios_of(options: Options) -> Path | None:
    """The folder of scenario files that a run with these options uses; `None` for those that come with the package."""
    if options.scenarios is not None:
        return options.scenarios
    return SCENARIOS if SCENARIOS.is_dir() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Handed to `PlanShape.plan`. `folder` is the run's folder; `preflight` what was found out about the server.

    `call` runs a function in the engine process, where nothing is patched.
    """

    options: Options
    target: Target
    folder: Path
    run_id: str
    preflight: JSON
    call: Callable[..., Any]
    scenario_files: dict[str, str] = field(default_factory=dict)
    said: JSON = field(default_factory=dict)

    def cases(self, name: str | None = None, *, count: int | None = None, first: int = 0, **drawing: Any) -> tuple[Case, ...]:
        """Distinct cases of a scenario, the same for the same `--plan-seed`.

        `name` defaults to `--scenario`. `drawing` overrides fields of `scenario.Drawing`; `speed=True` makes a speed workload
        of it: fixed output length, no checks.

        Raises:
            UsageError: there is no such scenario, or its file has a mistake.
        """
        if count is not None and count > MOST_CASES:
            problem = f"{count} requests are more than a plan holds ({MOST_CASES})"
            raise UsageError(problem, remedy="lower --ways, --rounds or --requests-per-user")
        drawn = self.call(
            "loadkit.engine.preparation:cases",
            name=self.options.scenario if name is None else name,
            folder=text_of(self.scenarios),
            drawing=self._drawing(drawing),
            target=self.target_json,
            count=count,
            first=first,
        )
        self.scenario_files.update(drawn["files"])
        self.said.update({key: drawn[key] for key in ("rounds", "slo") if drawn[key]})
        return tuple(case_of(case) for case in drawn["cases"])

    @property
    def rounds(self) -> int:
        """`--rounds`, else what the scenario says whose cases were drawn, else 3."""
        if self.options.rounds is not None:
            return self.options.rounds
        return int(self.said.get("rounds", ROUNDS))

    @property
    def slo(self) -> list[str]:
        """Service levels: those of `--slo`, and the scenario's on figures that it does not name."""
        named = {text.partition("=")[0].strip() for text in self.options.slo}
        more = [f"{name}={limit}" for name, limit in self.said.get("slo", {}).items() if name not in named]
        return [*self.options.slo, *more]

    def documents(self, name: str, *, rungs: Sequence[float] = (), **drawing: Any) -> tuple[Case, ...]:
        """Cases about generated documents, in the order in which to ask them: by length, document, question.

        The documents are fitted by the server's tokenizer and saved in the run's `inputs/`, or replayed with `--inputs`.
        `rungs` are lengths in K tokens; `--rungs` and the scenario's own come after them.

        Raises:
            UsageError: the scenario has no archive, a length does not fit the server, saved inputs are not as they were.
        """
        options, found = self.options, self.preflight
        made = self.apart(
            "loadkit.documents:archive_cases",
            scenario=name,
            scenarios=text_of(self.scenarios),
            target=self.target_json,
            folder=str(self.folder / INPUTS),
            inputs=text_of(options.inputs),
            rungs_k=list(rungs or options.rungs),
            drawing=self._drawing(drawing),
            cache={key: found.get(key) for key in ("block_size", "drops_last_block")},
            counts_agree=found.get("counts_agree"),
        )
        for note in made["notes"]:
            click.echo(f"loadkit: {name}: {note}", err=True)
        self.scenario_files[name] = made["file"]
        return tuple(case_of(case) for case in made["cases"])

    def _drawing(self, given: dict[str, Any]) -> dict[str, Any]:
        """Fields of `scenario.Drawing`: the options, and over them what the locustfile gives."""
        options = self.options
        return {
            "seed": options.plan_seed,
            "sampling_seed": options.sampling_seed,
            "max_tokens": options.max_tokens,
            "long_max_tokens": options.long_max_tokens,
            **given,
        }

    @property
    def scenarios(self) -> Path | None:
        """The folder of scenario files; `None` for those that come with the package."""
        return scenarios_of(self.options)

    @property
    def target_json(self) -> JSON:
        """The target as an argument for `apart`; the function adds the key from its environment."""
        return target_message(self.target)

    def apart(self, function: str, **arguments: Any) -> Any:
        """Run `module:function` in a short-lived process of its own and return its result as JSON.

        For what takes time or memory: building documents, fitting them with the server's tokenizer. It may be `async`.

        Raises:
            UsageError: the function raised one.
        """
        return call_apart(function, **arguments)

    def apart_cases(self, function: str, **arguments: Any) -> tuple[Case, ...]:
        """The same, for a function that returns cases."""
        return tuple(case_of(case) for case in call_apart(function, **arguments))
