"""Cases drawn from a scenario: distinct, the same for the same seed, plain data."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import ValidationError

from loadkit.case import Case, Turn
from loadkit.checks.spec import ADAPTER, ToolCallCheck, plain
from loadkit.errors import UsageError
from loadkit.record import CaseFacts
from loadkit.scenario.prompt_file import read_prompts
from loadkit.scenario.schema import Prompt, Scenario, TurnFile
from loadkit.scenario.variables import Mistake, Place, draw, fill
from loadkit.schema import dotted, usage_error

TRIES = 200
"""Draws for one distinct case before its prompt counts as exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How a run draws from a scenario; the defaults are those of the options of the same names.

    `speed` turns any scenario into a speed workload: a fixed output length (`ignore_eos`), one turn, no tools, no checks.
    `long_max_tokens` is the budget of scenarios that say `budget: long`.
    """

    seed: int = 0
    sampling_seed: int = 42
    max_tokens: int = 512
    long_max_tokens: int = 2048
    speed: bool = False

    def budget(self, scenario: Scenario) -> int:
        """Output tokens of a request, thinking and answer together."""
        if isinstance(scenario.budget, int):
            return scenario.budget
        return self.long_max_tokens if scenario.budget == "long" else self.max_tokens


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt and its number in the file."""

    prompt: Prompt
    number: int

    @property
    def at(self) -> Place:
        """Where it stands there."""
        return ("prompts", self.number)


def cases(
    scenario: Scenario,
    drawing: Drawing = Drawing(),
    *,
    count: int | None = None,
    first: int = 0,
    member: Callable[[str], Scenario] | None = None,
) -> tuple[Case, ...]:
    """`count` distinct cases from number `first` on (a later call with a higher `first` continues the series).

    Without `count`: the scenario's own `count`, else one case for each prompt, or each line of its file. A mix draws from its
    members by weight; `member` finds them by name. Archives are made by `loadkit.documents` instead, as they need the server.

    Raises:
        UsageError: a template or formula is wrong, prompts run out of distinct values, or the scenario is an archive.
    """
    if scenario.archive is not None:
        raise UsageError("is made of generated documents", where=scenario.name, remedy="use it with RetrievalUser")
    if scenario.mix:
        return _mixed(scenario, drawing, count or scenario.count or 20, member)
    prompts = scenario.prompts or read_prompts(scenario, drawing.seed)
    wanted = count or scenario.count or len(prompts)
    series = _distinct(scenario, prompts, drawing)
    drawn = [next(series) for _ in range(first + wanted)]
    return tuple(drawn[first:])


def _distinct(scenario: Scenario, prompts: tuple[Prompt, ...], drawing: Drawing) -> Iterator[Case]:
    """Prompts in turn. One that has no new values left is asked again as it is: its salt still keeps it cold."""
    seen: set[bytes] = set()
    exhausted: set[int] = set()
    number = 0
    while True:
        prompt = prompts[number % len(prompts)]
        label = f"{number + 1}"
        for attempt in range(1 if number % len(prompts) in exhausted else TRIES):
            case = _case(scenario, Asked(prompt, number % len(prompts)), drawing, label=label, attempt=attempt)
            key = orjson.dumps([turn.messages for turn in case.turns])
            if key not in seen:
                break
        else:
            exhausted.add(number % len(prompts))
        seen.add(key)
        number += 1
        yield case


def _case(scenario: Scenario, asked: Asked, drawing: Drawing, *, label: str, attempt: int) -> Case:
    prompt = asked.prompt
    rng = random.Random(f"{drawing.seed}/{scenario.name}/{label}/{attempt}")
    values = _values(scenario, asked, rng)
    turns = _turns(scenario, asked, values)
    if drawing.speed:
        turns = (Turn(messages=turns[0].messages),)
    return Case(
        facts=_facts(scenario, prompt, drawing, turns, f"{scenario.name}-{prompt.name or 'p'}-{label}"),
        turns=turns,
        body=body(scenario, drawing, prompt),
        salt_group=salt_group(_policy(scenario, drawing), f"{scenario.name}-{label}", conversation=len(turns) > 1),
        stream=scenario.stream,
        variables=dict(values or {}),
    )


def _values(scenario: Scenario, asked: Asked, rng: random.Random) -> Mapping[str, Any] | None:
    """What is drawn for one case; `None` where nothing is declared."""
    variables = scenario.variables | asked.prompt.variables
    try:
        return draw(variables, rng) if variables else None
    except Mistake as mistake:
        at = (*asked.at, "variables") if mistake.at[0] in asked.prompt.variables else ("variables",)
        raise _charged(mistake, scenario, at) from None


def _charged(mistake: Mistake, scenario: Scenario, at: Place = ()) -> UsageError:
    """To the scenario's file, or the file of prompts that it names."""
    place = (*at, *mistake.at)
    where = scenario.file.path if scenario.file is not None and place[0] == "prompts" else scenario.where
    return UsageError(mistake.problem, where=where, key=dotted(place), remedy=mistake.remedy)


