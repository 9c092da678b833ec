"""Comparisons of run folders: words, caps, refusals, gates and what is said beside the figures."""

from dataclasses import replace
from pathlib import Path

import pytest

from compare.generated import Asked, Made, write
from loadkit.compare.comparison import Cap, Question, compare
from loadkit.compare.judgement import Word
from loadkit.compare.launch import find, side
from loadkit.compare.measure import MATCHED_TPOT
from loadkit.errors import UsageError
from loadkit.record import Outcome, Phase
from loadkit.report.comparison.words import headline

NOISE = (0.004, -0.003, 0.001, -0.002, 0.003, -0.003)
EXPERIMENT = {"name": "ab", "primary": "decode_rate", "factors": ["enforce_eager"]}


def launch(folder: Path, name: str, number: int, *, tpot_s: float = 0.02, pair: int | None = None, **changes) -> Path:
    """A launch of three requests with noise of its own; `number` also makes its start time."""
    factor = 1 + NOISE[number % len(NOISE)] * (1 if name.startswith("a") else -1)
    asked = [Asked(tpot_s=tpot_s * factor, case=f"c{n}", round=n) for n in (1, 2, 3)]
    made = Made(started_s=1000.0 + number * 60 + (30 if name.startswith("b") else 0), asked=asked, pair=pair)
    return write(folder / f"{name}{number}", replace(made, **changes))


def two_sides(
    folder: Path, ratio: float, launches: int = 6, *, pairs: bool = True, a: dict | None = None, b: dict | None = None
):
    """Sides whose TPOT differs by `ratio` (A takes `ratio` times as long a token: B is faster for ratio above 1)."""
    folders = {"a": [], "b": []}
    for number in range(launches):
        pair = number + 1 if pairs else None
        folders["a"].append(launch(folder, "a", number, tpot_s=0.02 * ratio, pair=pair, **(a or {})))
        folders["b"].append(launch(folder, "b", number, pair=pair, **(b or {})))
    return side("eager", folders["a"]), side("graph", folders["b"])


def test_six_pairs_find_four_percent(tmp_path):
    """A B that decodes 4.4 % faster is called better, with an interval around that figure."""
    found = compare(*two_sides(tmp_path, 1.0443))
    row = found.primary
    assert (row.measure.metric, row.judgement.word) == ("decode_rate", Word.BETTER)
    assert row.estimate.low < 1.0443 < row.estimate.high
    assert row.estimate.pairing == "paired"
    assert found.sign_flip == pytest.approx(2 / 64)


def test_latency_and_rate_agree_in_their_words(tmp_path):
    """A shorter e2e is better, as a higher decode rate is."""
    found = compare(*two_sides(tmp_path, 1.06))
    assert {row.judgement.word for row in found.rows if row.measure.metric in ("decode_rate", "e2e", "throughput")} == {
        Word.BETTER
    }


def test_equal_sides_are_equivalent(tmp_path):
    """Where nothing differs, the word is equivalent, never faster or slower."""
    found = compare(*two_sides(tmp_path, 1.0))
    assert {row.judgement.word for row in found.rows} == {Word.EQUIVALENT}


def test_three_folders_of_one_launch_are_one(tmp_path):
    """The start time of the server counts, not the folder: the verdict is capped."""
    a = side("a", [launch(tmp_path, "a", n, manifest={}, started_s=5.0) for n in range(3)])
    b = side("b", [launch(tmp_path, "b", n, started_s=9.0) for n in range(3)])
    found = compare(a, b)
    assert (len(a.launches), len(b.launches)) == (1, 1)
    assert found.caps == (Cap.ONE_LAUNCH,)
    assert {row.judgement.word for row in found.rows} == {Word.INDICATIVE}


def test_the_earlier_retest_is_indicative(tmp_path):
    """30.032 against 31.361 tokens/s from one launch each: +4.43 %, and no interval."""
    a = side("eager", [launch(tmp_path, "a", 0, asked=[Asked(tpot_s=1 / 30.032, case=f"c{n}", round=n) for n in range(9)])])
    b = side("graph", [launch(tmp_path, "b", 0, asked=[Asked(tpot_s=1 / 31.361, case=f"c{n}", round=n) for n in range(9)])])
    row = compare(a, b).primary
    assert round((row.estimate.ratio - 1) * 100, 2) == 4.43
    assert (row.judgement.word, row.estimate.low) == (Word.INDICATIVE, None)


