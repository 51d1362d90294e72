"""Keeps children running.

Once the stack is ready, a child that dies is started again after growing pauses; before, its death ends the start.
"""

import asyncio
import enum
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from citewire_cli.errors import CliError
from citewire_cli.jsonio import JsonObject
from citewire_cli.stack.child import ChildSpec, RunningChild, start_child
from citewire_cli.stack.logs import RotatingFile

T = TypeVar("T")

PROBE_SECONDS = 0.1


class State(enum.StrEnum):
    """The state of a child."""

    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses before a child is started again: `first` seconds, doubled each time up to `most`.

    A child that had been running for `steady` seconds begins with the first pause again.
    """

    first: float = 0.25
    most: float = 15.0
    steady: float = 30.0

    def pause(self, failures: int) -> float:
        """Seconds before the start that follows failure number `failures` (1 = the first) in sequence."""
        return min(self.most, self.first * 2.0 ** min(failures - 1, 30))


class Watcher(Protocol):
    """Told what happens; shows it."""

    def line(self, name: str, raw: bytes) -> None:
        """A child has written a line."""

    def ready(self, name: str, seconds: float, restarts: int) -> None:
        """A child is ready, this many seconds after its (re)start."""

    def ended(self, name: str, how: str, tail: Sequence[str], pause: float) -> None:
        """A child has died and will be started again after a pause."""


class StartError(CliError):
    """The stack didn't become ready. `tail`: the last lines of the child that is to blame."""

    def __init__(self, title: str, detail: str = "", tail: Sequence[str] = ()) -> None:
        """Reports a failure.

        Args:
            title: one line.
            detail: what to do, may be empty.
            tail: the child's last lines.
        """
        super().__init__(title, detail)
        self.tail = list(tail)


