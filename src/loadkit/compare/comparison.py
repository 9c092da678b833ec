"""The comparison itself: from two sides to rows with intervals and words, or a refusal because more than the factor differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from itertools import chain
from statistics import median
from typing import Any, Literal

from loadkit import metrics
from loadkit.compare.answers import Answers, answers
from loadkit.compare.drift import Difference, differences, drift, unused
from loadkit.compare.judgement import DECIDED, MARGIN, Judgement, Word, holm, judge, look_alpha
from loadkit.compare.launch import Launch, Side, facts, pairs
from loadkit.compare.measure import (
    COMPARED,
    MATCHED_TPOT,
    THROUGHPUT,
    Group,
    Measure,
    group_of,
    labels_of,
    look,
    measures,
    shared_lengths,
)
from loadkit.compare.ratio import Estimate, paired, sign_flip_p, unpaired
from loadkit.compare.soundness import Soundness, soundness
from loadkit.errors import UsageError

LENGTH = "output_tokens"
DEFAULT_PRIMARY = "decode_rate"
EXIT_PASS, EXIT_SLOWER, EXIT_REFUSED, EXIT_UNDECIDED = 0, 1, 5, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of two sides, as far as the caller says it; what is `None` comes from the experiment or the defaults.

    `primary` is a metric's name, or `METRIC@GROUP` (``ttft@32K · cold``). `margin` and `slower_at_most` are shares (0.02 is
    2 %). `factors` are the names of what is meant to differ. With `allow` a comparison that would be refused goes on, and
    its verdict is capped at indicative.
    """

    primary: str | None = None
    margin: float | None = None
    alpha: float | None = None
    factors: tuple[str, ...] = ()
    allow: bool = False
    slower_at_most: float | None = None
    aborted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One metric of one group. `a` and `b` are medians over the launches' own figures (units as in `measure.look`)."""

    measure: Measure
    group: str
    a: float
    b: float
    of_a: tuple[float, ...]
    of_b: tuple[float, ...]
    estimate: Estimate
    judgement: Judgement
    p_holm: float | None = None


