"""How many tokens each line of a document costs, read off the token ids that one /tokenize call returned.

A tokenizer that is not known can't be asked for prefix sums, but its ids can: the id that ends every line (a newline, or a full
stop with its newline) recurs once a line, and the distances between its places are the lines' costs. Other ids may recur once a
line too. Which one ends them shows in the lines themselves: its distances follow from what each line is made of, its digits,
letters and signs, while those of an id inside the lines mix every two neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SPARE = 64
"""How often the ending may occur outside the lines (in the chat template, in the question)."""

COMPARED = 400
"""Lines that are compared with the distances."""

ALIKE = 0.2
"""Least multiple correlation of distances with what the lines are made of; lines shifted by one have about none."""

MADE_OF = (str.isdigit, str.isupper, str.islower, str.isalpha)
"""Kinds of characters that tokenizers treat differently; a character counts for the first that it is."""

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


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
    ends = None if ids is None else _line_ends(np.asarray(ids, dtype=np.int64), lines)
    if ends is not None:
        per_line = np.diff(ends)
        return Costs(lines=tuple(per_line.tolist()), before=int(ends[0]) + 1, around=total - int(per_line.sum()), read=True)
    before, after = around_chars
    rate = total / (int(lengths.sum()) + before + after)
    edges = np.rint((before + np.concatenate(([0], np.cumsum(lengths)))) * rate).astype(np.int64)
    per_line = np.diff(edges)
    return Costs(lines=tuple(per_line.tolist()), before=int(edges[0]), around=total - int(per_line.sum()), read=False)


def _line_ends(ids: Integers, lines: Sequence[str]) -> Integers | None:
    """Places of the ends of the header and of each line; `None` if no id recurs that way."""
    wanted = len(lines) + 1
    values, counts = np.unique(ids, return_counts=True)
    candidates = values[(counts >= wanted) & (counts <= wanted + SPARE)]
    made_of = _made_of(lines[:COMPARED])
    found: list[tuple[float, Integers]] = []
    for value in candidates.tolist():
        places = np.flatnonzero(ids == value)
        for first in range(len(places) - wanted + 1):
            window = places[first : first + wanted]
            found.append((_likeness(np.diff(window)[:COMPARED], made_of), window))
    if not found:
        return None
    likeness, best = max(found, key=lambda each: each[0])
    return best if likeness >= ALIKE else None


def _made_of(lines: Sequence[str]) -> Numbers:
    """A row per line: a one, and how many characters of each kind it has, others last."""
    rows = []
    for line in lines:
        row = [1.0] + [0.0] * (len(MADE_OF) + 1)
        for character in line:
            row[1 + next((place for place, kind in enumerate(MADE_OF) if kind(character)), len(MADE_OF))] += 1
        rows.append(row)
    return np.array(rows)


def _likeness(distances: Integers, made_of: Numbers) -> float:
    """Multiple correlation, adjusted for the number of kinds; where all distances are equal any place is as good."""
    if distances.std() == 0:
        return ALIKE
    weights, *_ = np.linalg.lstsq(made_of, distances, rcond=None)
    lines, kinds = made_of.shape
    unexplained = float((distances - made_of @ weights).var() / distances.var())
    return float(np.sqrt(max(0.0, 1 - unexplained * (lines - 1) / max(1, lines - kinds))))