class Supervisor:
    """Starts children, waits for their readiness, keeps them, ends them."""

    def __init__(
        self,
        logs: Path,
        watcher: Watcher,
        *,
        backoff: Backoff | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepares; nothing is started.

        Args:
            logs: the folder of the log files.
            watcher: told what happens.
            backoff: pauses between restarts.
            on_change: called whenever a child's state or process number has changed.
        """
        self.logs = logs
        self.watcher = watcher
        self.backoff = backoff or Backoff()
        self.on_change = on_change
        self._children: dict[str, _SupervisedChild] = {}
        self._failure: asyncio.Future[StartError] = asyncio.get_running_loop().create_future()
        self._settled = False

    def start(self, *specs: ChildSpec) -> None:
        """Starts children and keeps watch over them."""
        for spec in specs:
            child = _SupervisedChild(spec, self)
            self._children[spec.name] = child
            child.begin()

    async def ready(self, names: Iterable[str], *, seconds: float) -> None:
        """Waits until all of `names` are ready.

        Raises:
            StartError: one isn't within `seconds`.
        """
        for name in names:
            child = self._children[name]
            try:
                async with asyncio.timeout(seconds):
                    await child.became_ready.wait()
            except TimeoutError:
                raise StartError(f"{name} isn't ready after {seconds:g} s", "Its last lines:", child.tail) from None

    async def unless_failed(self, work: Awaitable[T]) -> T:
        """The result of `work`, given up with StartError as soon as a child dies before the stack is settled."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._failure}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done() and not task.done():
                raise self._failure.result()
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def settle(self) -> None:
        """The stack is ready: from now on a child that dies is started again."""
        self._settled = True

    async def run_once(self, spec: ChildSpec, *, what: str) -> None:
        """Runs a command to its end; cancelling ends it.

        Raises:
            StartError: it failed; `what` is the title.
        """
        log = RotatingFile(self.logs / f"{spec.name}.log")
        try:
            try:
                child = await start_child(spec, log, lambda raw: self.watcher.line(spec.name, raw))
            except OSError as error:
                raise StartError(what, f"It cannot be started: {error}") from None
            try:
                code = await child.wait()
            except asyncio.CancelledError:
                await child.stop(spec.stop_signals, patience=5)
                raise
            if code != 0:
                raise StartError(what, f"It {how_it_ended(code)}. Its last lines:", child.tail)
        finally:
            log.close()

    async def stop(self, order: Sequence[Sequence[str]], *, patience: float) -> None:
        """Ends the children, group after group; within a group at once. Each gets `patience` seconds per signal."""
        errors: list[BaseException] = []
        for names in order:
            children = [self._children[name] for name in names if name in self._children]
            results = await asyncio.gather(*(child.stop(patience) for child in children), return_exceptions=True)
            errors += [result for result in results if isinstance(result, BaseException)]
        if errors:
            raise errors[0]  # a fault of ours; first everything else has been ended

    def kill_all(self) -> None:
        """SIGKILL to everything that still runs: for somebody who doesn't want to wait."""
        for child in self._children.values():
            child.kill()

    def snapshot(self) -> dict[str, JsonObject]:
        """State, process number, restarts and attributes of each child."""
        return {name: child.snapshot() for name, child in self._children.items()}

    def child_ended(self, name: str, code: int, tail: Sequence[str], failures: int) -> float | None:
        """A child died: how long to pause before the next start, None if that is the end of the stack."""
        if not self._settled:
            if not self._failure.done():
                title = f"{name} {how_it_ended(code)} before the stack was ready"
                self._failure.set_result(StartError(title, "Its last lines:" if tail else "", tail))
            return None
        pause = self.backoff.pause(failures)
        self.watcher.ended(name, how_it_ended(code), tail, pause)
        self.on_change()
        return pause


class _SupervisedChild:
    """One child's life, start after start, in one task that alone starts and ends its processes."""

    def __init__(self, spec: ChildSpec, owner: Supervisor) -> None:
        self.spec = spec
        self.became_ready = asyncio.Event()
        self._owner = owner
        self._state = State.STARTING
        self._restarts = 0
        self._running: RunningChild | None = None
        self._stopping = asyncio.Event()
        self._patience = 0.0
        self._killed = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._live(), name=f"child of {self.spec.name}")

    @property
    def tail(self) -> list[str]:
        return self._running.tail if self._running else []

    def snapshot(self) -> JsonObject:
        state: JsonObject = {"state": self._state.value, "restarts": self._restarts}
        if self._running is not None:
            state["pid"] = self._running.pid
        state.update(self.spec.attributes or {})
        return state

    async def stop(self, patience: float) -> None:
        self._patience = patience
        self._stopping.set()
        if self._task is not None:
            await self._task

    def kill(self) -> None:
        self._killed = True
        self._stopping.set()
        if self._running is not None:
            self._running.kill()

    async def _live(self) -> None:
        log = RotatingFile(self._owner.logs / f"{self.spec.name}.log")
        try:
            await self._start_again_and_again(log)
        finally:
            self._state = State.ENDED
            self._running = None
            log.close()
            self._owner.on_change()

    async def _start_again_and_again(self, log: RotatingFile) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping.is_set():
            began = loop.time()
            self._state = State.STARTING
            code, tail = await self._one_process(log)
            if self._stopping.is_set():
                return
            failures = 1 if loop.time() - began >= self._owner.backoff.steady else failures + 1
            self._state = State.WAITING
            self._running = None
            pause = self._owner.child_ended(self.spec.name, code, tail, failures)
            if pause is None:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            self._restarts += 1

    async def _one_process(self, log: RotatingFile) -> tuple[int, list[str]]:
        """Runs one process until it ends or is stopped; its exit code and last lines."""
        try:
            child = await start_child(self.spec, log, lambda raw: self._owner.watcher.line(self.spec.name, raw))
        except OSError as error:
            return 127, [f"cannot start: {error}"]
        self._running = child
        self._owner.on_change()
        ended = asyncio.create_task(child.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        probing = asyncio.create_task(self._probe(asyncio.get_running_loop().time()))
        try:
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                signals: Sequence[signal.Signals] = () if self._killed else self.spec.stop_signals
                await child.stop(signals, self._patience)
            return await ended, child.tail
        finally:
            for task in (stopping, probing):
                task.cancel()
            await asyncio.gather(stopping, probing, return_exceptions=True)

    async def _probe(self, began: float) -> None:
        while not await self.spec.ready():  # noqa: ASYNC110 # another process cannot set an event here
            await asyncio.sleep(PROBE_SECONDS)
        self._state = State.READY
        self.became_ready.set()
        self._owner.watcher.ready(self.spec.name, asyncio.get_running_loop().time() - began, self._restarts)
        self._owner.on_change()


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
