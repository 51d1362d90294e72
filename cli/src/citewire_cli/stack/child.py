"""One child process: started behind the guard, with its output read, and always terminated."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from citewire_cli.stack.logs import LineSplitter, RotatingFile
from citewire_cli.stack.postgres import Account

GUARD = Path(__file__).with_name("guard.py")
TAIL_LINES = 25


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A process to start, with its name, readiness and shutdown."""

    name: str
    """Shown before its log lines, and the name of its log file."""
    command: tuple[str, ...]
    """Absolute program and arguments."""
    environ: Mapping[str, str]
    """Its whole environment."""
    ready: Callable[[], Awaitable[bool]]
    """Asked again and again after the start; True once the process can be used."""
    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    """Signals that end it, each after the previous one's patience; SIGKILL follows automatically."""
    orphan_signal: signal.Signals = signal.SIGKILL
    """The signal that the kernel sends to it if `up` dies unexpectedly."""
    account: Account | None = None
    """The user to run it as, None for ours."""
    search_anywhere: bool = False
    """See guard.py."""
    prepare: Callable[[], None] = lambda: None
    """Called before every start."""
    attributes: Mapping[str, int] | None = None
    """Facts for the run file (ports)."""


class RunningChild:
    """A started process. Its standard output and error are one stream, read line by line until it ends."""

    def __init__(self, process: Process, pump: asyncio.Task[None], tail: deque[bytes], lifeline: int | None) -> None:
        self._process = process
        self._pump = pump
        self._tail = tail
        self._lifeline = lifeline
        self._ended = asyncio.create_task(self._end(), name=f"end of {process.pid}")

    @property
    def pid(self) -> int:
        """Process number; also the number of its process group."""
        return self._process.pid

    @property
    def tail(self) -> list[str]:
        """Its last lines."""
        return [line.decode("utf-8", "replace") for line in self._tail]

    async def wait(self) -> int:
        """Waits for its end and for the output it has written; returns the exit code, negative for a signal."""
        return await asyncio.shield(self._ended)

    async def stop(self, signals: Sequence[signal.Signals], patience: float) -> int:
        """Ends it: each of `signals`, `patience` seconds after the one before, then SIGKILL; returns as `wait`."""
        for number in signals:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    return await self.wait()
        self.kill()
        return await self.wait()

    def kill(self) -> None:
        """SIGKILL to all of its process group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def _end(self) -> int:
        code = await self._process.wait()
        # What it has started in its group must not outlive it.
        self.kill()
        if self._lifeline is not None:
            os.close(self._lifeline)
        # Children with a session of their own (Postgres') hold the pipe until they notice: don't wait long for them.
        _, unfinished = await asyncio.wait({self._pump}, timeout=2)
        for pump in unfinished:
            pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        return code


async def start_child(
    spec: ChildSpec, log: RotatingFile, on_line: Callable[[bytes], None], *, pipe_guard: bool = sys.platform != "linux"
) -> RunningChild:
    """Starts `spec` in a process group of its own.

    Args:
        spec: what to start.
        log: gets its output, whole.
        on_line: called with each line of it.
        pipe_guard: use the guard's portable way (see guard.py).

    Raises:
        OSError: the process cannot be made.
    """
    spec.prepare()
    options = ["--parent", str(os.getpid()), "--orphan-signal", str(int(spec.orphan_signal))]
    if spec.account is not None:
        options += ["--uid", str(spec.account.uid), "--gid", str(spec.account.gid)]
        options += ["--search-anywhere"] if spec.search_anywhere else []
    # The output pipe is our own: asyncio's would tie the news of the child's end to the end of all who inherit it.
    read_end, write_end = os.pipe()
    watched, lifeline = os.pipe() if pipe_guard else (None, None)
    if watched is not None:
        options += ["--pipe", str(watched)]
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", os.fspath(GUARD), *options, "--", *spec.command),
            stdin=DEVNULL,
            stdout=write_end,
            stderr=write_end,
            env=dict(spec.environ),
            start_new_session=True,
            pass_fds=() if watched is None else (watched,),
        )
    except BaseException:
        for descriptor in (read_end, lifeline):
            if descriptor is not None:
                os.close(descriptor)
        raise
    finally:
        os.close(write_end)
        if watched is not None:
            os.close(watched)
    tail: deque[bytes] = deque(maxlen=TAIL_LINES)
    pump = asyncio.create_task(_pump(read_end, log, on_line, tail), name=f"log {spec.name}")
    return RunningChild(process, pump, tail, lifeline)


async def _pump(read_end: int, log: RotatingFile, on_line: Callable[[bytes], None], tail: deque[bytes]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    splitter = LineSplitter()
    try:
        while chunk := await reader.read(64 * 1024):
            _take(splitter.feed(chunk), log, on_line, tail)
    finally:
        _take(splitter.end(), log, on_line, tail)
        transport.close()


def _take(lines: list[bytes], log: RotatingFile, on_line: Callable[[bytes], None], tail: deque[bytes]) -> None:
    for line in filter(None, lines):
        tail.append(line)
        on_line(line)
        if (trouble := log.write(line + b"\n")) is not None:
            on_line(f"its log file cannot be written: {trouble}".encode())
