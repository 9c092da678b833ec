"""What an estimate lets one say: a word, how many pairs an undecided one needs, and honest p values for many metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, exp, log
from typing import Literal

from loadkit.compare.ratio import Estimate

Better = Literal["higher", "lower", "neither"]
"""Which way a metric should move; `neither` for facts like the length of answers."""

MARGIN = 0.02
"""Default δ: a difference of less than 2 % is not worth a change."""

Z_TWO_SIDED_5_PERCENT = 1.96
Z_POWER_80_PERCENT = 0.84
FEWEST_PAIRS = 6
"""The sign-flip test can't go below 2/2^n: five pairs never reach 0.05 (2/32 = .0625), six can (2/64 = .031)."""

POCOCK_ALPHA = {1: 0.05, 2: 0.0294, 3: 0.0221, 4: 0.0182, 5: 0.0158}
"""α of each of k equally spaced looks that together err 5 % of the time (Pocock 1977, table 1)."""


class Word(StrEnum):
    """What can be said of B against A on one metric."""

    BETTER = "better"
    BETTER_MAYBE_NEGLIGIBLE = "better, maybe negligible"
    WORSE = "worse"
    WORSE_MAYBE_NEGLIGIBLE = "worse, maybe negligible"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    INDICATIVE = "indicative"


DECIDED = frozenset({Word.BETTER, Word.WORSE, Word.EQUIVALENT, Word.BETTER_MAYBE_NEGLIGIBLE, Word.WORSE_MAYBE_NEGLIGIBLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The word, and where it is `inconclusive` about how many pairs would do."""

    word: Word
    pairs_needed: int | None = None


def judge(estimate: Estimate, *, better: Better, margin: float = MARGIN) -> Judgement:
    """Where the interval lies, against no effect and against ±δ.

    Above 0 and above δ → better; above 0 and crossing δ → better, maybe negligible; inside (−δ, δ) → equivalent; else
    inconclusive. Without an interval (one launch on a side) → indicative. δ is taken on the logarithm, so that B against
    A and A against B get opposite words. `neither` is judged as if higher were better.
    """
    if estimate.low is None or estimate.high is None:
        return Judgement(word=Word.INDICATIVE)
    delta = log(1 + margin)
    low, high = log(estimate.low), log(estimate.high)
    if better == "lower":
        low, high = -high, -low
    if -delta < low and high < delta:
        return Judgement(word=Word.EQUIVALENT)
    if low > 0:
        return Judgement(word=Word.BETTER if low > delta else Word.BETTER_MAYBE_NEGLIGIBLE)
    if high < 0:
        return Judgement(word=Word.WORSE if high < -delta else Word.WORSE_MAYBE_NEGLIGIBLE)
    return Judgement(word=Word.INCONCLUSIVE, pairs_needed=pairs_needed(estimate.sd_log, effect=margin))


def pairs_needed(sd_log: float | None, *, effect: float) -> int | None:
    """Pairs that find `effect` (0.02 = 2 %) four times in five at 5 %: ((1.96 + 0.84)·s / ln(1 + effect))² + 2.

    `None` where the spread is unknown.
    """
    if sd_log is None:
        return None
    return ceil(((Z_TWO_SIDED_5_PERCENT + Z_POWER_80_PERCENT) * sd_log / log(1 + effect)) ** 2) + 2


def smallest_effect(pairs: int, sd_log: float) -> float:
    """The effect (0.02 = 2 %) that so many pairs find four times in five: `pairs_needed` solved for the effect."""
    return exp((Z_TWO_SIDED_5_PERCENT + Z_POWER_80_PERCENT) * sd_log / max(pairs - 2, 1) ** 0.5) - 1


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjustment (Holm 1979): of all these, the chance that one errs stays at α."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[name] = largest
    return adjusted


def look_alpha(looks: int, *, alpha: float = 0.05) -> float:
    """α for each of `looks` equally spaced looks at the data (6/12/18 pairs: .0221).

    Raises:
        ValueError: more than five looks, or several looks at another overall α than 5 %.
    """
    if looks == 1:
        return alpha
    if looks not in POCOCK_ALPHA or alpha != POCOCK_ALPHA[1]:
        raise ValueError("looks: one at any α, or up to five at an overall α of 0.05")
    return POCOCK_ALPHA[looks]
