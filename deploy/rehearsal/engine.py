"""Podman for this rehearsal: a network whose DNS returns every container behind a name, and containers on it.

Everything is named `citewire-rehearsal-…`, so that a rehearsal can remove the leftovers of an earlier one.
"""

import asyncio
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = "citewire-rehearsal"
PROGRAMS = {"podman": "podman", "buildah": "buildah", "iptables": "iptables", "nsenter": "util-linux"}
"""Required programs and their Debian packages. Podman's own DNS (aardvark-dns) is checked separately."""

_AARDVARK = ("/usr/lib/podman/aardvark-dns", "/usr/libexec/podman/aardvark-dns")
_CONFIG = """
[containers]
# As many as a container can have on a machine that doesn't let it raise them.
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""

HARDENED = (
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--tmpfs=/tmp:rw,nosuid,nodev,size=512m",
)
"""Options for each of our containers. The images themselves specify a user other than root."""


class EngineError(RuntimeError):
    """Podman failed, or something is missing; the message has the details."""


@dataclass(frozen=True, slots=True)
class Container:
    """A running container: `address` is its own on the network, `pid` its first process on the host."""

    name: str
    address: str
    pid: int


@dataclass(slots=True)
class Engine:
    """Runs podman with its own configuration; the machine's isn't changed."""

    network: str = PREFIX
    _environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @staticmethod
    def open() -> "Engine":
        """Checks the requirements and writes the configuration.

        Raises:
            EngineError: Something is missing; the message says how to install it.
        """
        problems = missing(os.geteuid(), shutil.which, Path.exists)
        if problems:
            raise EngineError("\n".join(("The rehearsal can't run here:", *(f"  {line}" for line in problems))))
        config = Path(tempfile.gettempdir()) / f"{PREFIX}-containers.conf"
        config.write_text(_CONFIG)
        return Engine(_environ={**os.environ, "CONTAINERS_CONF": str(config)})

    async def podman(self, *arguments: str, may_fail: bool = False) -> str:
        """Runs podman; returns its output.

        Raises:
            EngineError: It failed.
        """
        return await _run(("podman", *arguments), self._environ, may_fail=may_fail)

    async def create_network(self) -> None:
        """Creates the network, after removing the leftovers of an earlier rehearsal."""
        await self.clear()
        await self.podman("network", "create", self.network)

    async def clear(self) -> None:
        """Removes every container, volume and network of a rehearsal."""
        names = (await self.podman("ps", "--all", "--filter", f"name=^{PREFIX}-", "--format", "{{.Names}}")).split()
        if names:
            await self.podman("rm", "--force", "--time=0", *names)
        volumes = await self.podman("volume", "ls", "--filter", f"name=^{PREFIX}-", "--format", "{{.Name}}")
        if volumes:
            await self.podman("volume", "rm", "--force", *volumes.split())
        await self.podman("network", "rm", "--force", self.network, may_fail=True)

    async def start(
        self,
        name: str,
        image: str,
        *command: str,
        alias: str,
        environ: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> Container:
        """Starts a container in the background, hardened.

        Args:
            name: The name without the rehearsal's prefix.
            image: The image.
            command: The arguments for the image's entrypoint.
            alias: The name under which the network's DNS returns its address, along with those of other replicas.
            environ: Its environment variables.
            options: Additional options of `podman run`.
        """
        variables = [f"--env={key}={value}" for key, value in environ.items()]
        arguments = (*HARDENED, *variables, *options, f"--network={self.network}", f"--network-alias={alias}")
        full = f"{PREFIX}-{name}"
        await self.podman("run", "--detach", f"--name={full}", "--pull=never", *arguments, image, *command)
        return await self.inspect(full)

    async def job(
        self, name: str, image: str, *command: str, environ: Mapping[str, str], options: Sequence[str] = ()
    ) -> str:
        """Runs a container to its end, hardened too; returns its output."""
        variables = [f"--env={key}={value}" for key, value in environ.items()]
        arguments = (*HARDENED, *variables, *options, f"--network={self.network}")
        full = f"{PREFIX}-{name}"
        return await self.podman("run", "--rm", f"--name={full}", "--pull=never", *arguments, image, *command)

    async def inspect(self, name: str) -> Container:
        """Returns a running container's address and process."""
        inspected: dict[str, Any] = json.loads(await self.podman("container", "inspect", name))[0]
        networks: dict[str, dict[str, Any]] = inspected["NetworkSettings"]["Networks"]
        return Container(name, networks[self.network]["IPAddress"], inspected["State"]["Pid"])

    async def wait(self, container: Container, *, seconds: float) -> int:
        """Waits until a container has ended; returns its exit code."""
        async with asyncio.timeout(seconds):
            return int(await self.podman("wait", container.name))

    async def signal(self, container: Container, name: str) -> None:
        """Sends a signal, such as `TERM` or `KILL`."""
        await self.podman("kill", f"--signal={name}", container.name)

    async def remove(self, container: Container) -> None:
        """Kills a container if it runs, and removes it."""
        await self.podman("rm", "--force", "--time=0", "--ignore", container.name)

    async def logs(self, container: Container, *, lines: int = 40) -> str:
        """Returns its last output, including errors."""
        command = shlex.join(("podman", "logs", f"--tail={lines}", container.name))
        return await _run(("sh", "-c", f"{command} 2>&1"), self._environ, may_fail=True)

    async def cut_off(self, container: Container) -> None:
        """Drops every packet from and to a container, silently: a partition, not a closed port."""
        for chain in ("INPUT", "OUTPUT"):
            await self._in_network_of(container, "iptables", "--insert", chain, "--jump", "DROP")

    async def join_again(self, container: Container) -> None:
        """Ends the partition."""
        for chain in ("INPUT", "OUTPUT"):
            await self._in_network_of(container, "iptables", "--delete", chain, "--jump", "DROP")

    async def _in_network_of(self, container: Container, *command: str) -> None:
        await _run(("nsenter", f"--target={container.pid}", "--net", *command), self._environ)


def missing(user: int, which: Callable[[str], str | None], exists: Callable[[Path], bool]) -> list[str]:
    """Returns the missing requirements, one line each.

    Args:
        user: The current user's id.
        which: `shutil.which`, or a test's replacement.
        exists: `Path.exists`, or a test's replacement.
    """
    problems: list[str] = []
    if sys.platform != "linux":
        problems.append("containers with a network of their own: it needs Linux")
    if user != 0:
        problems.append("root: networks between containers, and partitions in them, are root's (sudo make rehearsal)")
    missing = [package for program, package in PROGRAMS.items() if which(program) is None]
    if not any(exists(Path(place)) for place in _AARDVARK):
        missing += ["aardvark-dns", "netavark"]
    if missing:
        problems.append(f"packages (Debian, Ubuntu): apt-get install {' '.join(missing)} runc debootstrap")
    return problems


async def _run(command: Sequence[str], environ: Mapping[str, str], *, may_fail: bool = False) -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environ
    )
    try:
        out, errors = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode and not may_fail:
        output = (out + errors).decode(errors="replace").strip()
        raise EngineError(f"{shlex.join(command[:6])} … failed with {process.returncode}:\n{output[-4000:]}")
    return out.decode(errors="replace").strip()
