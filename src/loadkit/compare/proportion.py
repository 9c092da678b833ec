"""Shares of right answers: an interval for each side, for their difference, and a test that fits how items were asked."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`right` of `total`, with its Wilson interval; `total` is at least 1."""

    right: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.right / self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Share of B − share of A, between −1 and 1, with Newcombe's interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTest:
    """Which test was made, on what, and its two-sided p."""

    name: Literal["McNemar", "Fisher", "Boschloo"]
    p: float
    only_a_right: int | None = None
    only_b_right: int | None = None


def share(right: int, total: int, *, alpha: float = 0.05) -> Share:
    """Wilson's score interval (Wilson 1927), which stays inside 0–1 and works at 12 of 12.

    Raises:
        ValueError: `total` is 0 or `right` is outside 0…total.
    """
    bounds = _stats().binomtest(right, total).proportion_ci(1 - alpha, method="wilson")
    return Share(right=right, total=total, low=float(bounds.low), high=float(bounds.high))


def difference(a: Share, b: Share) -> Difference:
    """Newcombe's hybrid score interval of b − a for independent shares (Newcombe 1998, method 10)."""
    value = b.value - a.value
    down = sqrt((b.value - b.low) ** 2 + (a.high - a.value) ** 2)
    up = sqrt((b.high - b.value) ** 2 + (a.value - a.low) ** 2)
    return Difference(value=value, low=value - down, high=value + up)


def mcnemar(only_a_right: int, only_b_right: int) -> ShareTest:
    """Exact McNemar on the same items: only those count that one side got right and the other did not."""
    discordant = only_a_right + only_b_right
    p = float(_stats().binomtest(only_a_right, discordant, 0.5).pvalue) if discordant else 1.0
    return ShareTest(name="McNemar", p=p, only_a_right=only_a_right, only_b_right=only_b_right)


def fisher(a: Share, b: Share) -> ShareTest:
    """Fisher's exact test of two independent shares (conditional: conservative)."""
    return ShareTest(name="Fisher", p=float(_stats().fisher_exact(_table(a, b)).pvalue))


BOSCHLOO_MOST_ITEMS = 200
"""Boschloo's search takes seconds above this, and there it hardly differs from Fisher's any more."""


def boschloo(a: Share, b: Share) -> ShareTest | None:
    """Boschloo's exact test (twice the smaller one-sided p), less conservative than Fisher's; `None` where it takes long."""
    if a.total + b.total > BOSCHLOO_MOST_ITEMS:
        return None
    if a.value == b.value and a.value in (0.0, 1.0):
        return ShareTest(name="Boschloo", p=1.0)  # nothing to search, and scipy divides by zero there
    return ShareTest(name="Boschloo", p=float(_stats().boschloo_exact(_table(a, b)).pvalue))


def _table(a: Share, b: Share) -> list[list[int]]:
    return [[a.right, b.right], [a.total - a.right, b.total - b.right]]


def _stats() -> Any:
    """Imported when answers are compared: it takes longer than all else that `loadkit compare` does."""
    from scipy import stats

    return stats
