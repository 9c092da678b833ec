"""`Settings`: everything about one simulated server that is fixed when it starts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loadkit.errors import UsageError
from loadkit.simulator.faults.table import parse
from loadkit.simulator.speed import PRESETS, Preset, Speed

VERSION = "0.32.0"
"""The vLLM whose wire, errors and metrics are simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How the simulated model answers: rates in 0..1, drawn per request from its seed.

    `wrong`, `refused`, `hedged` and `overthinking` are shares of requests; what is left is answered rightly where the
    answer can be found in the prompt. `thinking_tokens` is the median length of the thinking.
    """

    wrong: float = 0.0
    refused: float = 0.0
    hedged: float = 0.0
    overthinking: float = 0.0
    thinking_tokens: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One simulated server. Names follow vLLM's flags where there is one."""

    model: str = "loadkit-sim"
    host: str = "127.0.0.1"
    port: int = 8000
    root_path: str = ""
    api_key: str | None = None
    preset: str = "fast"
    speed: Speed = field(default_factory=Speed)
    max_model_len: int = 131_072
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None
    block_size: int = 16
    kv_blocks: int = 32_768
    prefix_caching: bool = True
    drafts: int = 0
    acceptance: float = 0.0
    draft_method: str = "ngram"
    stream_interval: int = 1
    spread: bool = False
    keep_alive_interval_s: float = 0.0
    reasoning: bool = True
    tools: bool = True
    prompt_tokens_details: bool = True
    force_include_usage: bool = False
    per_request_metrics: bool = False
    clamp_max_tokens: bool = True
    dev_mode: bool = False
    enforce_eager: bool = True
    manners: Manners = field(default_factory=Manners)
    faults: tuple[str, ...] = ()
    header_faults: bool = False
    truth: Path | None = None

    @property
    def tokens_per_step(self) -> float:
        """Mean output tokens of a sequence per step: 1 + a + a² … for `drafts` drafts, each accepted with rate a."""
        return sum(self.acceptance**position for position in range(self.drafts + 1)) if self.drafts else 1.0

    @property
    def fingerprint(self) -> str:
        """vLLM's system_fingerprint: version and a hash of the configuration, so it differs between configurations."""
        facts = (
            self.model,
            self.preset,
            self.max_model_len,
            self.block_size,
            self.drafts,
            self.enforce_eager,
            self.prefix_caching,
        )
        return f"vllm-{VERSION}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:8]}"


def settings_from(preset: str, *, factor: float = 1.0, pace_s: float | None = None, **given: Any) -> Settings:
    """Settings of a preset, `factor` times as fast, with what was given explicitly (`None` leaves the preset's value).

    `pace_s` is the length of a step at any batch size, instead of the preset's decode speed.

    Raises:
        UsageError: an unknown preset or fault, a speed factor that is not positive, too few KV blocks for one sequence.
    """
    known = PRESETS.get(preset)
    if known is None:
        raise UsageError(f"no preset is named {preset!r}", where="--preset", remedy=f"choose one of {', '.join(PRESETS)}")
    if not 0 < factor < float("inf"):  # nan compares false with everything
        raise UsageError("the speed factor must be above 0", where="--speed", remedy="give 20 for twenty times as fast")
    chosen = {key: value for key, value in given.items() if value is not None}
    settings = Settings(preset=preset, speed=known.speed.faster(factor), **{**_server(known), **chosen})
    _check(settings)
    if pace_s is None:
        return settings
    return replace(settings, speed=replace(settings.speed, streams={1: settings.tokens_per_step / pace_s} if pace_s else {}))


def _check(settings: Settings) -> None:
    if settings.kv_blocks * settings.block_size < settings.max_model_len:
        needed = -(-settings.max_model_len // settings.block_size)
        have = f"{settings.kv_blocks} KV blocks of {settings.block_size} tokens"
        problem = f"{have} can't hold one sequence of {settings.max_model_len}"
        raise UsageError(problem, where="--kv-blocks", remedy=f"give at least {needed}, or a smaller --max-model-len")
    for written in settings.faults:
        parse(written)


def _server(preset: Preset) -> dict[str, Any]:
    return {
        "block_size": preset.block_size,
        "drafts": preset.drafts,
        "acceptance": preset.acceptance,
        "draft_method": preset.draft_method,
        "max_num_seqs": preset.max_num_seqs,
        "max_num_batched_tokens": preset.max_num_batched_tokens,
        "max_model_len": preset.max_model_len,
        "kv_blocks": preset.kv_blocks,
        "enforce_eager": preset.enforce_eager,
    }
