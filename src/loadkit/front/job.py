"""What a locustfile's plan is made from: options, the server, and cases of scenarios."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadkit.case import Case
from loadkit.engine.protocol import JSON, case_of, target_message
from loadkit.front.bridge import call_apart
from loadkit.front.options import Options
from loadkit.request import Target

SCENARIOS = Path("scenarios")


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

    def cases(self, name: str | None = None, *, count: int | None = None, first: int = 0, **drawing: Any) -> tuple[Case, ...]:
        """Distinct cases of a scenario, the same for the same `--plan-seed`.

        `name` defaults to `--scenario`. `drawing` overrides fields of `scenario.Drawing`; `speed=True` makes a speed workload
        of it: fixed output length, no checks.

        Raises:
            UsageError: there is no such scenario, or its file has a mistake.
        """
        options = self.options
        wanted = {
            "seed": options.plan_seed,
            "sampling_seed": options.sampling_seed,
            "max_tokens": options.max_tokens,
            "long_max_tokens": options.long_max_tokens,
            **drawing,
        }
        drawn = self.call(
            "loadkit.engine.preparation:cases",
            name=options.scenario if name is None else name,
            folder=None if self.scenarios is None else str(self.scenarios),
            drawing=wanted,
            count=count,
            first=first,
        )
        self.scenario_files.update(drawn["files"])
        return tuple(case_of(case) for case in drawn["cases"])

    @property
    def scenarios(self) -> Path | None:
        """The folder of scenario files; `None` for those that come with the package."""
        if self.options.scenarios is not None:
            return self.options.scenarios
        return SCENARIOS if SCENARIOS.is_dir() else None

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