def test_unknown_start_times_are_one_launch(tmp_path):
    """Nothing shows that they were several: capped, and said."""
    found = compare(*two_sides(tmp_path, 1.05, 3, pairs=False, a={"started_s": None}, b={"started_s": None}))
    assert found.caps == (Cap.LAUNCH_UNKNOWN, Cap.ONE_LAUNCH)


def test_runs_of_several_pairs_on_one_launch_are_one_launch(tmp_path):
    """A server that was never restarted gives no replication, whatever the experiment's numbering says."""
    found = compare(*two_sides(tmp_path, 1.05, 3, a={"started_s": 5.0}, b={"started_s": 5.0}))
    assert found.caps == (Cap.ONE_LAUNCH,)


def test_launches_made_by_hand_are_not_paired(tmp_path):
    """Without an experiment the two-sample interval is used."""
    assert compare(*two_sides(tmp_path, 1.05, pairs=False)).primary.estimate.pairing == "unpaired"


def test_more_than_the_factor_is_refused(tmp_path):
    """Another image and another flag: both are named, and the exit code is 5."""
    b_manifest = {
        "server": {"version": "0.32.0", "arguments": ["--max-num-seqs", "4", "--enforce-eager"], "image_digest": "sha256:bb"}
    }
    a, b = two_sides(tmp_path, 1.05, b={"manifest": b_manifest})
    found = compare(a, b, Question(factors=("enforce_eager",)))
    assert [difference.key for difference in found.drift] == ["server.image_digest"]
    assert (found.refused, found.exit_code, found.rows) == (True, 5, ())
    both = compare(a, b, Question(factors=("image", "enforce_eager")))
    assert (both.refused, both.primary.judgement.word) == (False, Word.BETTER)
    capped = compare(a, b, Question(allow=True))
    assert (capped.refused, capped.caps, capped.primary.judgement.word) == (False, (Cap.DRIFT_ALLOWED,), Word.INDICATIVE)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"target": {"model": "other"}}, "target.model"),
        ({"client": {"python": "3.12"}}, "client.python"),
        ({"plan": {"hash": "q"}}, "plan.hash"),
        ({"scenarios": {"short": "t"}}, "inputs.short"),
        ({"options": {"rounds": 3, "max_tokens": 256}}, "options.max_tokens"),
        ({"loadkit_version": "0.2"}, "loadkit_version"),
    ],
)
def test_each_kind_of_drift_is_found(tmp_path, change, key):
    """Model, client, plan, inputs, options and version all have to be equal."""
    found = compare(*two_sides(tmp_path, 1.0, 2, b={"manifest": change}))
    assert key in [difference.key for difference in found.drift]


def test_launches_that_differ_among_themselves_are_not_excused_by_a_factor(tmp_path):
    """A declared factor tells the sides apart, and is one thing on each; the refusal says which of the two it is."""
    odd = {"manifest": {"server": {"arguments": ["--speed", "9"]}}}
    a = side("a", [launch(tmp_path, "a", 0), launch(tmp_path, "a", 1, **odd)])
    found = compare(a, side("b", [launch(tmp_path, "b", 0), launch(tmp_path, "b", 1)]), Question(factors=("server",)))
    assert found.refused
    assert "the launches of one side differ among themselves" in headline(found, "en")


def test_other_questions_are_drift(tmp_path):
    """The hash of what was really asked counts, whatever the plan says."""
    a, b = two_sides(tmp_path, 1.0, 2, a={"asked": [Asked(question="x" * 64)]}, b={"asked": [Asked(question="y" * 64)]})
    assert [difference.key for difference in compare(a, b).drift] == ["asked.short.one"]


def test_a_side_that_differs_in_itself_is_drift_even_in_the_factor(tmp_path):
    """The declared factor may differ between the sides, not between launches of one side."""
    a = side("a", [launch(tmp_path, "a", n) for n in range(2)])
    b = side("b", [launch(tmp_path, "b", n, manifest={"target": {"model": f"m{n}"}}) for n in range(2)])
    assert compare(a, b, Question(factors=("model",))).refused


