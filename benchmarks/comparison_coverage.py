"""Does `loadkit compare` keep its promises? Coverage of its intervals and its false positives, on generated run folders.

Each simulated experiment is written to disk as an experiment would leave it (manifest, records, launch.json), read back and
compared by the real code. The figures inside are not Gaussian: requests are skewed with stalls now and then, every launch has
an effect of its own, and the host drifts over the whole experiment, so that whoever goes second in a pair is slower; the order
in a pair is the seeded coin of `loadkit.experiment`.

    python benchmarks/comparison_coverage.py            # about five minutes on one core
    python benchmarks/comparison_coverage.py --experiments 200

Exit code 1 if coverage at 3, 6 or 12 pairs is outside 93–97 %, or false positives exceed 5 % (both by more than chance allows:
two standard errors of the simulation).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from math import exp, sqrt
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from compare.generated import Asked, Made, write
from loadkit.compare.comparison import Comparison, Question, compare
from loadkit.compare.judgement import DECIDED, Word
from loadkit.compare.launch import side
from loadkit.experiment.schedule import schedule

LAUNCH_SD = 0.015
DRIFT_PER_LAUNCH = 0.004
REQUEST_SD = 0.03
STALL_SHARE, STALL_MEAN = 0.12, 0.25
REQUESTS = 9
TPOT_S, TTFT_S = 0.033, 0.28
DIRECTED = DECIDED - {Word.EQUIVALENT}


@dataclass(frozen=True, kw_only=True)
class World:
    """How one simulated experiment is made. `ratio` is B's true decode rate over A's."""

    pairs: int
    ratio: float
    launch_sd: float = LAUNCH_SD


def experiment(world: World, rng: np.random.Generator, folder: Path, *, seed: int) -> Comparison:
    """One experiment on disk, compared."""
    shutil.rmtree(folder, ignore_errors=True)
    folders: dict[str, list[Path]] = {"A": [], "B": []}
    for slot in schedule(("A", "B"), world.pairs, seed=seed):
        level = exp(rng.normal(0, world.launch_sd) + DRIFT_PER_LAUNCH * slot.number)
        truth = 1.0 if slot.arm == "A" else 1 / world.ratio
        noise = np.exp(rng.normal(0, REQUEST_SD, REQUESTS))
        noise *= 1 + np.where(rng.random(REQUESTS) < STALL_SHARE, rng.exponential(STALL_MEAN, REQUESTS), 0)
        asked = [
            Asked(
                case=f"c{n}", round=n // 3 + 1, tpot_s=TPOT_S * truth * level * noise[n], ttft_s=TTFT_S * level * noise[-n - 1]
            )
            for n in range(REQUESTS)
        ]
        made = Made(started_s=1e9 + 600 * slot.number, asked=asked, pair=slot.pair)
        folders[slot.arm].append(write(folder / f"{slot.number:02d}-{slot.arm}", made))
    return compare(side("A", folders["A"]), side("B", folders["B"]), Question(primary="decode_rate"))


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Over all experiments of a world: how often the interval held the truth, and how often a difference was claimed."""

    covered: float
    claimed: float
    claimed_any: float
    width: float
    experiments: int

    def error(self, share: float) -> float:
        """Two standard errors of a simulated share."""
        return 2 * sqrt(max(share * (1 - share), 1e-9) / self.experiments)


def shares(world: World, *, experiments: int, seed: int, folder: Path) -> Shares:
    """Simulate a world many times."""
    rng = np.random.default_rng(seed)
    covered = claimed = claimed_any = 0
    widths = []
    for number in range(experiments):
        found = experiment(world, rng, folder, seed=seed * 100_000 + number)
        row = found.primary
        assert row is not None and row.estimate.low is not None and row.estimate.high is not None
        covered += row.estimate.low <= world.ratio <= row.estimate.high
        claimed += row.judgement.word in DIRECTED
        claimed_any += any(one.judgement.word in DIRECTED for one in found.rows)
        widths.append(row.estimate.high - row.estimate.low)
    return Shares(
        covered=covered / experiments,
        claimed=claimed / experiments,
        claimed_any=claimed_any / experiments,
        width=float(np.median(widths)),
        experiments=experiments,
    )


def main() -> int:
    """Print the table and say whether the promises hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    broken = []
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as parent:
        print("pairs  true ratio  covered        claimed a difference  on any metric  median width of the interval")
        for pairs, ratio in [(pairs, ratio) for ratio in (1.0, 1.044) for pairs in (3, 6, 12)]:
            world = World(pairs=pairs, ratio=ratio)
            seen = shares(world, experiments=arguments.experiments, seed=arguments.seed + pairs, folder=Path(parent) / "runs")
            print(
                f"{pairs:5d}  {ratio:10.3f}  {seen.covered:6.1%} ±{seen.error(seen.covered):5.1%}  {seen.claimed:20.1%}"
                f"  {seen.claimed_any:13.1%}  {seen.width:.1%}",
                flush=True,
            )
            if not 0.93 - seen.error(0.95) <= seen.covered <= 0.97 + seen.error(0.95):
                broken.append(f"coverage at {pairs} pairs is {seen.covered:.1%}")
            if ratio == 1.0 and seen.claimed > 0.05 + seen.error(0.05):
                broken.append(f"{seen.claimed:.1%} false positives at {pairs} pairs")
    for line in broken:
        print(f"BROKEN: {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
