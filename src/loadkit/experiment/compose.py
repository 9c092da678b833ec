"""A server in a container that compose starts (v2 or docker-compose 1.29), from files and overrides as the user writes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import docker
import yaml
from docker.errors import DockerException

from loadkit.errors import UsageError
from loadkit.experiment.plan import Arm
from loadkit.experiment.server import ServerFailed, answers
from loadkit.experiment.server_log import ServerLog
from loadkit.secrets import masked, masked_json

COMPOSE_S = 600
READ_AT_ONCE = 1 << 20


@cache
def compose_command() -> tuple[str, ...]:
    """`docker compose` where the plugin is installed, else `docker-compose`.

    Raises:
        UsageError: neither is there.
    """
    plugin = ("docker", "compose")
    if shutil.which("docker") and subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0:
        return plugin
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise UsageError("compose is not installed", remedy="install the compose plugin, or docker-compose")


class ComposeServer:
    """One service of a compose project. Everything that is not asked of compose is asked of the Docker engine."""

    restarts = True

    def __init__(self, arm: Arm, files: Sequence[Path]):
        self._arm = arm
        self._files = tuple(files)
        self._engine = _engine()

    def up(self, log: ServerLog) -> None:  # noqa: ARG002 - its log is read from the engine
        """Start the service (all services, where none is named).

        Raises:
            ServerFailed: compose refuses; its message is in the error.
        """
        self._compose("up", "-d", *self._only)

    def ended(self) -> str | None:
        container = self.container()
        if container is None:
            return "the container is gone"
        state = container.attrs["State"]
        if state["Status"] in ("exited", "dead"):
            return f"the container exited with {state['ExitCode']}" + (" (OOMKilled)" if state.get("OOMKilled") else "")
        if container.attrs.get("RestartCount", 0) > 0:
            return f"the container restarts by itself (exit code {state['ExitCode']})"
        return None

    def base_url(self) -> str | None:
        """Given, or the published port on loopback, or the container's own address where no port is published."""
        if self._arm.base_url is not None:
            return self._arm.base_url
        container = self.container()
        return None if container is None else _address(container.attrs, self._arm.port)

    def healthy(self) -> bool:
        """The container's own health check, if it has one, and the server's route."""
        container = self.container()
        if container is None:
            return False
        health = container.attrs["State"].get("Health", {}).get("Status", "healthy")
        return health == "healthy" and answers(self.base_url(), self._arm.health)

    def facts(self) -> dict[str, Any]:
        """Arguments (masked), image with digests and labels, restart policy, start."""
        container = self.container()
        if container is None:
            return {}
        found = container.attrs
        image = self._image(found["Image"])
        return {
            "base_url": self.base_url(),
            "container": found["Name"].lstrip("/"),
            "container_id": found["Id"],
            "started_at": found["State"]["StartedAt"],
            "arguments": list(masked([found["Path"], *found["Args"]])),
            "image": found["Config"]["Image"],
            "image_id": found["Image"],
            **image,
            "restart_policy": found["HostConfig"].get("RestartPolicy", {}).get("Name", ""),
        }

    def save_log(self, log: ServerLog) -> None:
        """The container's log so far, with times, into the file; bounded while it is read."""
        container = self.container()
        if container is None:
            return
        log.path.unlink(missing_ok=True)
        written = 0
        with log.path.open("ab") as file:
            for part in container.logs(stream=True, timestamps=True, follow=False):
                file.write(part)
                written += len(part)
                if written > READ_AT_ONCE:
                    file.flush()
                    log.bound()
                    written = 0
        log.bound()

    def down(self) -> None:
        """Stop and remove the service (the project, where no service is named); volumes stay.

        Raises:
            ServerFailed: compose refuses.
        """
        if self._only:
            self._compose("rm", "--stop", "--force", *self._only)
        else:
            self._compose("down")

    def running(self) -> str | None:
        container = self.container()
        if container is None or container.attrs["State"]["Status"] in ("exited", "dead", "created"):
            return None
        return f"the container {container.name}"

    def container(self) -> Any | None:
        """The service's container, freshly inspected; `None` while there is none.

        Found by the labels that compose (v1 and v2) puts on it: asking compose itself takes seconds on a busy host.

        Raises:
            ServerFailed: the Docker engine does not answer.
        """
        labels = [f"com.docker.compose.project={self._project}"]
        labels += [f"com.docker.compose.service={self._arm.service}"] if self._arm.service else []
        try:
            found = self._engine.containers.list(all=True, filters={"label": labels}, ignore_removed=True)
        except (DockerException, OSError) as problem:
            raise ServerFailed(f"the Docker engine does not answer: {problem}") from problem
        if len(found) < 2 or self._arm.service:
            return found[0] if found else None
        return next((container for container in found if _publishes(container.attrs)), found[0])

    def name_ahead(self) -> str:
        """What the container will be called, so that it can be watched from before its start."""
        service = self._service_ahead()
        named = self._config["services"].get(service, {}).get("container_name")
        if named:
            return str(named)
        sign = "_" if compose_command() == ("docker-compose",) else "-"
        return f"{self._project}{sign}{service}{sign}1"

    @property
    def _only(self) -> tuple[str, ...]:
        return (self._arm.service,) if self._arm.service else ()

    @cached_property
    def _project(self) -> str:
        """What compose calls the project: as told, by its variable, by the file's `name` (v2), or the folder's name."""
        told = self._arm.project or {**os.environ, **self._arm.environment}.get("COMPOSE_PROJECT_NAME")
        return told or self._config.get("name") or _project_name(self._files[0].parent)

    def _services(self) -> dict[str, Any]:
        services: dict[str, Any] = self._config["services"]
        return services

    def _service_ahead(self) -> str:
        services = self._services()
        publishing = [name for name, service in services.items() if service.get("ports")]
        return self._arm.service or (publishing or list(services))[0]

    @cached_property
    def _config(self) -> dict[str, Any]:
        """The merged files, as compose reads them; once, since they are not to change during an experiment."""
        config: dict[str, Any] = yaml.safe_load(self._compose("config"))
        return config

    def _image(self, image_id: str) -> dict[str, Any]:
        image = self._engine.images.get(image_id)
        return {"image_digests": image.attrs.get("RepoDigests") or [], "labels": masked_json(image.labels)}

    def _compose(self, *words: str) -> str:
        command = [*compose_command(), *(["-p", self._arm.project] if self._arm.project else [])]
        command += [word for file in self._files for word in ("-f", str(file))]
        try:
            result = subprocess.run(
                [*command, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                cwd=self._files[0].parent,
                env={**os.environ, **self._arm.environment},
                timeout=COMPOSE_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as problem:
            raise ServerFailed(f"compose {words[0]} took longer than {COMPOSE_S} s") from problem
        if result.returncode != 0:
            said = "; ".join(result.stderr.strip().splitlines()[-4:])
            raise ServerFailed(f"`{' '.join([*compose_command(), *words])}` failed: {said}")
        return result.stdout


def _engine() -> Any:
    try:
        return docker.from_env()
    except DockerException as problem:
        raise UsageError(f"the Docker engine does not answer: {problem}", remedy="start dockerd") from problem


def _publishes(attributes: dict[str, Any]) -> bool:
    return any(attributes["NetworkSettings"].get("Ports", {}).values())


def _address(attributes: dict[str, Any], port: int | None) -> str | None:
    """Where a container answers from this host."""
    settings = attributes["NetworkSettings"]
    ports: dict[str, Any] = settings.get("Ports") or {}
    published = {int(key.partition("/")[0]): value for key, value in ports.items() if value}
    for number, bindings in published.items():
        if port in (None, number):
            return f"http://127.0.0.1:{bindings[0]['HostPort']}"
    inside = port or next((int(key.partition("/")[0]) for key in ports), None)
    if inside is None:
        return None
    if attributes["HostConfig"].get("NetworkMode") == "host":
        return f"http://127.0.0.1:{inside}"
    addresses = [network.get("IPAddress") for network in settings.get("Networks", {}).values()]
    address = next((address for address in addresses if address), None)
    return None if address is None else f"http://{address}:{inside}"


def _project_name(folder: Path) -> str:
    return re.sub(r"[^-_a-z0-9]", "", folder.name.lower())