def test_a_factor_that_does_not_differ_is_said(tmp_path):
    """Perhaps the flag was never in force."""
    assert compare(*two_sides(tmp_path, 1.0), Question(factors=("enforce_eager",))).unused_factors == ("enforce_eager",)


@pytest.mark.parametrize(("ratio", "code"), [(1.0, 0), (0.90, 1), (0.95, 6)])
def test_the_gate_needs_the_whole_interval(tmp_path, ratio, code):
    """Slower than 5 % allowed fails, within passes, straddling is undecided."""
    found = compare(*two_sides(tmp_path, ratio), Question(slower_at_most=0.05))
    assert found.exit_code == code


def test_a_gate_on_one_launch_each_is_undecided(tmp_path):
    """Indicative is no pass."""
    assert compare(*two_sides(tmp_path, 2.0, 1), Question(slower_at_most=0.05)).exit_code == 6


def test_what_the_experiment_declared_counts_and_is_not_exploratory(tmp_path):
    """Primary, factors and looks come from launch.json; naming another primary makes it exploratory."""
    declared = {**EXPERIMENT, "looks": [6, 12, 18], "primary": "ttft"}
    a, b = two_sides(tmp_path, 1.05, a={"experiment": declared}, b={"experiment": declared})
    found = compare(a, b)
    assert (found.exploratory, found.primary.measure.metric, found.alpha) == (False, "ttft", 0.0221)
    assert compare(a, b, Question(primary="decode_rate")).exploratory


def test_an_unknown_primary_names_the_nearest(tmp_path):
    """A typing mistake is answered with what was meant."""
    a, b = two_sides(tmp_path, 1.0, 2)
    with pytest.raises(UsageError, match=r"did you mean 'decode_rate'"):
        compare(a, b, Question(primary="decode_rat"))
    with pytest.raises(UsageError, match="decode_rate@"):
        compare(a, b, Question(primary="decode_rate@9 ways"))


def test_a_group_of_the_primary_can_be_named(tmp_path):
    """`METRIC@GROUP` chooses among stages."""
    asked = [Asked(stage="1 way"), Asked(stage="2 ways", case="two")]
    found = compare(*two_sides(tmp_path, 1.0, 2, a={"asked": asked}, b={"asked": asked}), Question(primary="ttft@2 ways"))
    assert (found.primary.measure.metric, found.primary.group) == ("ttft", "2 ways")


def test_one_way_may_be_written_like_two_ways(tmp_path):
    """The stage is called "1 way"; whoever names it "1 ways" means that."""
    asked = [Asked(stage="2 ways"), Asked(stage="1 way", case="one")]
    found = compare(*two_sides(tmp_path, 1.0, 2, a={"asked": asked}, b={"asked": asked}), Question(primary="ttft@1 ways"))
    assert found.primary.group == "1 way"


def test_the_others_are_corrected(tmp_path):
    """A secondary metric whose direction does not survive Holm is inconclusive."""
    a = [launch(tmp_path, "a", n, pair=n, asked=[Asked(stage=s, case=s, ttft_s=0.3) for s in "uvwx"]) for n in range(4)]
    lucky = [0.30, 0.28, 0.265, 0.27]
    b = [
        launch(
            tmp_path,
            "b",
            n,
            pair=n,
            asked=[Asked(stage=s, case=s, ttft_s=lucky[n] if s == "u" else 0.3 + 0.01 * (-1) ** n) for s in "uvwx"],
        )
        for n in range(4)
    ]
    found = compare(side("a", a), side("b", b), Question(primary="decode_rate@v"))
    row = next(row for row in found.rows if row.measure.metric == "ttft" and row.group == "u")
    assert row.p_holm >= row.estimate.p
    assert row.judgement.word is Word.INCONCLUSIVE


