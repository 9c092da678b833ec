"""A comparison in sentences: headline, a word for each row, and everything that has to be said beside the figures."""

from __future__ import annotations

from loadkit.compare.answers import Answers
from loadkit.compare.comparison import Cap, Comparison, Row
from loadkit.compare.judgement import FEWEST_PAIRS, Word, smallest_effect
from loadkit.compare.measure import look
from loadkit.compare.proportion import Share
from loadkit.compare.soundness import Soundness
from loadkit.language import Language, say
from loadkit.report import figures

FASTER = {
    Word.BETTER: "faster",
    Word.BETTER_MAYBE_NEGLIGIBLE: "faster, maybe negligible",
    Word.WORSE: "slower",
    Word.WORSE_MAYBE_NEGLIGIBLE: "slower, maybe negligible",
}
MORE = {
    Word.BETTER: "more",
    Word.BETTER_MAYBE_NEGLIGIBLE: "more, maybe negligible",
    Word.WORSE: "fewer",
    Word.WORSE_MAYBE_NEGLIGIBLE: "fewer, maybe negligible",
}
CAPS = {
    Cap.ONE_LAUNCH: "one launch per side: nothing is known about how launches differ, so there is no interval",
    Cap.LAUNCH_UNKNOWN: "the server's start time is unknown: launches can't be told apart",
    Cap.DRIFT_ALLOWED: "more than the declared factor differs (--allow)",
    Cap.HOST_UNSTABLE: "the host was unstable in a launch",
    Cap.INVALID: "the measurement of a launch is invalid",
}


def headline(found: Comparison, language: Language | None = None) -> str:
    """One line: who is faster by how much, or why that can't be said."""
    a, b = found.a.name, found.b.name
    if found.refused:
        sentence = "REFUSED (config_drift): {b} differs from {a} in more than the declared factor: {keys}"
        if all(difference.within_a_side for difference in found.drift):
            sentence = "REFUSED (config_drift): the launches of one side differ among themselves ({a}, {b}): {keys}"
        return say(sentence, language, a=a, b=b, keys=", ".join(difference.key for difference in found.drift))
    row = found.primary
    if row is None:
        return say("INCONCLUSIVE: no metric was measured on both sides", language)
    subject = f"{name(row, language)} {value(row, row.a)} → {value(row, row.b)}, {change(row)}"
    values = {"a": a, "b": b, "subject": subject, "basis": basis(row, language), "margin": percent(found.margin)}
    word = row.judgement.word
    if word is Word.INDICATIVE:
        reasons = "; ".join(say(CAPS[cap], language) for cap in found.caps) or say(
            "too few launches have this figure", language
        )
        return say("INDICATIVE ONLY: {b} against {a}: {subject} ({reasons})", language, reasons=reasons, **values)
    if word is Word.EQUIVALENT:
        return say("EQUIVALENT within ±{margin}: {b} against {a}: {subject}, {basis}", language, **values)
    if word is Word.INCONCLUSIVE:
        return say(
            "INCONCLUSIVE: {b} against {a}: {subject}, {basis}; {verdict}", language, verdict=verdict(row, language), **values
        )
    return say("{b} is {verdict}: {subject}, {basis}", language, verdict=verdict(row, language).upper(), **values)


def verdict(row: Row, language: Language | None = None) -> str:
    """The row's word: faster, slower, equivalent, inconclusive with what would decide it, or indicative only."""
    word = row.judgement.word
    if word is Word.INDICATIVE:
        return say("indicative only", language)
    if word is Word.EQUIVALENT:
        return say("equivalent", language)
    if word is Word.INCONCLUSIVE:
        return _inconclusive(row, language)
    return say((MORE if look(row.measure.metric).better == "neither" else FASTER)[word], language)


def _inconclusive(row: Row, language: Language | None) -> str:
    if row.judgement.pairs_needed is None:
        return say("inconclusive", language) if row.p_holm is None else say("inconclusive after Holm", language)
    sentence = (
        "inconclusive, needs about {n} pairs"
        if row.estimate.pairing == "paired"
        else "inconclusive, needs about {n} launches a side"
    )
    return say(sentence, language, n=row.judgement.pairs_needed)


def name(row: Row, language: Language | None = None) -> str:
    """Metric and group: "decode rate (1 way)"."""
    label = say(look(row.measure.metric).label, language)
    return f"{label} ({row.group})" if row.group else label


def value(row: Row, figure: float) -> str:
    """A figure of the row with its unit."""
    unit = look(row.measure.metric).unit
    if unit == "ns":
        return figures.duration(figure)
    return f"{figures.digits(figure)} {unit}"


def change(row: Row) -> str:
    """The ratio as a change in percent with its interval: "+4.4 % [+3.9, +5.0]"."""
    estimate = row.estimate
    change = f"{_signed(estimate.ratio)} %"
    if estimate.low is None or estimate.high is None or row.judgement.word is Word.INDICATIVE:
        return change
    return f"{change} [{_signed(estimate.low)}, {_signed(estimate.high)}]"


