"""Lines arranged so that needles stand at exact depths and the document has an exact number of tokens.

The document is cut into segments at the needles. Each segment takes lines until a few are left, and closes with a handful whose
costs add up to what is missing: lines differ in length, so nearly every sum can be made of them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadkit.errors import UsageError

CLOSING = 12
"""Lines' worth of tokens that the closing handful makes up."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its cost in tokens."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Needle:
    """A line that has to begin at `at` tokens from the document's beginning."""

    line: Line
    at: int


class Stock:
    """Lines not used yet, drawn in order or by cost."""

    def __init__(self, lines: Sequence[Line]):
        self._lines = list(lines)
        self._used = [False] * len(self._lines)
        self._next = 0
        self._by_cost: dict[int, list[int]] = defaultdict(list)
        for index in range(len(self._lines) - 1, -1, -1):
            self._by_cost[self._lines[index].tokens].append(index)
        self.mean = sum(line.tokens for line in lines) / max(1, len(lines))

    def take(self) -> Line:
        """The next line in order.

        Raises:
            UsageError: there are no more; the archive was made too small, which is a bug unless the tokenizer is odd.
        """
        while self._next < len(self._lines):
            index = self._next
            self._next += 1
            if not self._used[index]:
                self._used[index] = True
                return self._lines[index]
        raise UsageError("the archive has too few records for this length", remedy="report which tokenizer the server uses")

    def take_sum(self, total: int) -> list[Line] | None:
        """Lines whose costs add up to `total`; `None` if no choice of at most a few dozen does."""
        choice = _sum_of(total, {cost: self._left(cost) for cost in self._by_cost})
        if choice is None:
            return None
        return [self._take_cost(cost) for cost in choice]

    def _left(self, cost: int) -> int:
        indices = self._by_cost[cost]
        while indices and self._used[indices[-1]]:
            indices.pop()
        return min(len(indices), 2 * CLOSING)

    def _take_cost(self, cost: int) -> Line:
        indices = self._by_cost[cost]
        while self._used[indices[-1]]:
            indices.pop()
        index = indices.pop()
        self._used[index] = True
        return self._lines[index]


def arrange(
    stock: Stock, needles: Sequence[Needle], scattered: Sequence[Line], *, start: int, end: int, rng: random.Random
) -> list[Line]:
    """All lines of a document in order: `start` tokens stand before them, the last one ends at `end` tokens.

    `needles` are in order of `at`; `scattered` lines are spread over the segments in proportion to their lengths. Segments too
    short for an exact sum take the nearest one; they are filled from both ends, and the longest segment takes up the rest, so
    that the whole is exact.

    Raises:
        UsageError: the length is too short for what has to stand in it.
    """
    edges = [start, *(needle.at for needle in needles), end]
    share = _spread(scattered, edges, rng)
    longest = max(range(len(edges) - 1), key=lambda index: edges[index + 1] - edges[index])
    filled: dict[int, list[Line]] = {}
    left = start
    for index in range(longest):
        filled[index] = _segment(stock, share[index], needles[index].at - left, rng)
        left += _tokens(filled[index]) + needles[index].line.tokens
    right = end
    for index in range(len(needles), longest, -1):
        needle = needles[index - 1]
        filled[index] = _segment(stock, share[index], right - needle.at - needle.line.tokens, rng)
        right -= _tokens(filled[index]) + needle.line.tokens
    filled[longest] = _segment(stock, share[longest], right - left, rng, exact=True)
    lines: list[Line] = []
    for index in range(len(edges) - 1):
        lines += filled[index]
        lines += [needles[index].line] if index < len(needles) else []
    return lines


def _tokens(lines: Sequence[Line]) -> int:
    return sum(line.tokens for line in lines)


def _segment(stock: Stock, inside: list[Line], tokens: int, rng: random.Random, *, exact: bool = False) -> list[Line]:
    """Lines of `tokens` together with those that have to be inside; of nearly as many where that is enough."""
    taken = list(inside)
    left = tokens - _tokens(taken)
    while left > CLOSING * stock.mean:
        line = stock.take()
        taken.append(line)
        left -= line.tokens
    closing = stock.take_sum(left) if left >= 0 else None
    if closing is None and exact:
        raise UsageError(f"no choice of records adds up to {tokens} tokens", remedy="choose a longer rung")
    taken += _nearest(stock, left) if closing is None else closing
    rng.shuffle(taken)
    return taken


def _nearest(stock: Stock, tokens: int) -> list[Line]:
    """The nearest sum that can be made, above or below."""
    for away in range(1, int(2 * stock.mean)):
        for total in (tokens - away, tokens + away):
            found = stock.take_sum(total) if total >= 0 else None
            if found is not None:
                return found
    return []


def _sum_of(total: int, stock: dict[int, int]) -> list[int] | None:
    """Costs, each at most as often as in stock, that add up to `total`: the fewest distinct ones first."""
    if total == 0:
        return []
    costs = sorted((cost for cost, count in stock.items() if count > 0 and cost > 0), key=lambda cost: -stock[cost])[:24]
    reach: dict[int, tuple[int, int]] = {0: (0, 0)}  # sum → (the cost that was added last, how many of it)
    for cost in costs:
        for before in sorted(reach):
            for count in range(1, stock[cost] + 1):
                after = before + count * cost
                if after > total:
                    break
                reach.setdefault(after, (cost, count))
        if total in reach:
            return _walk_back(reach, total)
    return None


def _walk_back(reach: dict[int, tuple[int, int]], total: int) -> list[int]:
    chosen: list[int] = []
    while total:
        cost, count = reach[total]
        chosen += [cost] * count
        total -= cost * count
    return chosen


def _spread(scattered: Sequence[Line], edges: Sequence[int], rng: random.Random) -> list[list[Line]]:
    """Which segment each scattered line goes to, drawn with the segments' lengths as weights."""
    room = [max(0, upto - begin) for begin, upto in pairwise(edges)]
    share: list[list[Line]] = [[] for _ in room]
    for line in scattered:
        fitting = [index for index in range(len(room)) if room[index] > 3 * line.tokens]
        if not fitting:
            raise UsageError("the length is too short for the needles and their near-duplicates", remedy="choose a longer rung")
        chosen = rng.choices(fitting, weights=[room[index] for index in fitting])[0]
        share[chosen].append(line)
        room[chosen] -= line.tokens
    return share
