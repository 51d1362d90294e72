"""What backfill asks of its store, beside what it shares with ingest. No gRPC, no SQL."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from citewire_retriever.ingest.ports import Job, OwnEmbedding, VectorTable
from citewire_retriever.model import Space


@dataclass(frozen=True, slots=True)
class Wanted:
    """The spaces in which an organisation's documents should have vectors, the further ones aside."""

    live: Space | None
    """The live space; None before the first document."""
    following: Space | None
    """The one that is being prepared, if any."""
    own: OwnEmbedding | None
    """The organisation's own embedding provider (in a job's case, the user's first)."""
    only_own: bool
    """Whether the organisation lets nobody but its own providers see its documents."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """A live version that is to be embedded where it isn't."""

    title: str
    """Its document's."""
    wanted: Wanted
    """Where it should have vectors."""


class BackfillStore(ABC):
    """What lacks vectors, or terms. Raises as `JobStore` does."""

    @abstractmethod
    async def take_due(self, again_seconds: float) -> str | None:
        """Takes the organisation that is longest due to be looked through; None if none is.

        No other worker gets it before `again_seconds` have passed, whatever becomes of this one.
        """

    @abstractmethod
    async def come_back(self, org_id: str, seconds: float) -> None:
        """Makes an organisation due earlier."""

    @abstractmethod
    async def wanted(self, org_id: str) -> Wanted:
        """Reads where an organisation's documents should have vectors."""

    @abstractmethod
    async def queue(
        self, org_id: str, tables: Sequence[VectorTable], further: Sequence[VectorTable], *, most: int, again: float
    ) -> int:
        """Queues live versions that lack terms or a vector in one of the tables, newest first; returns how many.

        A version whose job waits, runs, or has failed less than `again` seconds ago isn't queued again. For those of
        the further tables, that goes for the jobs that follow an upload too.

        Args:
            org_id: The organisation.
            tables: Of its live space, and of the one that is being prepared.
            further: Of further spaces.
            most: Jobs of the organisation that may wait at once.
            again: Seconds.
        """

    @abstractmethod
    async def lacking(self, job: Job) -> Lacking | None:
        """Reads a job's version; None if it isn't the live one any more."""

    @abstractmethod
    async def add_terms(self, job: Job, title: str, most: int) -> int:
        """Stores and counts the terms of chunks that lack them, of at most so many; returns of how many.

        Raises:
            LeaseLostError: The job isn't ours any more, or the version isn't live.
        """

    @abstractmethod
    async def end(self, job: Job, further: Sequence[VectorTable]) -> None:
        """Ends a job for good; from now on the organisation's searches may use these further spaces."""

    @abstractmethod
    async def give_up(self, job: Job) -> None:
        """Ends a job without success; `queue` takes the version up again later."""
