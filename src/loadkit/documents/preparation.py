"""Before the first request: documents of every rung made, fitted and saved, or read back from an earlier run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadkit.case import Case
from loadkit.documents import inputs as saved
from loadkit.documents.asking import Cache, cases
from loadkit.documents.document import Form, fit
from loadkit.documents.inputs import Inputs, SavedDocument
from loadkit.errors import UsageError
from loadkit.request import Target
from loadkit.scenario import Drawing, Scenario, load
from loadkit.scenario.file import locate
from loadkit.scenario.schema import Archive
from loadkit.server import Server
from loadkit.tokens import ServerTokenizer, Tokenizer, bundled_estimate

K = 1024
MARGIN_TOKENS = 128
"""Kept free below max_model_len, beside the budget: questions differ by a few tokens."""


def rung_tokens(rung_k: float, *, budget: int, max_model_len: int | None) -> int:
    """min(K·1024, max_model_len − budget − 128), in tokens."""
    asked = round(rung_k * K)
    return asked if max_model_len is None else min(asked, max_model_len - budget - MARGIN_TOKENS)


async def prepare(
    scenario: Scenario, drawing: Drawing, tokenizer: Tokenizer, *, target: Target, folder: Path, rungs_k: Sequence[float] = ()
) -> Inputs:
    """Make, fit and save the documents of a scenario. `rungs_k` takes the place of the scenario's own.

    Rungs that the server's limit makes equal are made once; what was left out is in `notes`.

    Raises:
        UsageError: the scenario has no archive, a rung is too short, the folder can't be written, /tokenize fails.
    """
    archive = _archive(scenario)
    budget = drawing.budget(scenario)
    lengths, notes = _lengths(rungs_k or archive.rungs_k, budget, target.max_model_len)
    form = Form(
        language=archive.language,
        depths=archive.depths,
        questions=archive.questions,
        distractors=archive.distractors,
        system=scenario.system,
        template=scenario.template,
    )
    documents: list[SavedDocument] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for tier, tokens in lengths.items():
            for number in range(1, archive.documents + 1):
                seed = f"{drawing.seed}/{scenario.name}/{tier}/{number}"
                document = await fit(form, tokenizer, tokens=tokens, seed=seed)
                documents.append(saved.save_document(folder, scenario.name, tier, number, document))
        inputs = Inputs(
            scenario=scenario.name,
            model=target.model,
            seed=drawing.seed,
            budget=budget,
            template=scenario.template,
            exact=tokenizer.exact,
            documents=tuple(documents),
            notes=notes,
        )
        saved.save(folder, inputs)
    except OSError as problem:
        raise UsageError(
            f"can't write inputs: {problem.strerror}", where=str(folder), remedy="choose another --run-dir"
        ) from problem
    return inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What `archive_cases` gives: the cases in order, the scenario's file, and sentences about what was left out."""

    cases: tuple[Case, ...]
    file: str
    notes: tuple[str, ...] = field(default=())


async def archive_cases(
    *,
    scenario: str,
    target: dict[str, Any],
    folder: str,
    scenarios: str | None = None,
    inputs: str | None = None,
    rungs_k: Sequence[float] = (),
    drawing: dict[str, Any] | None = None,
    cache: dict[str, Any] | None = None,
    counts_agree: bool | None = None,
) -> Preparation:
    """`prepare` and `cases` in one call with plain JSON arguments, for a process of its own.

    `target` holds the fields of `Target` but the key, which comes from the environment; `folder` is where inputs are saved;
    `inputs` names a folder of saved inputs to replay instead; `counts_agree` is what preflight found about /tokenize.

    Raises:
        UsageError: any mistake, before the first request.
    """
    if counts_agree is False:
        raise UsageError(
            "/tokenize counts prompts differently from the server itself, so that no length could be planned",
            where=str(target.get("base_url")),
            remedy="serve with a chat template that takes its arguments from chat_template_kwargs (see --preflight-only)",
        )
    file = locate(scenario, None if scenarios is None else Path(scenarios))
    loaded = load(file)
    drawn = Drawing(**(drawing or {}))
    server_target = Target(**{**target, "api_key": os.environ.get("OPENAI_API_KEY")})
    place = Path(folder)
    if inputs is not None:
        made = _replayed(Path(inputs), place, loaded, rungs_k)
    else:
        async with Server(server_target) as server:
            tokenizer = ServerTokenizer(server) if server.speaks.tokenize else bundled_estimate()
            made = await prepare(loaded, drawn, tokenizer, target=server_target, folder=place, rungs_k=rungs_k)
    _check_limits(made, drawn.budget(loaded), server_target.max_model_len)
    asked = cases(made, place, loaded, drawn, Cache(**(cache or {})))
    return Preparation(cases=asked, file=str(file), notes=made.notes)


