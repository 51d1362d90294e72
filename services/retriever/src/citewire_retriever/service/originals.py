"""Originals that confined processes read, a file at a time for each organisation."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import ClassVar, TypeVar, cast

from citewire_kit.errors import ResourceExhausted, StartupError, Unavailable
from citewire_kit.fair import FairShares
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.sandbox import Sandbox
from citewire_retriever.ingest.spool import spooled
from citewire_retriever.model import Original
from citewire_retriever.store.content import PostgresContent

log = get_logger(__name__)
_T = TypeVar("_T")


class OriginalReader:
    """Has confined processes read originals: organisations share them, call by call."""

    most_waiting: ClassVar[int]
    """Calls of one organisation that wait for their turn."""
    too_many: ClassVar[str]
    """What a call beyond those is told."""

    def __init__(
        self, content: PostgresContent, sandbox: Sandbox, folder: Path, *, processes: int, max_bytes: int
    ) -> None:
        """Takes how many originals are read at once, and the largest that is."""
        self._content = content
        self._sandbox = sandbox
        self._folder = folder
        self._max_bytes = max_bytes
        self._turns = FairShares(processes, self._refusal, most_waiting=self.most_waiting)

    async def _confined(self, tenant: Tenant, original: Original, ask: Callable[[Path], Awaitable[_T]]) -> _T:
        """Returns what a process says of an original, which it finds as a file.

        Raises:
            ResourceExhausted: The organisation asks for too much at once (reason `OVERLOADED`).
            Unavailable: Files can't be read in confinement here.
            IngestError: The file can't be read.
        """
        parts = cast("AsyncGenerator[bytes]", self._content.read(tenant, original))
        async with aclosing(parts), self._turns.hold(tenant.org_id):
            async with spooled(self._folder, parts, original.sha256) as path:
                try:
                    return await ask(path)
                except StartupError as error:
                    log.warning("originals_not_read", error=str(error))
                    raise Unavailable("originals can't be read on this server", reason="SERVICE_UNAVAILABLE") from error

    def _refusal(self, _: str) -> ResourceExhausted:
        return ResourceExhausted(self.too_many, reason="OVERLOADED", retry_after=1)
