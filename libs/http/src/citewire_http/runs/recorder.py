"""Stores a run's events while they come."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from citewire_http.runs.store import Batch, RunStore
from citewire_kit.errors import CitewireError
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

_BEHIND_EVENTS: Final = 32
"""Maximum number of events shown but not yet stored; further ones wait while the database responds."""
_BATCH_EVENTS: Final = _BEHIND_EVENTS // 2
_BATCH_SECONDS: Final = 0.2
"""A batch is written at this number of events or age of the first: below the limits, which are 32 and 250 ms."""
_PATIENCE_SECONDS: Final = 1.0
"""How long an event waits for a database that doesn't respond. The next ones don't wait until it does."""
_AGAIN_SECONDS: Final = 1.0
"""Pause after a batch that couldn't be stored."""

E = TypeVar("E")

log = get_logger(__name__)


class Codec(ABC, Generic[E]):
    """Events as they are stored: entries of JSON with a `type`, of which `done` and `error` end a run."""

    version: int
    """Version of the form."""

    @abstractmethod
    def count(self, event: E) -> int:
        """Returns how many sequence numbers an event uses."""

    @abstractmethod
    def dump(self, events: Sequence[E]) -> list[dict[str, Any]]:
        """Returns events as entries."""

    @abstractmethod
    def load(self, entries: Sequence[Mapping[str, Any]]) -> Iterator[E]:
        """Yields the events written by `dump`.

        Raises:
            CitewireError: The error that ended the run, if it didn't complete.
        """


class Recorder(Generic[E]):
    """Stores one run's events as they arrive, in batches."""

    def __init__(
        self, codec: Codec[E], store: RunStore, tenant: Tenant, run_id: UUID, lose: Callable[[], None]
    ) -> None:
        """`lose` is called if others have declared the run lost."""
        self._codec = codec
        self._store = store
        self._tenant = tenant
        self._run_id = run_id
        self._lose = lose
        self._events: list[E] = []
        self._since = 0.0  # when the first of them arrived
        self._count = self._last = self._stored = 0
        self._batch: Batch | None = None
        self._some, self._many, self._over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._written = asyncio.Event()
        self._keeps_up = True
        self._now = asyncio.get_running_loop().time
        self._writing: asyncio.Task[None] | None = None

    async def add(self, event: E) -> None:
        """Adds an event that is about to be shown; waits while too many aren't stored, if storing works."""
        if not self._events:
            self._since = self._now()
        self._events.append(event)
        self._count += self._codec.count(event)
        self._some.set()
        if self._count >= _BATCH_EVENTS:
            self._many.set()
        while self._keeps_up and self._last + self._count - self._stored > _BEHIND_EVENTS:
            self._written.clear()
            self._keeps_up = await _pause(self._written, _PATIENCE_SECONDS)

    def begin(self, opening: asyncio.Task[None]) -> None:
        """Starts storing, once the exchange is open."""
        self._writing = asyncio.create_task(self._write(opening))

    async def rest(self, error: CitewireError | None) -> list[Batch]:
        """Ends recording, and returns the batch that remains to be stored.

        Args:
            error: The error that ended the run; None if it completed.
        """
        self._over.set()
        self._some.set()
        self._many.set()
        if self._writing is not None:
            await self._writing
        batches = [] if self._batch is None else [self._batch]
        events = self._take()
        if error is None:
            return [*batches, events] if events.entries else batches
        ended = {"type": "error", "text": error.message, "reason": error.reason}
        return [*batches, replace(events, last=events.last + 1, entries=[*events.entries, ended])]

    async def _write(self, opening: asyncio.Task[None]) -> None:
        await asyncio.wait((opening,))
        if opening.cancelled() or opening.exception() is not None:
            return
        while True:
            if self._batch is None:
                await self._some.wait()
                await _pause(self._many, self._since + _BATCH_SECONDS - self._now())
            if self._over.is_set():
                return
            batch = self._batch = self._batch or self._take()  # a failed batch is written again unchanged
            try:
                if not await self._store.append(self._tenant, self._run_id, batch):
                    self._lose()
                    return
                self._batch, self._stored, self._keeps_up = None, batch.last, True
                self._written.set()
            except CitewireError as exc:
                log.warning("run_events_not_stored", run_id=str(self._run_id), reason=exc.reason)
                self._keeps_up = False
                self._written.set()
                await _pause(self._over, _AGAIN_SECONDS)

    def _take(self) -> Batch:
        events, first, self._last = self._events, self._last + 1, self._last + self._count
        self._events, self._count = [], 0
        if not self._over.is_set():
            self._some.clear()
            self._many.clear()
        return Batch(first, self._last, self._codec.dump(events), self._codec.version)


async def _pause(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, with a timeout; returns whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
