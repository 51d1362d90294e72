"""Originals read by confined processes, one file at a time per organisation."""

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
    """Has originals read by confined processes, which organisations share call by call."""

    most_waiting: ClassVar[int]
    """Most waiting calls of one organisation."""
    too_many: ClassVar[str]
    """The message for further calls."""

    def __init__(
        self, content: PostgresContent, sandbox: Sandbox, folder: Path, *, processes: int, max_bytes: int
    ) -> None:
        """Takes how many originals are read at once, and the size of the largest allowed."""
        self._content = content
        self._sandbox = sandbox
        self._folder = folder
        self._max_bytes = max_bytes
        self._turns = FairShares(processes, self._refusal, most_waiting=self.most_waiting)

    async def _confined(self, tenant: Tenant, original: Original, ask: Callable[[Path], Awaitable[_T]]) -> _T:
        """Returns a process's answer about an original, passed to it as a file.

        Raises:
            ResourceExhausted: The organisation has too many concurrent calls (reason `OVERLOADED`).
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
