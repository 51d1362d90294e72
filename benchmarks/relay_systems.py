"""Starts the systems of the relay benchmark, each pinned to one core, and stops them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from pathlib import Path

import aiohttp
import psutil

from benchmarks import litellm_environment

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120
STOP_SECONDS = 20
_CPU_CLOCK = 2
"""Converts a process id to a clock id, like Linux's `clock_getcpuclockid`."""

# Pins itself to a core and then becomes the program, so that all its threads stay there.
_PINNED = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execvp(sys.argv[2], sys.argv[2:])"


class Process:
    """A child process on one core, with its CPU time. Created by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._seen = psutil.Process(process.pid)

    async def announced_port(self) -> int:
        """The port that the child announces as JSON in its first line of output."""
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            self.check_running()
        return int(json.loads(line)["port"])

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Current user and system time of the process and its children; exact, unlike psutil's steps of 10 ms."""
        family = [self._seen, *self._seen.children(recursive=True)]
        return sum(time.clock_gettime(~member.pid << 3 | _CPU_CLOCK) for member in family)

    def check_running(self) -> None:
        """Raises with the end of the log if the process has ended."""
        if self._process.returncode is not None:
            msg = f"ended with {self._process.returncode}:\n{self._log.read_text(errors='replace')[-3000:]}"
            raise RuntimeError(msg)

    async def finished(self) -> None:
        """Waits for the end of a command; raises with its log if it failed."""
        if await self._process.wait() != 0:
            self.check_running()

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL after a while."""
        if self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()


@contextlib.asynccontextmanager
async def start(
    command: Sequence[str | Path],
    *,
    core: int,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
    announces: bool = False,
) -> AsyncGenerator[Process]:
    """Runs a command on one core during the block; its output goes to the log.

    Args:
        command: the program and its arguments.
        core: the core for all its threads.
        log: the file to append its output to.
        environment: additional variables.
        folder: its working directory.
        announces: its standard output is read with `announced_port` instead.
    """
    with log.open("ab") as errors:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", _PINNED, str(core), *map(str, command)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if announces else errors,
            stderr=errors,
            env={**plain_environment(), **(environment or {})},
            cwd=folder,
        )
    process = Process(child, log)
    try:
        yield process
    finally:
        await process.stop()


@contextlib.asynccontextmanager
async def upstream(*, core: int, rate: float, logs: Path) -> AsyncGenerator[str]:
    """The paced upstream in a separate process; yields its root URL."""
    command = [sys.executable, "-m", "benchmarks.upstream", "--rate", str(rate)]
    async with start(command, core=core, log=logs / "upstream.log", announces=True) as process:
        yield f"http://127.0.0.1:{await process.announced_port()}"


@contextlib.asynccontextmanager
async def litellm(*, core: int, upstream_url: str, logs: Path) -> AsyncGenerator[tuple[int, Process]]:
    """LiteLLM's proxy with its documentation's production settings and one worker; yields its port."""
    program = await asyncio.to_thread(litellm_environment.install)
    port = free_port()
    settings = {
        "model_list": [
            {
                "model_name": "paced",
                "litellm_params": {"model": "openai/paced", "api_base": f"{upstream_url}/v1", "api_key": "none"},
            }
        ],
        "litellm_settings": {"telemetry": False, "num_retries": 0, "request_timeout": 600},
    }
    config = logs / "litellm.json"
    config.write_text(json.dumps(settings))  # JSON is YAML
    environment = {
        **litellm_environment.environment(),
        # No authentication, like our own process with auth off.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    command = [program, "--config", config, "--host", "127.0.0.1", "--port", str(port)]
    async with start(command, core=core, log=logs / "litellm.log", environment=environment) as process:
        await wait_for_http(f"http://127.0.0.1:{port}/health/liveliness", process)
        yield port, process


async def wait_for_http(url: str, *processes: Process) -> None:
    """Waits until the URL answers 200; raises if one of the processes ends before."""
    async with asyncio.timeout(START_SECONDS), aiohttp.ClientSession() as session:
        while True:
            for process in processes:
                process.check_running()
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.1)  # polling another process's readiness


def free_port() -> int:
    """A free TCP port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def log_folder() -> Generator[Path]:
    """A temporary folder for logs, kept and named if the block fails."""
    folder = Path(tempfile.mkdtemp(prefix="cw-relay-"))
    try:
        yield folder
    except BaseException:
        print(f"the logs are in {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder)


def plain_environment() -> dict[str, str]:
    """The environment without variables that would change a system's behaviour: proxies, providers, our own settings.

    `citewire_kit` sets `GRPC_EXPERIMENTS` in this process; an earlier commit's processes must not inherit it.
    """
    left_out = ("CITEWIRE_", "GRPC_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "LITELLM_", "OTEL_", "VIRTUAL_ENV", "PYTHON")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(left_out) and not name.lower().endswith("_proxy")
    }
