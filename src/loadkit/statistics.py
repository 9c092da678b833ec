"""Distributions that can be merged: exact values per request, a log-linear histogram for gaps, and a test for a trend.

Percentiles are nearest rank, so each is a value that was observed. A percentile p is given only from ceil(ln 0.05 / ln p)
values on (p90 from 29, p95 from 59, p99 from 299): with fewer, the chance that not one value lies above the true percentile
exceeds 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHOWN = (0.9, 0.95, 0.99)
"""The percentiles of tables, each only where the count allows."""

_SUB_BUCKET_BITS = 11  # 1024 buckets an octave: a bucket's middle is within 0.05 % of each of its values


def minimum_count(p: float) -> int:
    """Number of values from which on percentile `p` (0.5 < p < 1) is given; 1 for the median and below."""
    return 1 if p <= 0.5 else math.ceil(math.log(0.05) / math.log(p))


def nearest_rank(values: Sequence[float], p: float) -> float:
    """The ceil(p·n)-th smallest of sorted `values` (n ≥ 1), 0 < p ≤ 1."""
    return values[max(math.ceil(p * len(values) - 1e-9), 1) - 1]


@dataclass(frozen=True, slots=True)
class Distribution:
    """All values of one figure, sorted; `failed` requests have no value and count as infinity in the second view."""

    values: tuple[float, ...] = ()
    failed: int = 0

    @classmethod
    def of(cls, values: Iterable[float | None], *, failed: int = 0) -> Distribution:
        """From values in any order; `None` does not apply and is left out."""
        return cls(tuple(sorted(value for value in values if value is not None)), failed)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def minimum(self) -> float | None:
        return self.values[0] if self.values else None

    @property
    def median(self) -> float | None:
        return nearest_rank(self.values, 0.5) if self.values else None

    @property
    def maximum(self) -> float | None:
        return self.values[-1] if self.values else None

    def percentile(self, p: float) -> float | None:
        """Nearest rank; `None` with fewer than `minimum_count(p)` values."""
        return nearest_rank(self.values, p) if len(self.values) >= minimum_count(p) else None

    def with_failures(self, p: float) -> float | None:
        """The same percentile with each failed request as +infinity (`math.inf`); `None` with too few requests."""
        total = len(self.values) + self.failed
        if total < minimum_count(p):
            return None
        rank = max(math.ceil(p * total - 1e-9), 1)
        return self.values[rank - 1] if rank <= len(self.values) else math.inf

    def merged(self, other: Distribution) -> Distribution:
        """Both together; associative and commutative."""
        return Distribution(tuple(merge(self.values, other.values)), self.failed + other.failed)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of non-negative integers (nanoseconds) in log-linear buckets, as HdrHistogram has them: error ≤ 0.1 %.

    Filled by numpy in one go: a run of 10,000 answers has five million gaps, which the hdrhistogram package would take value by
    value (8 s, against 0.2 s). The tests check this one against it.

    `buckets` are pairs (bucket, count), sorted. Count, sum, minimum and maximum are exact. `above` counts the values over the
    limit that was given when the histogram was made (stalls).
    """

    buckets: tuple[tuple[int, int], ...] = ()
    count: int = 0
    total: int = 0
    minimum: int | None = None
    maximum: int | None = None
    above: int = 0

    @classmethod
    def of(
        cls,
        values: NDArray | Sequence[float],  # type: ignore[type-arg]
        *,
        weights: NDArray | Sequence[int] | None = None,  # type: ignore[type-arg]
        limit: int | None = None,
    ) -> Histogram:
        """From values in any order (rounded to whole nanoseconds, negative ones count as 0), each `weights` times."""
        import numpy as np

        whole = np.maximum(np.rint(np.asarray(values, dtype=np.float64)), 0).astype(np.int64)
        if not whole.size:
            return cls()
        times = np.ones(whole.size, dtype=np.int64) if weights is None else np.asarray(weights, dtype=np.int64)
        shift = np.maximum(np.frexp(whole.astype(np.float64))[1] - _SUB_BUCKET_BITS, 0)
        index = (shift << (_SUB_BUCKET_BITS - 1)) + (whole >> shift)
        counts = np.bincount(index, weights=times).astype(np.int64)  # float64 sums are exact up to 2^53
        found = np.flatnonzero(counts)
        return cls(
            buckets=tuple(zip(found.tolist(), counts[found].tolist(), strict=True)),
            count=int(times.sum()),
            total=int((whole * times).sum()),
            minimum=int(whole.min()),
            maximum=int(whole.max()),
            above=0 if limit is None else int(times[whole > limit].sum()),
        )

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def median(self) -> float | None:
        return self.percentile(0.5)

    def percentile(self, p: float) -> float | None:
        """Nearest rank to within 0.1 %; `None` with fewer than `minimum_count(p)` values."""
        if self.count < minimum_count(p) or self.minimum is None or self.maximum is None:
            return None
        rank = max(math.ceil(p * self.count - 1e-9), 1)
        passed = 0
        for bucket, count in self.buckets:
            passed += count
            if passed >= rank:
                return min(max(_middle(bucket), self.minimum), self.maximum)
        return self.maximum

    def merged(self, other: Histogram) -> Histogram:
        """Both together; associative and commutative."""
        if not self.count or not other.count:
            return self if self.count else other
        counts = dict(self.buckets)
        for bucket, count in other.buckets:
            counts[bucket] = counts.get(bucket, 0) + count
        return Histogram(
            buckets=tuple(sorted(counts.items())),
            count=self.count + other.count,
            total=self.total + other.total,
            minimum=min(value for value in (self.minimum, other.minimum) if value is not None),
            maximum=max(value for value in (self.maximum, other.maximum) if value is not None),
            above=self.above + other.above,
        )


@dataclass(frozen=True, slots=True)
class Trend:
    """Whether values drift: two-sided p of the Mann-Kendall test, and the Theil-Sen change over the whole span (a ratio)."""

    p: float
    change: float


def trend(values: Sequence[float]) -> Trend | None:
    """The drift of `values` in order of time; `None` for fewer than 8 values or a median of 0.

    Mann (1945), Kendall (1975): S = number of rising pairs − falling pairs, normal with variance n(n−1)(2n+5)/18 without ties.
    Theil-Sen: median of the pairwise slopes. At most 500 evenly spaced values are used: the test is quadratic.
    """
    import numpy as np

    series = np.asarray(values, dtype=np.float64)
    if series.size > 500:
        series = series[np.linspace(0, series.size - 1, 500).round().astype(int)]
    n = series.size
    if n < 8 or not (middle := float(np.median(series))):
        return None
    first, second = np.triu_indices(n, 1)
    rises = series[second] - series[first]
    s = float(np.sign(rises).sum())
    _, ties = np.unique(series, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    z = 0.0 if variance <= 0 else (s - math.copysign(1, s)) / math.sqrt(variance) if s else 0.0
    slope = float(np.median(rises / (second - first)))
    return Trend(p=math.erfc(abs(z) / math.sqrt(2)), change=slope * (n - 1) / middle)


def _middle(bucket: int) -> float:
    half = 1 << (_SUB_BUCKET_BITS - 1)
    if bucket < 2 * half:
        return bucket
    shift = bucket // half - 1
    return (bucket - shift * half + 0.5) * float(1 << shift) - 0.5
