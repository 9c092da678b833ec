"""The few questions and the two orders that the sidecar has for a Docker engine; foreign exceptions become `Missing` here.

`docker stats` is not among them: one reading takes a second of the engine's time and shows nothing of CUDA memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from loadkit.sidecar.samples import Missing

TIMEOUT_S = 5.0  # under memory pressure the engine may hang; a sampler must not hang with it


class Gone(Missing):
    """There is no container of that name."""


class DockerEngine:
    """One connection pool to one engine; opened at the first question, so that importing costs nothing where none is asked."""

    def __init__(self, base_url: str | None = None, *, timeout_s: float = TIMEOUT_S):
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._client: Any = None

    def inspect(self, name: str) -> dict[str, Any]:
        """`GET /containers/NAME/json`.

        Raises:
            Gone: there is no such container.
            Missing: the engine does not answer, or the socket is denied.
        """
        with _foreign(name):
            found: dict[str, Any] = self._connected().inspect_container(name)
            return found

    def image(self, image_id: str) -> dict[str, Any]:
        """`GET /images/ID/json`; raises as `inspect`."""
        with _foreign(image_id):
            found: dict[str, Any] = self._connected().inspect_image(image_id)
            return found

    def events(self, name: str, opened: Callable[[Any], None]) -> Iterator[dict[str, Any]]:
        """Events of one container, for ever; `opened` gets the stream, whose `close` ends it from another thread."""
        with _foreign(name):
            stream = self._connected().events(decode=True, filters={"container": name, "type": "container"})
            opened(stream)
            yield from stream

    def stop(self, container_id: str, *, grace_s: int) -> None:
        """SIGTERM, then SIGKILL after `grace_s`; returns when the container has ended."""
        with _foreign(container_id):
            self._connected().stop(container_id, timeout=grace_s)

    def kill(self, container_id: str) -> None:
        with _foreign(container_id):
            self._connected().kill(container_id, signal="SIGKILL")

    def _connected(self) -> Any:
        if self._client is None:
            from docker import APIClient  # 15 MB and 0.2 s that a sidecar without a container does not pay

            self._client = APIClient(base_url=self._base_url, version="auto", timeout=self._timeout_s)
        return self._client


@contextmanager
def _foreign(name: str) -> Iterator[None]:
    """Docker's, requests' and urllib3's exceptions, in one place.

    requests wraps the socket's errors differently by the moment they happen, hence the three families.
    """
    from docker.errors import APIError, DockerException, NotFound
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except NotFound as problem:
        raise Gone(f"there is no container {name}") from problem
    except APIError as problem:
        raise Missing(f"the Docker engine refused: {problem.explanation or problem}") from problem
    except (DockerException, RequestException, HTTPError, OSError) as problem:
        raise Missing(_reason(problem)) from problem


def _reason(problem: BaseException) -> str:
    """The errno words of the innermost cause: the wrapping texts are a screen long."""
    text = str(problem)
    if "Permission denied" in text:
        return "the Docker socket is denied: run as root or in the group docker"
    if "No such file or directory" in text:
        return "there is no Docker socket: is the engine installed, is the socket mounted?"
    if "Connection refused" in text:
        return "nothing listens on the Docker socket"
    if "timed out" in text.lower():
        return f"the Docker engine did not answer within {TIMEOUT_S:.0f} s"
    return f"the Docker engine does not answer ({text[:160]})"
