"""What an experiment came to: the comparison of its finished launches, and one exit code for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadkit.compare.comparison import Comparison, Question, check_measured, compare
from loadkit.compare.judgement import DECIDED
from loadkit.compare.launch import side
from loadkit.errors import UsageError
from loadkit.experiment.ledger import Ended, Ledger
from loadkit.experiment.plan import Experiment
from loadkit.experiment.restore import Proved

WORST_FIRST = (4, 130, 3, 5, 1, 6, 0)
"""Order of exit codes: host unstable, interrupted, aborted, invalid, answers or speed failed, undecided, pass."""

INTERRUPTED, INCOMPLETE, PASS = 130, 3, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`comparison` is `None` while a side has no finished launch. `stopped` says why it ended before its last launch."""

    launches: tuple[Ended, ...]
    comparison: Comparison | None
    restored: tuple[Proved, ...]
    stopped: str = ""
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """The worst of its launches, else the comparison's. A default that is not back, or an early end, is incomplete (3)."""
        codes = [ended.exit_code for ended in self.launches if ended.exit_code is not None]
        codes += [INCOMPLETE for ended in self.launches if ended.state == "aborted"]
        codes += [INCOMPLETE] if self.stopped or any(proof.state == "failed" for proof in self.restored) else []
        codes += [INTERRUPTED] if self.interrupted else []
        worst = min((code if code in WORST_FIRST else INCOMPLETE for code in codes), key=WORST_FIRST.index, default=PASS)
        if worst != PASS:
            return worst
        return INCOMPLETE if self.comparison is None else self.comparison.exit_code


def comparison(experiment: Experiment, ledger: Ledger, *, pairs: int | None = None) -> Comparison | None:
    """The comparison of the launches that finished (of the first `pairs` pairs); aborted ones are named in it.

    Raises:
        UsageError: the primary metric was not measured.
    """
    ended = [one for one in ledger.ended() if pairs is None or one.pair <= pairs]
    folders = {
        arm: [ledger.runs / one.run for one in ended if one.arm == arm and one.state == "finished" and one.run]
        for arm in experiment.arm_names
    }
    if not all(folders.values()):
        return None
    a, b = experiment.arm_names
    aborted = tuple(one.words for one in ended if one.state != "finished")
    return compare(side(a, folders[a]), side(b, folders[b]), Question(aborted=aborted))


def unmeasured(experiment: Experiment, ledger: Ledger) -> str:
    """Why the first finished launch has no figure of the primary metric, so that the others would be for nothing; or empty."""
    finished = [ledger.runs / one.run for one in ledger.ended() if one.state == "finished" and one.run]
    if len(finished) != 1:
        return ""
    try:
        check_measured(experiment.file.primary, side("launch 1", finished))
    except UsageError as mistake:
        return f"{experiment.path}: primary: {mistake.problem}; {mistake.remedy}"
    return ""


def is_decided(found: Comparison | None) -> bool:
    """Whether a look may end the experiment: the primary metric has a word other than inconclusive."""
    return found is not None and found.primary is not None and found.primary.judgement.word in DECIDED


def gives_up(ended: Sequence[Ended], arm: str, after: int) -> bool:
    """Whether the arm's last `after` launches were all aborted."""
    own = [one for one in ended if one.arm == arm and one.state in ("finished", "aborted")][-after:]
    return len(own) == after and all(one.state == "aborted" for one in own)