def _replayed(source: Path, folder: Path, scenario: Scenario, rungs_k: Sequence[float]) -> Inputs:
    inputs = saved.load(source, scenario.name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        saved.copy(source, folder, inputs)
    except OSError as problem:
        raise UsageError(f"can't write inputs: {problem.strerror}", where=str(folder)) from problem
    if not rungs_k:
        return inputs
    wanted = {_tier(rung) for rung in rungs_k}
    kept = tuple(document for document in inputs.documents if document.tier in wanted)
    if not kept:
        there = ", ".join(dict.fromkeys(document.tier for document in inputs.documents))
        raise UsageError(f"the saved inputs have no rung of {sorted(wanted)}", where="--rungs", remedy=f"there are {there}")
    return Inputs(**{**_fields(inputs), "documents": kept})


def _fields(inputs: Inputs) -> dict[str, Any]:
    return {name: getattr(inputs, name) for name in Inputs.__slots__}


def _check_limits(inputs: Inputs, budget: int, max_model_len: int | None) -> None:
    """prompt + budget ≤ max_model_len, before anything is sent: vLLM 0.32 would clamp the budget in silence."""
    if max_model_len is None:
        return
    for document in inputs.documents:
        longest = max(question.planned_tokens for question in document.questions)
        if longest + budget > max_model_len:
            raise UsageError(
                f"{document.file} makes a prompt of {longest} tokens; with a budget of {budget} that is over the server's "
                f"limit of {max_model_len}",
                where=inputs.scenario,
                remedy="leave this rung out with --rungs, lower --long-max-tokens, or raise the server's --max-model-len",
            )


def _archive(scenario: Scenario) -> Archive:
    if scenario.archive is None:
        raise UsageError(
            "has no archive", where=f"scenario {scenario.name}", remedy="add `archive:`, see the scenario reference"
        )
    return scenario.archive


def _lengths(rungs_k: Sequence[float], budget: int, max_model_len: int | None) -> tuple[dict[str, int], tuple[str, ...]]:
    """Tokens by tier, shortest first, each length once. A rung beyond the server's limit is called by that limit."""
    lengths: dict[str, int] = {}
    notes: list[str] = []
    for rung in sorted(set(rungs_k)):
        tokens = rung_tokens(rung, budget=budget, max_model_len=max_model_len)
        if tokens <= 0 or tokens in lengths.values():
            notes.append(f"{_tier(rung)} left out: the server's limit of {max_model_len} tokens leaves no such length")
        elif max_model_len is not None and rung * 1024 > max_model_len:
            longest = _tier(max_model_len // 1024)
            lengths[longest] = tokens
            notes.append(f"{longest} in place of {_tier(rung)}: the server's limit is {max_model_len} tokens")
        else:
            lengths[_tier(rung)] = tokens
    if not lengths:
        raise UsageError(
            f"no rung fits into {max_model_len} tokens with a budget of {budget}", where="--rungs", remedy="lower the budget"
        )
    return lengths, tuple(notes)


def _tier(rung_k: float) -> str:
    return f"{rung_k:g}K"