class Cap(StrEnum):
    """Why a verdict is indicative at most."""

    ONE_LAUNCH = "one launch per side"
    LAUNCH_UNKNOWN = "the server's start time is unknown, so that launches can't be told apart"
    DRIFT_ALLOWED = "more than the declared factor differs"
    HOST_UNSTABLE = "the host was unstable in a launch"
    INVALID = "the measurement of a launch is invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that a table, a page or a CI job needs. `rows[0]` is the primary where there is one.

    `exploratory` says that the primary metric was not named before the runs. `refused` is the drift that stopped the
    comparison: there are no rows then. `lengths_differ` are groups whose answers differ in length.
    """

    a: Side
    b: Side
    rows: tuple[Row, ...]
    answers: tuple[Answers, ...]
    soundness: tuple[Soundness, Soundness]
    factors: tuple[str, ...]
    explained: tuple[Difference, ...]
    drift: tuple[Difference, ...]
    unused_factors: tuple[str, ...]
    caps: tuple[Cap, ...]
    exploratory: bool
    margin: float
    alpha: float
    sign_flip: float | None = None
    lengths_differ: tuple[Row, ...] = ()
    slower_at_most: float | None = None
    refused: bool = False
    aborted: tuple[str, ...] = ()

    @property
    def primary(self) -> Row | None:
        return self.rows[0] if self.rows else None

    @property
    def exit_code(self) -> int:
        """0, 1 slower than allowed, 5 refused, 6 undecided where a gate was set."""
        if self.refused:
            return EXIT_REFUSED
        gate = self.gate
        if gate is None or gate == "passed":
            return EXIT_PASS
        return EXIT_SLOWER if gate == "slower" else EXIT_UNDECIDED

    @property
    def gate(self) -> Literal["passed", "slower", "undecided"] | None:
        """Whether the whole interval of the primary lies on one side of what `slower_at_most` allows."""
        if self.slower_at_most is None:
            return None
        row = self.primary
        if row is None or row.judgement.word is Word.INDICATIVE or row.estimate.low is None or row.estimate.high is None:
            return "undecided"
        low, high = row.estimate.low, row.estimate.high
        if look(row.measure.metric).better == "lower":
            limit = 1 + self.slower_at_most
            return "slower" if low > limit else "passed" if high <= limit else "undecided"
        limit = 1 - self.slower_at_most
        return "slower" if high < limit else "passed" if low >= limit else "undecided"


def compare(a: Side, b: Side, question: Question = Question()) -> Comparison:
    """Pure function of two sides' run folders.

    Raises:
        UsageError: the primary metric is unknown or was measured on neither side.
    """
    declared = _declared(a, b)
    asked = _completed(question, declared)
    found = differences(a, b)
    unexplained = drift(found, asked.factors)
    blank = Comparison(
        a=a,
        b=b,
        rows=(),
        answers=(),
        soundness=(soundness(a), soundness(b)),
        factors=asked.factors,
        explained=tuple(difference for difference in found if difference not in unexplained),
        drift=unexplained,
        unused_factors=unused(found, asked.factors),
        caps=(),
        exploratory=question.primary is not None or declared.get("primary") is None,
        margin=MARGIN if asked.margin is None else asked.margin,
        alpha=0.05 if asked.alpha is None else asked.alpha,
        slower_at_most=asked.slower_at_most,
        aborted=asked.aborted,
    )
    if unexplained and not asked.allow:
        return replace(blank, refused=True)
    return _with_rows(blank, asked.primary)


def _with_rows(blank: Comparison, primary: str | None) -> Comparison:
    a, b = blank.a, blank.b
    everything = [record for launch in (*a.launches, *b.launches) for record in launch.records]
    groups = labels_of(dict.fromkeys(map(group_of, everything)))
    table = _Table.of(a, b, (*COMPARED, THROUGHPUT, *_metric_of(primary), LENGTH), shared_lengths(everything))
    chosen = _chosen(primary, groups, table.names)
    caps = _caps(blank)
    rows = _rows(table, blank, groups, capped=bool(caps))
    lengths = tuple(row for row in rows if row.measure.metric == LENGTH and _lengths_differ(row))
    if lengths:
        matched = _Table.of(a, b, (MATCHED_TPOT,), shared_lengths(everything))
        only_there = {row.measure.group for row in lengths}
        rows += [row for row in _rows(matched, blank, groups, capped=bool(caps)) if row.measure.group in only_there]
    ordered = [row for row in rows if row.measure == chosen] + [
        row for row in rows if row.measure not in (chosen, Measure(LENGTH, row.measure.group))
    ]
    of_first = ordered[0].estimate if ordered else None
    return replace(
        blank,
        rows=tuple(_corrected(ordered, alpha=blank.alpha)),
        answers=answers(a, b, alpha=blank.alpha),
        caps=caps,
        sign_flip=sign_flip_p(ordered[0].of_a, ordered[0].of_b) if of_first and of_first.pairing == "paired" else None,
        lengths_differ=lengths,
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """Each launch's figures, in pairs where an experiment made pairs."""

    of_a: list[dict[Measure, float]]
    of_b: list[dict[Measure, float]]
    in_pairs: bool

    @classmethod
    def of(cls, a: Side, b: Side, names: Sequence[str], lengths: dict[str, int]) -> _Table:
        matched = pairs(a, b)
        launches_a: Sequence[Launch] = a.launches if matched is None else [one for one, _ in matched]
        launches_b: Sequence[Launch] = b.launches if matched is None else [other for _, other in matched]
        return cls(
            [measures(launch, names, lengths) for launch in launches_a],
            [measures(launch, names, lengths) for launch in launches_b],
            matched is not None,
        )

    @property
    def names(self) -> list[Measure]:
        """Measured at least once on both sides, in the order of appearance."""
        on_b = set(chain.from_iterable(self.of_b))
        return [
            name for name in dict.fromkeys(chain.from_iterable(self.of_a)) if name in on_b and not self._says_nothing_new(name)
        ]

    def _says_nothing_new(self, name: Measure) -> bool:
        """Without thinking the first answer token is the first token: one row is enough, and Holm pays for each."""
        twin = Measure("ttft", name.group)
        return name.metric == "ttfat" and all(one.get(name) == one.get(twin) for one in (*self.of_a, *self.of_b))

    def values(self, name: Measure) -> tuple[list[float], list[float]]:
        """The launches that have this figure; of pairs, those where both have it."""
        if self.in_pairs:
            both = [
                (one[name], other[name])
                for one, other in zip(self.of_a, self.of_b, strict=True)
                if name in one and name in other
            ]
            return [one for one, _ in both], [other for _, other in both]
        return [one[name] for one in self.of_a if name in one], [one[name] for one in self.of_b if name in one]


def _rows(table: _Table, blank: Comparison, groups: Mapping[Group, str], *, capped: bool) -> list[Row]:
    found = []
    for name in table.names:
        of_a, of_b = table.values(name)
        if not of_a or not of_b:
            continue
        estimate = (paired if table.in_pairs else unpaired)(of_a, of_b, alpha=blank.alpha)
        if min(len(of_a), len(of_b)) < 2:
            estimate = replace(estimate, low=None, high=None, p=None)
        judgement = judge(estimate, better=look(name.metric).better, margin=blank.margin)
        found.append(
            Row(
                measure=name,
                group=groups[name.group],
                a=median(of_a),
                b=median(of_b),
                of_a=tuple(of_a),
                of_b=tuple(of_b),
                estimate=estimate,
                judgement=Judgement(word=Word.INDICATIVE) if capped else judgement,
            )
        )
    return found


