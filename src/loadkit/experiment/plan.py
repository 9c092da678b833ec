"""The experiment's file: two arms, what is measured on each launch, and everything that is decided beforehand."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from loadkit.compare.comparison import check_name
from loadkit.compare.judgement import POCOCK_ALPHA
from loadkit.errors import UsageError
from loadkit.schema import Model, parse, read_yaml

GIB = 1 << 30


def _words(value: Any) -> Any:
    """A list of words, or a command line."""
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _files(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _share(value: Any) -> Any:
    """ "2%" or 0.02."""
    if isinstance(value, str) and value.strip().endswith("%"):
        return float(value.strip().removesuffix("%")) / 100
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Files = Annotated[tuple[Path, ...], BeforeValidator(_files)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_files)]
Share = Annotated[float, BeforeValidator(_share), Field(gt=0, lt=1)]


class Proof(Model):
    """What shows that an arm's flag is really in force; a launch on which it does not show is aborted.

    `log` and `no_log` are patterns that the server's log up to its first answer has to hold, or must not; `argument` and
    `no_argument` words of its command line.
    """

    log: Patterns = ()
    no_log: Patterns = ()
    argument: Patterns = ()
    no_argument: Patterns = ()


class Arm(Model):
    """One configuration: compose files, or a command that starts the server, or the address of one that already runs.

    Attributes:
        compose: compose file and overrides, as after `-f`.
        service: the server's service; the only one that publishes a port, where there is one.
        project: compose project; compose's own default where absent.
        environment: variables for compose and for `start`.
        start: shell command that runs the server in the foreground.
        stop: shell command that stops it; SIGTERM to its process group where absent.
        base_url: where the server answers; for compose found from the published port or the container's address.
        port: port inside the container, where several are exposed or none is published.
        health: path that answers 200 as soon as the server can be measured.
        prepare: shell command that is run once before anything is stopped (an image build); its output is kept.
        proof: what shows that the flag is in force.
    """

    compose: Files = ()
    service: str | None = None
    project: str | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    start: str | None = None
    stop: str | None = None
    base_url: str | None = None
    port: int | None = None
    health: str = "/health"
    prepare: str | None = None
    proof: Proof = Proof()

    @model_validator(mode="after")
    def _one_way_to_be_there(self) -> Arm:
        if self.compose and self.start:
            raise ValueError("compose and start are two ways to start a server: keep one")
        if not (self.compose or self.start or self.base_url):
            raise ValueError("an arm needs compose, start or base_url")
        if self.start and not self.base_url:
            raise ValueError("an arm with start needs base_url, the address at which that server answers")
        return self

    @property
    def kind(self) -> Literal["compose", "command", "running"]:
        return "compose" if self.compose else "command" if self.start else "running"


class Waits(Model):
    """Limits. `memory_slack_gib` is how near to the baseline memory has to come back between launches."""

    healthy_s: float = Field(default=900, gt=0)
    memory_s: float = Field(default=900, gt=0, le=900)
    memory_slack_gib: float = Field(default=1.0, gt=0)
    run_s: float = Field(default=4 * 3600, gt=0)
    settle_s: float = Field(default=3.0, ge=0)


class ExperimentFile(Model):
    """`plan.yaml`, checked.

    `primary` is the one metric that the verdict is about, named before the first run. Either `pairs` is fixed, or `looks`
    names at how many pairs the data may be looked at (6, 12, 18), each at a stricter α. `default` is the arm that is brought
    back at the end, `none` if nothing is to run. `smoke` is a locustfile that has to pass on it.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    arms: dict[str, Arm]
    default: str
    primary: str
    factors: Patterns = ()
    pairs: int | None = Field(default=None, ge=1)
    looks: tuple[int, ...] = ()
    seed: int = 0
    margin: Share = 0.02
    slower_at_most: Share | None = None
    locustfile: Path
    options: Words = ()
    smoke: Path | None = None
    sidecar: bool | str = True
    waits: Waits = Waits()
    server_log_mib: float = Field(default=64, gt=0)
    give_up_after: int = Field(default=2, ge=1)

    @model_validator(mode="after")
    def _whole(self) -> ExperimentFile:
        if len(self.arms) != 2:
            raise ValueError("an experiment compares two arms")
        if self.default not in (*self.arms, "none"):
            raise ValueError("default names the arm to be running at the end, or none")
        if (self.pairs is None) == (not self.looks):
            raise ValueError("give pairs (a fixed number) or looks (such as [6, 12, 18]), one of them")
        steps = {later - earlier for earlier, later in zip((0, *self.looks), self.looks, strict=False)}
        if self.looks and (len(steps) != 1 or min(steps) < 1 or len(self.looks) not in POCOCK_ALPHA):
            raise ValueError("looks are up to five, equally far apart, such as [6, 12, 18]")
        return self

    @property
    def most_pairs(self) -> int:
        return self.looks[-1] if self.looks else self.pairs or 0

    @property
    def declared(self) -> dict[str, Any]:
        """What was decided beforehand, as each run folder keeps it."""
        return {
            "name": self.name,
            "primary": self.primary,
            "factors": list(self.factors),
            "looks": list(self.looks),
            "margin": self.margin,
            "slower_at_most": self.slower_at_most,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The checked file with the paths in it made absolute, and the hash by which a resumed one is known to be the same."""

    file: ExperimentFile
    path: Path
    text: bytes

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text).hexdigest()

    @property
    def arm_names(self) -> tuple[str, str]:
        """A (the baseline) and B, in the order of the file."""
        first, second = self.file.arms
        return first, second

    def located(self, path: Path) -> Path:
        """A path of the file: relative ones start at the file's own folder."""
        return path if path.is_absolute() else (self.path.parent / path).resolve()


def load(path: Path) -> Experiment:
    """The experiment in `path`.

    Raises:
        UsageError: the file can't be read, has a mistake, or names a file that is not there.
    """
    loaded = Experiment(
        file=parse(ExperimentFile, read_yaml(path), where=str(path)), path=path.resolve(), text=path.read_bytes()
    )
    try:
        check_name(loaded.file.primary)
    except UsageError as mistake:
        raise UsageError(mistake.problem, where=str(path), key="primary", remedy=mistake.remedy) from None
    named: dict[str, tuple[Path, ...]] = {"locustfile": (loaded.file.locustfile,)}
    named["smoke"] = (loaded.file.smoke,) if loaded.file.smoke else ()
    named |= {f"arms.{name}.compose": arm.compose for name, arm in loaded.file.arms.items()}
    for key, files in named.items():
        for file in files:
            if not loaded.located(file).is_file():
                remedy = "paths are relative to the experiment's file"
                raise UsageError(f"there is no file {loaded.located(file)}", where=str(path), key=key, remedy=remedy)
    return loaded