def basis(row: Row, language: Language | None = None) -> str:
    """How many launches stand behind a row."""
    estimate = row.estimate
    if estimate.pairing == "paired":
        return say("{n} pairs of launches", language, n=estimate.launches_a)
    return say("{a} and {b} launches, unpaired", language, a=estimate.launches_a, b=estimate.launches_b)


def percent(share: float) -> str:
    """0.02 as "2 %"."""
    return f"{share * 100:.3g} %"


def notes(found: Comparison, language: Language | None = None) -> tuple[str, ...]:
    """What has to be known to read the table rightly, most important first."""
    said = [say("capped at indicative: {reason}", language, reason=say(CAPS[cap], language)) for cap in found.caps]
    if found.exploratory and not found.refused:
        said.append(say("exploratory: the primary metric was not named before the runs", language))
    said += [say("not finished: {what}", language, what=what) for what in found.aborted]
    said += [
        say("{key} differs: {a} against {b}", language, key=difference.key, a=difference.of_a, b=difference.of_b)
        for difference in found.drift
        if not found.refused
    ]
    if found.factors:
        said.append(say("declared factors: {factors}", language, factors=", ".join(found.factors)))
    said += [
        say("the sides do not differ in the declared factor {factor}: was it in force?", language, factor=factor)
        for factor in found.unused_factors
    ]
    said += [
        say("answers differ in length ({group}): {a} against {b} tokens; latencies to the end compare different work", language,
            group=row.group, a=figures.digits(row.a), b=figures.digits(row.b))
        for row in found.lengths_differ
    ]  # fmt: skip
    for side, sound in ((found.a, found.soundness[0]), (found.b, found.soundness[1])):
        said += _of_side(side.name, sound, language)
    return (*said, *_of_power(found, language))


def _of_side(side: str, sound: Soundness, language: Language | None) -> list[str]:
    said = []
    if sound.outcomes:
        what = ", ".join(f"{outcome} {count}" for outcome, count in sorted(sound.outcomes.items()))
        done = f"{sound.completed}/{sound.attempted}"
        said.append(say("{side}: {done} requests completed ({what})", language, side=side, done=done, what=what))
    if sound.truncated:
        cut = f"{sound.truncated}/{sound.of_quality}"
        said.append(say("{side}: {cut} answers were cut off at their token budget", language, side=side, cut=cut))
    for launch in sound.launches:
        if launch.measurement == "invalid":
            why = ", ".join(launch.measurement_reasons)
            said.append(say("{side}: measurement invalid in {launch}: {why}", language, side=side, launch=launch.name, why=why))
    return said


def _of_power(found: Comparison, language: Language | None) -> list[str]:
    row = found.primary
    if row is None or row.estimate.sd_log is None or row.judgement.word is Word.INDICATIVE:
        return []
    said = []
    pairs = min(row.estimate.launches_a, row.estimate.launches_b)
    if pairs < FEWEST_PAIRS:
        said.append(say("fewer than {n} launches a side: the exact test can't reach 5 %", language, n=FEWEST_PAIRS))
    if found.sign_flip is not None:
        said.append(say("sign-flip test of the primary metric, exact: p = {p}", language, p=f"{found.sign_flip:.3g}"))
    effect = percent(smallest_effect(pairs, row.estimate.sd_log))
    said.append(say("so many launches find a difference of {effect} four times in five", language, effect=effect))
    return said


def hosts(sound: Soundness) -> str:
    """The host axis of a side's launches: "stable ×5, unstable ×1 (oom_kill +4)"."""
    states: dict[str, list[str]] = {}
    for launch in sound.launches:
        states.setdefault(launch.host, []).extend(launch.host_reasons)
    counts = {state: sum(launch.host == state for launch in sound.launches) for state in states}
    return ", ".join(
        f"{state} ×{counts[state]}" + (f" ({'; '.join(dict.fromkeys(reasons))})" if reasons else "")
        for state, reasons in states.items()
    )


def right(share: Share) -> str:
    """ "11/12 [65–99 %]", the interval being Wilson's."""
    return f"{share.right}/{share.total} [{share.low * 100:.0f}–{share.high * 100:.0f} %]"


def answer_test(row: Answers, language: Language | None = None) -> str:
    """Difference in points with Newcombe's interval, and the test."""
    points = f"{row.difference.value * 100:+.0f} [{row.difference.low * 100:+.0f}, {row.difference.high * 100:+.0f}]".replace(
        "-", "−"
    )
    test = f"{row.test.name} p = {row.test.p:.2f}"
    if row.test.only_a_right is not None:
        counts = say("only A right {a}, only B right {b}", language, a=row.test.only_a_right, b=row.test.only_b_right)
        test += f" ({counts})"
    if row.second is not None:
        test += f", {row.second.name} p = {row.second.p:.2f}"
    return say("{points} points; {test}", language, points=points, test=test)


def _signed(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}".replace("-", "−")
