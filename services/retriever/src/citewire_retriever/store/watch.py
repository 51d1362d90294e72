"""Notifications of changed documents, from one listening connection for all watchers of the process."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Self

import psycopg

from citewire_kit.tasks import end
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant

log = get_logger(__name__)

_CHANNEL: Final = "citewire_corpus_progress"
_RECONNECT_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


class Watcher:
    """Notifies one watcher that its document may have changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Ends the wait, or the next one."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Returns at the next change, immediately if there was one since the last call, or after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


class PostgresProgressFeed:
    """A listener for document changes. Enter it to listen.

    While the connection is lost, or behind a pooler without LISTEN, watchers rely on their own polling; after a
    reconnection all of them are notified, since changes may have been missed.
    """

    def __init__(self, dsn: str) -> None:
        """Takes the connection string of the application's role."""
        self._dsn = dsn
        self._watchers: defaultdict[str, set[Watcher]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Starts listening in the background."""
        self._task = asyncio.create_task(self._run(), name="progress-feed")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops listening."""
        if self._task is not None:
            await end(self._task)

    @contextmanager
    def subscribe(self, tenant: Tenant, document_id: int) -> Generator[Watcher]:
        """Subscribes to a document, which need not exist, until the block ends."""
        key = f"{tenant.org_id} {document_id}"
        watcher = Watcher()
        self._watchers[key].add(watcher)
        try:
            yield watcher
        finally:
            self._watchers[key].discard(watcher)
            if not self._watchers[key]:
                del self._watchers[key]

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._dsn, autocommit=True, application_name="citewire-retriever-listen", connect_timeout=5
                ) as connection:
                    await connection.execute(f"LISTEN {_CHANNEL}")
                    failures = 0
                    self._tell_all()
                    async for notification in connection.notifies():
                        for watcher in self._watchers.get(notification.payload, ()):
                            watcher.tell()
            except psycopg.Error as exc:
                log.warning("progress_feed_lost", error=str(exc), error_type=type(exc).__name__)
            await asyncio.sleep(_RECONNECT_SECONDS[min(failures, len(_RECONNECT_SECONDS) - 1)])
            failures += 1

    def _tell_all(self) -> None:
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.tell()
