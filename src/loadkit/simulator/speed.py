"""How long a step of the simulated engine takes, and the named presets.

A step costs `overhead + decode(batch) + prefill`:

    decode(b)   = mean tokens per step / tokens per second of one stream at batch size b
    prefill     = prefill_overhead + new tokens / prefill rate + context_ns × tokens of context behind them

The last term is what a chunk of a long prefill pays for the attention over everything before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A timing model. `streams` maps batch size → output tokens per second of one stream; between them linear in the
    step's time, beyond the last by its slope. `prefill_rate` is tokens per second; 0 everywhere means no time at all."""

    streams: dict[int, float] = field(default_factory=dict)
    prefill_rate: float = 0.0
    prefill_overhead_s: float = 0.0
    context_s: float = 0.0

    def faster(self, factor: float) -> Speed:
        """The same shape, `factor` times as fast."""
        return replace(
            self,
            streams={batch: rate * factor for batch, rate in self.streams.items()},
            prefill_rate=self.prefill_rate * factor,
            prefill_overhead_s=self.prefill_overhead_s / factor,
            context_s=self.context_s / factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A speed with the server settings that belong to it."""

    speed: Speed
    block_size: int = 16
    drafts: int = 0
    acceptance: float = 0.0
    draft_method: str = "ngram"
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int = 131_072
    kv_blocks: int = 32_768
    enforce_eager: bool = True
    sentence: str = ""


SPARK_SERVER = {
    "block_size": 1600,
    "drafts": 2,
    "acceptance": 0.6,
    "draft_method": "mtp",
    "max_num_seqs": 4,
    "max_model_len": 262_144,
    "kv_blocks": 640,
}

PRESETS: dict[str, Preset] = {
    "spark": Preset(
        sentence="DGX Spark, eager, MTP 2: 2,000 tok/s prefill (and 0.25 s), 30 tok/s a stream, 43 / 67 in all at 2 / 4 ways",
        speed=Speed(streams={1: 30.03, 2: 21.85, 4: 17.1}, prefill_rate=2290, prefill_overhead_s=0.25, context_s=2e-6),
        **SPARK_SERVER,  # type: ignore[arg-type]
    ),
    "spark-graph": Preset(
        sentence="the same with CUDA graphs: 31 tok/s a stream, 47 / 72 at 2 / 4 ways",
        speed=Speed(streams={1: 31.36, 2: 24.0, 4: 18.2}, prefill_rate=2290, prefill_overhead_s=0.25, context_s=2e-6),
        enforce_eager=False,
        **SPARK_SERVER,  # type: ignore[arg-type]
    ),
    "fast": Preset(
        sentence="quick enough to try things: 250 tok/s a stream (200 at 4 ways), 20,000 tok/s prefill (and 0.07 s)",
        speed=Speed(streams={1: 250, 2: 233, 4: 200, 8: 160}, prefill_rate=20_000, prefill_overhead_s=0.07),
    ),
    "instant": Preset(sentence="no waiting at all: as fast as this machine can write", speed=Speed(), max_num_seqs=1024),
}


def step_ns(speed: Speed, *, decoding: int, prefill_tokens: int, context_tokens: int, tokens_per_step: float) -> int:
    """Nanoseconds of one step.

    Args:
        speed: the timing model.
        decoding: sequences that produce output tokens in this step.
        prefill_tokens: prompt tokens computed in this step.
        context_tokens: tokens that lie before them in their sequences.
        tokens_per_step: mean output tokens of one sequence per step (more than 1 with speculative decoding).
    """
    seconds = tokens_per_step * seconds_per_token(speed.streams, decoding) if decoding else 0.0
    if prefill_tokens:
        seconds += speed.prefill_overhead_s + context_tokens * speed.context_s
        if speed.prefill_rate:
            seconds += prefill_tokens / speed.prefill_rate
    return int(seconds * 1e9)


def seconds_per_token(streams: dict[int, float], batch: int) -> float:
    """Time per output token of one stream at a batch size: linear between the given sizes and beyond the last."""
    if not streams:
        return 0.0
    rate = streams.get(batch)
    if rate is not None:
        return 1.0 / rate
    sizes = sorted(streams)
    if len(sizes) == 1 or batch < sizes[0]:
        return 1.0 / streams[sizes[0]]
    above = next((index for index, size in enumerate(sizes) if size > batch), len(sizes) - 1)
    low, high = sizes[above - 1], sizes[above]
    slope = (1.0 / streams[high] - 1.0 / streams[low]) / (high - low)
    return 1.0 / streams[low] + slope * (batch - low)
