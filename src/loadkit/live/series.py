"""A series of points that never grows beyond its bound: when it is full, neighbours are merged and the step doubles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Point = Mapping[str, float | None]
Merge = Callable[[Sequence[float]], float]


def mean(values: Sequence[float]) -> float:
    """The middle of what was merged."""
    return sum(values) / len(values)


class Series:
    """Points in time with named columns, at most `most` of them.

    `merges` says per column what two neighbours become (the minimum keeps a dip of memory, the maximum a peak of latency);
    other columns take the mean. `generation` rises whenever points that were already given out have changed.
    """

    def __init__(self, columns: Sequence[str], *, most: int = 720, merges: Mapping[str, Merge] | None = None):
        self.columns = tuple(columns)
        self.generation = 0
        self._most = most
        self._merges = dict(merges or {})
        self._times: list[float] = []
        self._values: list[tuple[float | None, ...]] = []
        self._held: list[tuple[float, tuple[float | None, ...]]] = []
        self._fold = 1

    def __len__(self) -> int:
        return len(self._times)

    def clear(self) -> None:
        self._times, self._values, self._held, self._fold = [], [], [], 1
        self.generation += 1

    def add(self, at_s: float, point: Point) -> None:
        """One point; it shows once as many are there as one step of the series holds."""
        self._held.append((at_s, tuple(point.get(name) for name in self.columns)))
        if len(self._held) < self._fold:
            return
        self._times.append(self._held[-1][0])
        self._values.append(self._merged([values for _, values in self._held]))
        self._held = []
        if len(self._times) > self._most:
            self._halve()

    def since(self, number: int) -> tuple[list[float], dict[str, list[float | None]]]:
        """Times and columns of the points from `number` on."""
        values = self._values[number:]
        return self._times[number:], {name: [row[place] for row in values] for place, name in enumerate(self.columns)}

    def _halve(self) -> None:
        if len(self._times) % 2:  # the one without a partner waits for the next points
            self._held = [(self._times.pop(), self._values.pop())]
        pairs = range(0, len(self._times), 2)
        self._values = [self._merged(self._values[first : first + 2]) for first in pairs]
        self._times = [self._times[first + 1] for first in pairs]
        self._fold *= 2
        self.generation += 1

    def _merged(self, rows: Sequence[tuple[float | None, ...]]) -> tuple[float | None, ...]:
        return tuple(self._cell(name, [row[place] for row in rows]) for place, name in enumerate(self.columns))

    def _cell(self, name: str, cells: Sequence[float | None]) -> float | None:
        known = [cell for cell in cells if cell is not None]
        return self._merges.get(name, mean)(known) if known else None
