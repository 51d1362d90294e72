"""Follows a folder: what changed is in the library some seconds later."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol, cast

from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType] # names a type of a package that we lack

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.outcomes import Outcome, wait_for_all
from citewire_cli.sync.engine import Failure, Sync, SyncReport, failure_of

DEBOUNCE_MS = 300
"""Events are gathered for so long, so that a file that is still being written is read once."""
LOOK_SECONDS = 600.0
"""After so long without an event everything is compared again: events get lost, and others change the library."""
RETRY_SECONDS = 10.0
"""Until what failed for want of the gateway is tried again."""


class Tell(Protocol):
    """Told what becomes of the changes."""

    def done(self, report: SyncReport) -> None:
        """The steps done without an upload, and the failures."""

    def ready(self, path: str) -> None:
        """A file's present content can be asked about."""

    def failed(self, failure: Failure) -> None:
        """A file's present content can't be read."""

    def waiting(self, error: CliError) -> None:
        """Nothing could be done; it is tried again."""


async def follow(sync: Sync, *, polling: bool, patience: float, tell: Tell) -> None:
    """Does what changes ask for, as they come, until it is cancelled. A document that takes long holds up no other.

    Args:
        sync: the source and its collection, in step now.
        polling: whether to look every now and then, for file systems that tell of no changes.
        patience: as of `ingest`.
        tell: told what happens.

    Raises:
        CliError: the gateway doesn't let us in any more.
    """
    arriving: asyncio.Queue[Outcome | None] = asyncio.Queue()
    observer = _Observer(arriving, tell)

    def wait() -> asyncio.Task[None]:
        return asyncio.create_task(wait_for_all(sync.api, arriving, observer, patience))

    # What changed between the last comparison and the first event is found by looking once more.
    waiting, pause = wait(), 1.0
    try:
        async with aclosing(ticks(sync.folder.root, polling=polling, pause=lambda: pause)) as looks:
            async for _ in looks:
                pause = await _follow_once(sync, observer, tell)
                if waiting.done():
                    waiting.result()
                    waiting = wait()
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def _follow_once(sync: Sync, observer: "_Observer", tell: Tell) -> float:
    """Compares, and does what differs; returns after how many seconds to look again though nothing happens."""
    try:
        plan, _ = await sync.plan()
        sync.check(plan)
        plan.failed.clear()  # that was told before, and nothing has changed since
        tell.done(await sync.apply(plan, sync.uploads(plan), observer, patience=None))
    except CliError as error:
        if error.code is ExitCode.UNAUTHORISED:
            raise
        tell.waiting(error)
        return RETRY_SECONDS
    return LOOK_SECONDS


async def ticks(folder: Path, *, polling: bool, pause: Callable[[], float]) -> AsyncGenerator[None]:
    """Yields whenever something below the folder has changed, or `pause()` seconds have passed without."""
    events = cast(
        "AsyncGenerator[object]",
        awatch(
            folder,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            force_polling=polling or None,
            poll_delay_ms=500,
            ignore_permission_denied=True,  # the comparison lists what can't be looked at
        ),
    )
    async with aclosing(events):
        event = asyncio.ensure_future(anext(events))
        try:
            while True:
                await asyncio.wait({event}, timeout=pause())
                if event.done():
                    _check(event)
                    event = asyncio.ensure_future(anext(events))
                yield
        finally:
            event.cancel()
            await asyncio.gather(event, return_exceptions=True)


def _check(event: asyncio.Future[object]) -> None:
    try:
        event.result()
    except OSError as error:
        help_text = f"{error}. Pass --poll, or raise the system's limit (sysctl fs.inotify.max_user_watches)."
        raise CliError("Changes of the folder can't be watched", help_text) from error


class _Observer:
    """Passes uploads on to the callers who wait for them, and reports how they ended."""

    def __init__(self, arriving: asyncio.Queue[Outcome | None], tell: Tell) -> None:
        self._arriving = arriving
        self._tell = tell

    def uploaded(self, outcome: Outcome) -> None:
        """See `Observer`. What was refused is in the report."""
        if outcome.error is None:
            self._arriving.put_nowait(outcome)

    def settled(self, outcome: Outcome) -> None:
        """See `Observer`."""
        failure = failure_of(outcome, None)
        if failure is None:
            self._tell.ready(outcome.source.name)
        elif failure.error.code is not ExitCode.NOT_FOUND:  # its file has gone again meanwhile
            self._tell.failed(failure)