def _turns(scenario: Scenario, asked: Asked, values: Mapping[str, Any] | None) -> tuple[Turn, ...]:
    """All turns of a prompt, filled; where nothing is declared, texts are literal and braces mean nothing."""
    prompt = asked.prompt

    def filled(thing: Any, *at: str | int) -> Any:
        if values is None:
            return thing
        try:
            return fill(thing, values, at)
        except Mistake as mistake:
            raise _charged(mistake, scenario) from None

    def checks(specs: tuple[Any, ...], *at: str | int) -> tuple[dict[str, Any], ...]:
        return tuple(check(spec, *at, "checks", number) for number, spec in enumerate(specs))

    def check(spec: Any, *at: str | int) -> dict[str, Any]:
        try:
            return plain(ADAPTER.validate_python(filled(plain(_with_schema(spec, scenario)), *at)))
        except ValidationError as mistakes:
            raise usage_error(mistakes, scenario.where, at) from None

    system = ({"role": "system", "content": filled(scenario.system, "system")},) if scenario.system else ()
    if not prompt.turns:
        messages = [message.model_dump() for message in prompt.messages]
        said = filled(messages, *asked.at, "messages") or [{"role": "user", "content": filled(prompt.text, *asked.at, "text")}]
        return (Turn(messages=(*system, *said), checks=checks(prompt.checks, *asked.at) + checks(scenario.checks)),)

    def turn(number: int, file: TurnFile) -> Turn:
        at = (*asked.at, "turns", number)
        said = ({"role": "user", "content": filled(file.text, *at, "text")},) if file.text is not None else ()
        return Turn(
            messages=(*(system if number == 0 else ()), *said),
            tool_results=filled(file.tool_results, *at, "tool_results"),
            checks=checks(file.checks, *at) + checks(scenario.checks),
            max_tokens=file.max_tokens,
        )

    return tuple(turn(number, file) for number, file in enumerate(prompt.turns))


def _with_schema(spec: Any, scenario: Scenario) -> Any:
    """A tool check knows the parameters' schema of the tool that it expects."""
    if isinstance(spec, ToolCallCheck) and spec.parameters is None:
        tool = next((tool for tool in scenario.tools if tool.name == spec.name), None)
        return spec.model_copy(update={"parameters": tool.parameters}) if tool else spec
    return spec


def _facts(scenario: Scenario, prompt: Prompt, drawing: Drawing, turns: tuple[Turn, ...], name: str) -> CaseFacts:
    question = orjson.dumps([turn.messages for turn in turns])
    return CaseFacts(
        scenario=scenario.name,
        case=name,
        workload="speed" if drawing.speed else scenario.workload,
        max_tokens=prompt.max_tokens or drawing.budget(scenario),
        cache="cold" if _policy(scenario, drawing) == "fresh" else _policy(scenario, drawing),
        question_sha256=hashlib.sha256(question).hexdigest(),
    )


def _policy(scenario: Scenario, drawing: Drawing) -> str:
    """A speed workload asks nothing twice, so that there is nothing to prime: `warm` is then `fresh`."""
    return "fresh" if drawing.speed and scenario.cache == "warm" else scenario.cache


def salt_group(policy: str, case: str, *, conversation: bool) -> str | None:
    """Who shares a cache salt under a cache policy (see `loadkit.request.salt`)."""
    match policy:
        case "warm":
            return case
        case "shared":
            return "run"
        case "fresh" if conversation:
            return f"{case}/{{round}}/{{way}}/{{attempt}}"
    return None


def body(scenario: Scenario, drawing: Drawing, prompt: Prompt | None = None) -> dict[str, Any]:
    """Every field of the request body but model, messages, stream and cache_salt."""
    sampling = scenario.sampling
    drawn = sampling.model_dump(exclude_none=True, exclude={"extra", "stop", "seed"})
    fields: dict[str, Any] = {
        **drawn,
        "seed": drawing.sampling_seed if sampling.seed is None else sampling.seed,
        "max_tokens": (prompt.max_tokens if prompt else None) or drawing.budget(scenario),
        "chat_template_kwargs": dict(scenario.template),
        **({"stop": list(sampling.stop)} if sampling.stop else {}),
        **sampling.extra,
    }
    if drawing.speed or scenario.workload == "speed":
        return fields | {"ignore_eos": True}
    return fields | _tools(scenario, prompt)


def _tools(scenario: Scenario, prompt: Prompt | None) -> dict[str, Any]:
    wanted = prompt.tools if prompt else None
    declared = [tool for tool in scenario.tools if wanted is None or tool.name in wanted]
    if not declared:
        return {}
    choice = (prompt.tool_choice if prompt else None) or scenario.tool_choice or "auto"
    named = {"type": "function", "function": {"name": choice}}
    return {
        "tools": [{"type": "function", "function": tool.model_dump()} for tool in declared],
        "tool_choice": choice if choice in ("auto", "required", "none") else named,
    }


def _mixed(scenario: Scenario, drawing: Drawing, count: int, member: Callable[[str], Scenario] | None) -> tuple[Case, ...]:
    if member is None:
        raise UsageError("is a mix", where=scenario.name, remedy="pass `member`, which finds its scenarios by name")
    rng = random.Random(f"{drawing.seed}/{scenario.name}")
    picked = rng.choices(list(scenario.mix), weights=list(scenario.mix.values()), k=count)
    drawn = {name: iter(cases(member(name), drawing, count=picked.count(name))) for name in set(picked)}
    mixed = [(name, next(drawn[name])) for name in picked]
    return tuple(replace(case, facts=replace(case.facts, tags={**case.facts.tags, "mix": scenario.name})) for _, case in mixed)
