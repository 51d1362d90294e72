"""The whole stack as started by a user: `citewire up` on free ports, in its own folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import httpx
import psutil

from embedded_postgres import put_empty_data

T = TypeVar("T")

PROCESSES = ("postgres", "embedder", "retriever", "worker", "generator", "gateway")
PORTS = (
    *(f"CITEWIRE_{name}_PORT" for name in ("GATEWAY", "EMBEDDER", "RETRIEVER", "GENERATOR")),
    *(f"CITEWIRE_{name}_METRICS_PORT" for name in ("GATEWAY", "EMBEDDER", "RETRIEVER", "GENERATOR", "WORKER")),
)
START_SECONDS = 240.0


class StackError(AssertionError):
    """The stack didn't reach the expected state; the message ends with its output."""


class LocalStack:
    """A running `citewire up`. Process ids are read at each call, as the supervisor changes them."""

    def __init__(self, process: subprocess.Popen[bytes], data_dir: Path, output: Path) -> None:
        self.process = process
        self.data_dir = data_dir
        self.output = output
        """The output of `up --json`: one JSON object per line."""

    @property
    def base_url(self) -> str:
        """The gateway's address."""
        return str(self._run()["url"])

    @property
    def logs(self) -> Path:
        """The folder with one log file per process."""
        return self.data_dir / "logs"

    @property
    def environment(self) -> dict[str, str]:
        """Ports, targets and connection strings of this stack, by their `CITEWIRE_…` names."""
        return cast("dict[str, str]", self._run()["environment"])

    def dsn(self, role: str = "postgres") -> str:
        """A connection string to the stack's database; the superuser's by default."""
        return self.environment["CITEWIRE_GATEWAY_DSN"].replace("//citewire_chat@", f"//{role}@", 1)

    def pids(self) -> dict[str, int]:
        """Process ids by name; a process that is being restarted is missing."""
        return {name: int(cast("int", state["pid"])) for name, state in self._processes().items() if "pid" in state}

    def pid(self, name: str) -> int:
        """Process number of one of PROCESSES."""
        return self.pids()[name]

    def ports(self, purpose: str = "metrics_port") -> dict[str, int]:
        """Ports by process name; `port` for HTTP and gRPC."""
        return {name: int(cast("int", s[purpose])) for name, s in self._processes().items() if purpose in s}

    def restarts(self, name: str) -> int:
        """Number of restarts of a process by the supervisor."""
        return int(cast("int", self._processes()[name]["restarts"]))

    def metrics(self, name: str) -> str:
        """A process's metrics, as Prometheus reads them."""
        response = httpx.get(f"http://127.0.0.1:{self.ports()[name]}/metrics", trust_env=False, timeout=10)
        response.raise_for_status()
        return response.text

    def metric(self, name: str, series: str) -> float:
        """The sum of all samples of a series (`name` or `name{label="value"`, up to where it is given)."""
        lines = [line for line in self.metrics(name).splitlines() if line.startswith(series)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Sends a signal to one process; returns the number it had."""
        pid = self.pid(name)
        os.kill(pid, number)
        return pid

    def kill_next(
        self, name: str, old_pid: int, number: signal.Signals = signal.SIGKILL, *, seconds: float = 60
    ) -> int:
        """Sends a signal to the process that follows the one with this number, as soon as there is one."""

        def look() -> int | None:
            pid = self.pids().get(name, old_pid)
            return pid if pid != old_pid else None

        pid = self.wait(look, f"{name} was not started again", seconds=seconds)
        os.kill(pid, number)
        return pid

    def wait_ended(self, name: str, pid: int, *, seconds: float = 60) -> None:
        """Waits until a process that was sent a signal has ended."""
        self.wait(lambda: None if psutil.pid_exists(pid) else True, f"{name} did not end", seconds=seconds)

    def wait_restarted(self, name: str, old_pid: int, *, seconds: float = 60) -> int:
        """Waits until a process that was ended runs again and is ready; returns its new number."""

        def look() -> int | None:
            state = self._processes()[name]
            pid = state.get("pid")
            return pid if isinstance(pid, int) and pid != old_pid and state["state"] == "ready" else None

        return self.wait(look, f"{name} did not come back", seconds=seconds)

    def wait_ready(self, *, seconds: float = 60) -> None:
        """Waits until the gateway reports that everything works."""

        def look() -> bool | None:
            try:
                return httpx.get(f"{self.base_url}/readyz", trust_env=False, timeout=5).status_code == 200 or None
            except httpx.HTTPError:
                return None

        self.wait(look, "the stack is not ready", seconds=seconds)

    def wait(self, look: Callable[[], T | None], complaint: str, *, seconds: float = 60) -> T:
        """Polls `look` until it returns a result."""
        deadline = time.monotonic() + seconds
        while True:
            result = look()
            if result is not None:
                return result
            if time.monotonic() > deadline or self.process.poll() is not None:
                code = self.process.poll()
                printed = self.output.read_text(errors="replace")[-6000:]
                raise StackError(f"{complaint} within {seconds:g} s (exit code {code}):\n{printed}")
            time.sleep(0.05)  # nothing announces this state

    def events(self, kind: str) -> list[dict[str, object]]:
        """The lines of one kind that `up --json` has printed (`ready`, `process_ended`, `welcome`, `log`, …)."""
        *lines, _ = self.output.read_text(errors="replace").split("\n")  # the last may be half written
        results = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in results if event.get("event") == kind]

    def descendants(self) -> list[psutil.Process]:
        """All running processes that the stack has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self, number: signal.Signals = signal.SIGTERM, *, seconds: float = 90) -> int:
        """Stops `up` with a signal; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(seconds)

    def _run(self) -> dict[str, object]:
        return json.loads((self.data_dir / "run.json").read_bytes())

    def _processes(self) -> dict[str, dict[str, object]]:
        return cast("dict[str, dict[str, object]]", self._run()["processes"])


def prepared(data_dir: Path) -> Path:
    """Puts an empty database into a data folder, created if necessary, so that `up` doesn't create one.

    A start from nothing is in test_up.py, test_up_start.py and test_first_hour.py.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    put_empty_data(data_dir / "postgres")
    return data_dir


@contextmanager
def local_stack(
    data_dir: Path,
    *,
    arguments: tuple[str, ...] = ("--no-sample",),
    environ: Mapping[str, str] | None = None,
    inside: tuple[str, ...] = (),
) -> Generator[LocalStack]:
    """Starts `citewire up` on free ports and ends it afterwards; yields once everything is ready.

    Args:
        data_dir: its data folder, made if it is missing; kept afterwards.
        arguments: further arguments of `up`.
        environ: further variables.
        inside: a command that becomes `up`, whose own is appended.

    Raises:
        StackError: it isn't ready in time.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    variables = dict.fromkeys(PORTS, "0") | {"CITEWIRE_DATA_DIR": str(data_dir)}
    output = data_dir / "up.out"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [*inside, sys.executable, "-m", "citewire_cli", "up", "--json", *arguments],
            env={**os.environ, **variables, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    stack = LocalStack(process, data_dir, output)
    try:
        stack.wait(lambda: stack.events("ready") or None, "the stack did not start", seconds=START_SECONDS)
        yield stack
    finally:
        try:
            stack.stop()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
