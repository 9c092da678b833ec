"""How many tokens each line of a document costs, read off the token ids that one /tokenize call returned.

A tokenizer that is not known can't be asked for prefix sums, but its ids can: the id that ends every line (a newline, or a full
stop with its newline) recurs once a line, and the distances between its places are the lines' costs. Which id that is shows in
the lines themselves: its distances follow their lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SPARE = 64
"""How often the ending may occur outside the lines (in the chat template, in the question)."""

COMPARED = 400
"""Lines whose lengths are compared with the distances."""

ALIKE = 0.2
"""Least correlation between distances and lengths; lines shifted by one have about none."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Tokens of each line, and of everything around the lines together (template, header, question).

    `before` are the tokens that stand before the first line. `read` says whether the costs were read off the ids; otherwise
    they are shares of the total by length, and only the total is exact.
    """

    lines: tuple[int, ...]
    before: int
    around: int
    read: bool


def costs(lines: Sequence[str], total: int, ids: Sequence[int] | None, *, around_chars: tuple[int, int]) -> Costs:
    """The costs of consecutive `lines` in a prompt of `total` tokens whose header ends like a line.

    `around_chars` are the characters before and after the lines, for the case that the ids can't be read.
    """
    lengths = np.array([len(line.encode()) for line in lines], dtype=np.int64)
    ends = None if ids is None else _line_ends(np.asarray(ids, dtype=np.int64), lengths)
    if ends is not None:
        per_line = np.diff(ends)
        return Costs(lines=tuple(per_line.tolist()), before=int(ends[0]) + 1, around=total - int(per_line.sum()), read=True)
    before, after = around_chars
    rate = total / (int(lengths.sum()) + before + after)
    edges = np.rint((before + np.concatenate(([0], np.cumsum(lengths)))) * rate).astype(np.int64)
    per_line = np.diff(edges)
    return Costs(lines=tuple(per_line.tolist()), before=int(edges[0]), around=total - int(per_line.sum()), read=False)


def _line_ends(ids: Integers, lengths: Integers) -> Integers | None:
    """Places of the ends of the header and of each line; `None` if no id recurs that way."""
    wanted = len(lengths) + 1
    values, counts = np.unique(ids, return_counts=True)
    candidates = values[(counts >= wanted) & (counts <= wanted + SPARE)]
    found: list[tuple[float, Integers]] = []
    for value in candidates.tolist():
        places = np.flatnonzero(ids == value)
        for first in range(len(places) - wanted + 1):
            window = places[first : first + wanted]
            found.append((_likeness(np.diff(window)[:COMPARED], lengths[:COMPARED]), window))
    if not found:
        return None
    likeness, best = max(found, key=lambda each: each[0])
    return best if likeness >= ALIKE else None


def _likeness(distances: Integers, lengths: Integers) -> float:
    """Correlation; where all distances are equal there is nothing to compare, and any place is as good."""
    if distances.std() == 0 or lengths.std() == 0:
        return ALIKE if len(set(distances.tolist())) == 1 else 0.0
    return float(np.corrcoef(distances, lengths)[0, 1])