def test_different_lengths_are_said_and_matched(tmp_path):
    """B answers longer and slower at the end; over the shared length its TPOT is equal."""
    a = {"asked": [Asked(tokens=101, steps=10, workload="quality", finish="stop")]}
    b = {"asked": [Asked(tokens=201, steps=20, workload="quality", finish="stop")]}
    found = compare(*two_sides(tmp_path, 1.0, 2, a=a, b=b))
    assert [(row.a, row.b) for row in found.lengths_differ] == [(101, 201)]
    matched = next(row for row in found.rows if row.measure.metric == MATCHED_TPOT)
    assert matched.estimate.ratio == pytest.approx(1.0)


def test_answers_on_the_same_questions_are_mcnemar(tmp_path):
    """Four questions in three rounds, one answered wrong once: 11 of 12 against 12 of 12, p = 1."""

    def twelve(wrong: int) -> list[Asked]:
        places = [(case, round_) for round_ in (1, 2, 3) for case in "pqrs"]
        return [
            Asked(case=case, round=r, workload="quality", finish="stop", right=n >= wrong) for n, (case, r) in enumerate(places)
        ]

    found = compare(*two_sides(tmp_path, 1.0, 1, a={"asked": twelve(1)}, b={"asked": twelve(0)}))
    (row,) = found.answers
    assert (row.a.right, row.a.total, row.b.right, row.b.total) == (11, 12, 12, 12)
    assert (row.test.name, row.test.only_b_right, row.test.p) == ("McNemar", 1, 1.0)
    assert (round(row.difference.low * 100), round(row.difference.high * 100)) == (-17, 35)


def test_answers_on_different_questions_are_fisher(tmp_path):
    """Without shared questions there is nothing to pair."""
    a = [Asked(case=f"x{n}", workload="quality", finish="stop", right=n > 0) for n in range(12)]
    b = [Asked(case=f"y{n}", workload="quality", finish="stop", right=True) for n in range(12)]
    (row,) = compare(*two_sides(tmp_path, 1.0, 1, a={"asked": a}, b={"asked": b})).answers
    assert (row.test.name, row.test.p, row.second.name) == ("Fisher", pytest.approx(1.0), "Boschloo")


def test_failed_and_lost_requests_are_in_the_denominator(tmp_path):
    """A request that died is no right answer, and the side says how many did."""
    asked = [Asked(case=f"x{n}", workload="quality", finish="stop", right=True) for n in range(3)]
    dead = [Asked(case="x9", workload="quality", outcome=Outcome.STREAM_ERROR)]
    found = compare(*two_sides(tmp_path, 1.0, 1, a={"asked": asked}, b={"asked": [*asked, *dead], "lost": 1}))
    assert (found.answers[0].b.right, found.answers[0].b.total) == (3, 5)
    assert found.soundness[1].outcomes == {"stream_error": 1, "in_flight_lost": 1}


def test_truncations_are_counted_for_quality_only(tmp_path):
    """`length` is the right end of a speed workload."""
    b = [Asked(case="q", workload="quality", finish="length"), Asked(case="s")]
    found = compare(*two_sides(tmp_path, 1.0, 1, a={"asked": b}, b={"asked": b}))
    assert (found.soundness[1].truncated, found.soundness[1].of_quality) == (1, 1)


def test_warm_ups_are_in_no_figure(tmp_path):
    """A slow warm-up changes nothing."""
    asked = [Asked(tpot_s=1.0, phase=Phase.WARMUP), Asked()]
    found = compare(*two_sides(tmp_path, 1.0, 2, a={"asked": asked}, b={"asked": [Asked()]}))
    assert found.primary.estimate.ratio == pytest.approx(1.0)


def test_a_label_finds_its_runs_and_a_wrong_one_names_those_that_exist(tmp_path):
    """All runs of a label are a side; a typing mistake gets the list."""
    for number in range(2):
        launch(tmp_path, "a", number, label="eager")
    assert len(find("eager", tmp_path)) == 2
    with pytest.raises(UsageError, match="eager"):
        find("graph", tmp_path)


def test_a_folder_without_measured_requests_is_a_mistake(tmp_path):
    """It says which folder, instead of a table of nothing."""
    empty = write(tmp_path / "empty", Made(started_s=1.0, asked=[Asked(phase=Phase.WARMUP)]))
    with pytest.raises(UsageError, match="empty"):
        side("a", [empty])
