"""The tree of exceptions: what a caller can do about it decides the type.

    LoadkitError
    ├── UsageError        the user's mistake, found before the first request: file, key, remedy (exit code 2)
    ├── EngineDied        the engine process ended while requests were under way (exit code 3)
    ├── SidecarLost       the sidecar does not answer, or its answer can't be read (the run goes on, host unverified)
    └── FolderError       a run folder can't be written or read

The server's failures are no exceptions: they are outcomes in a `Record`. Our own bugs propagate as they are.
"""

from __future__ import annotations


class LoadkitError(Exception):
    """Base of everything that loadkit raises on purpose."""


class UsageError(LoadkitError):
    """A mistake in options, scenario files or the environment; raised before the first request.

    Args:
        problem: what is wrong, in one sentence without a full stop.
        where: the file, option or environment variable that holds the mistake.
        key: the key inside the file, dotted (``sampling.temperature``), if there is one.
        remedy: what to do about it, starting with a verb ("did you mean …", "start the server …").
    """

    def __init__(self, problem: str, *, where: str | None = None, key: str | None = None, remedy: str | None = None):
        self.problem = problem
        self.where = where
        self.key = key
        self.remedy = remedy
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        place = ": ".join(part for part in (self.where, self.key) if part)
        sentence = f"{place}: {self.problem}" if place else self.problem
        whole = f"{sentence.rstrip(' .')}; {self.remedy}" if self.remedy else sentence
        return " ".join(whole.split())  # what a server said may have lines of its own


class EngineDied(LoadkitError):
    """The engine process ended while requests were under way; what it had recorded is in the run folder."""


class SidecarLost(LoadkitError):
    """The sidecar does not answer or answers something else; the message names it and the reason."""


class FolderError(LoadkitError):
    """A run folder can't be written (full disk, no permission) or holds nothing that can be read."""