def _corrected(rows: Sequence[Row], *, alpha: float) -> list[Row]:
    """Holm over all rows but the primary; a direction that does not survive it is not sold as a difference."""
    p_values = {str(place): row.estimate.p for place, row in enumerate(rows) if place and row.estimate.p is not None}
    adjusted = holm({place: p for place, p in p_values.items() if p is not None})

    def corrected(place: int, row: Row) -> Row:
        p = adjusted.get(str(place))
        directed = row.judgement.word in DECIDED - {Word.EQUIVALENT}
        doubtful = p is not None and p > alpha and directed
        return replace(row, p_holm=p, judgement=Judgement(word=Word.INCONCLUSIVE) if doubtful else row.judgement)

    return [corrected(place, row) for place, row in enumerate(rows)]


def _lengths_differ(row: Row) -> bool:
    """By more than a token in a hundred, on the median of the launches' medians."""
    return abs(row.b - row.a) > 0.01 * row.a


def _caps(comparison: Comparison) -> tuple[Cap, ...]:
    a, b = comparison.a, comparison.b
    unknown = not all(launch.known for launch in (*a.launches, *b.launches))
    reasons = {
        Cap.LAUNCH_UNKNOWN: unknown,
        Cap.ONE_LAUNCH: min(len(a.launches), len(b.launches)) < 2,
        Cap.DRIFT_ALLOWED: bool(comparison.drift),
        Cap.HOST_UNSTABLE: any(side.unstable for side in comparison.soundness),
        Cap.INVALID: any(side.invalid for side in comparison.soundness),
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def _declared(a: Side, b: Side) -> dict[str, Any]:
    """What an experiment declared before its runs, where all runs of both sides come from the same one."""
    experiments = [facts(run.folder).get("experiment") for run in (*a.runs, *b.runs)]
    first = experiments[0]
    return first if isinstance(first, dict) and all(other == first for other in experiments) else {}


def _completed(question: Question, declared: Mapping[str, Any]) -> Question:
    looks = declared.get("looks") or ()
    alpha = look_alpha(len(looks), alpha=declared.get("alpha", 0.05)) if looks else declared.get("alpha")
    return replace(
        question,
        primary=question.primary if question.primary is not None else declared.get("primary"),
        margin=question.margin if question.margin is not None else declared.get("margin"),
        alpha=question.alpha if question.alpha is not None else alpha,
        factors=question.factors or tuple(declared.get("factors", ())),
        slower_at_most=question.slower_at_most if question.slower_at_most is not None else declared.get("slower_at_most"),
    )


def check_name(primary: str) -> None:
    """That there is such a metric; whether its group is measured only a run can tell (`check_measured`).

    Raises:
        UsageError: there is none.
    """
    metric = primary.partition("@")[0]
    known = [*metrics.BY_NAME, THROUGHPUT, MATCHED_TPOT]
    if metric in known:
        return
    near = get_close_matches(metric, known, n=1)
    remedy = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"
    raise UsageError(f"there is no metric {metric!r}", where="--primary", remedy=remedy)


def check_measured(primary: str, launches: Side) -> None:
    """That the primary metric can be compared, as far as launches of one side tell.

    Raises:
        UsageError: there is no such metric, or it was not measured in them.
    """
    records = [record for launch in launches.launches for record in launch.records]
    table = _Table.of(launches, launches, (*COMPARED, THROUGHPUT, *_metric_of(primary)), shared_lengths(records))
    _chosen(primary, labels_of(dict.fromkeys(map(group_of, records))), table.names)


def _metric_of(primary: str | None) -> tuple[str, ...]:
    """The metric of `--primary`, to be measured even where it is not among those always compared."""
    if primary is None:
        return ()
    check_name(primary)
    metric = primary.partition("@")[0]
    return () if metric in (*COMPARED, THROUGHPUT) else (metric,)


def _chosen(primary: str | None, groups: Mapping[Group, str], known: Sequence[Measure]) -> Measure | None:
    """The primary measure: of the named group, else of the first group that has it."""
    metric, _, wanted = (primary or DEFAULT_PRIMARY).partition("@")
    candidates = [measure for measure in known if measure.metric == metric]
    if wanted:
        names = {wanted.strip(), wanted.strip().replace("1 ways", "1 way")}
        candidates = [measure for measure in candidates if names & {groups[measure.group], *measure.group.parts}]
    if candidates:
        return candidates[0]
    if primary is None:
        return known[0] if known else None
    there = ", ".join(sorted({f"{measure.metric}@{groups[measure.group]}" for measure in known})) or "nothing"
    raise UsageError(f"{primary!r} was not measured on both sides", where="--primary", remedy=f"there is: {there}")
