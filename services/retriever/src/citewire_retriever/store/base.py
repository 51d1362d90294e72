"""What the domain asks of its stores. Every method works for one tenant, and sees nothing of any other."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from citewire_kit.tenant import Tenant
from citewire_retriever.model import (
    Calibration,
    Candidate,
    Changes,
    Chunk,
    Collection,
    Document,
    DocumentCursor,
    DocumentQuery,
    Hit,
    Item,
    NewContent,
    Original,
    Scope,
    ScopeCounts,
    SearchQuery,
    Space,
    SpaceFill,
)


class Source(Protocol):
    """Content that waits to be stored."""

    @property
    def size_bytes(self) -> int:
        """Its size, at least 1."""
        ...

    @property
    def sha256(self) -> bytes:
        """Its SHA-256."""
        ...

    def parts(self, size: int) -> AsyncGenerator[bytes, None]:
        """Yields it in parts of `size` bytes; the last one may be shorter."""
        ...


class DocumentStore(ABC):
    """Documents as they are."""

    @abstractmethod
    async def get(self, tenant: Tenant, document_id: int) -> Document | None:
        """Returns a document, or None if the tenant has no such one."""

    @abstractmethod
    async def find(
        self, tenant: Tenant, query: DocumentQuery, after: DocumentCursor | None, limit: int
    ) -> list[Document]:
        """Returns at most `limit` documents, newest first, that come after the cursor."""

    @abstractmethod
    async def update(self, tenant: Tenant, document_id: int, changes: Changes) -> Document | None:
        """Changes a document; a new title makes a new version of what has been ingested. None: no such document."""

    @abstractmethod
    async def delete(self, tenant: Tenant, document_id: int) -> bool:
        """Deletes a document with all that belongs to it; False if there was none."""

    @abstractmethod
    async def retry(self, tenant: Tenant, document_id: int) -> Document | None:
        """Queues the latest version again. None: no such document.

        Raises:
            FailedPrecondition: The latest version hasn't failed (reason `WRONG_STATE`).
        """


class ContentStore(ABC):
    """The bytes of documents."""

    @abstractmethod
    async def add(self, tenant: Tenant, content: NewContent, source: Source) -> Document | None:
        """Stores a document or a version of one with its bytes and its ingest job: all of it durably, or nothing.

        Returns:
            The document; None if `content.document_id` names one that the tenant doesn't have.
        """

    @abstractmethod
    async def find_original(self, tenant: Tenant, document_id: int, version: int | None) -> Original | None:
        """Returns a version's header; None for `version` means the live one, or else the latest."""

    @abstractmethod
    async def find_text(self, tenant: Tenant, document_id: int, version: int | None) -> Original | None:
        """Returns the header of the text that was found in a version, chosen as above.

        Raises:
            FailedPrecondition: The version isn't ready (reason `WRONG_STATE`).
        """

    @abstractmethod
    def read_text(self, tenant: Tenant, text: Original) -> AsyncIterator[bytes]:
        """Yields that text in UTF-8, some 100,000 characters at a time, otherwise as `read`."""

    @abstractmethod
    def read(self, tenant: Tenant, original: Original) -> AsyncIterator[bytes]:
        """Yields a version's bytes, at most 1 MiB at a time. No connection is held while the caller is busy.

        Raises:
            NotFound: The version was deleted on the way (reason `VERSION_NOT_FOUND`).
        """


class CollectionStore(ABC):
    """Collections."""

    @abstractmethod
    async def page(self, tenant: Tenant, after: str | None, limit: int) -> list[Collection]:
        """Returns at most `limit` collections by name, after the given one."""

    @abstractmethod
    async def create(self, tenant: Tenant, name: str) -> Collection:
        """Makes a collection. Raises `AlreadyExists` (reason `COLLECTION_EXISTS`) if the name is taken."""

    @abstractmethod
    async def rename(self, tenant: Tenant, name: str, new_name: str) -> Collection:
        """Renames a collection. Raises `NotFound`, or `AlreadyExists` if the new name is taken."""

    @abstractmethod
    async def delete(self, tenant: Tenant, name: str, *, force: bool) -> int:
        """Deletes a collection, and returns how many documents went with it.

        Raises:
            NotFound: There is none of that name.
            FailedPrecondition: It holds documents and `force` is false (reason `WRONG_STATE`).
        """


@dataclass(frozen=True, slots=True)
class Found:
    """What a search saw, all in one transaction."""

    served: tuple[Space, ...]
    """The spaces that serve the organisation, the live one first; empty while nothing was ingested."""
    unknown_ids: tuple[int, ...]
    """Ids of the scope's selection that aren't documents of the caller's; at most 100."""
    ranked: tuple[Candidate, ...]
    """At most `top_k`, best first; of a hybrid search only keys. Empty if the query's space isn't served."""
    recent: tuple[Hit[Chunk], ...]
    """The most recent documents' first chunks."""
    exact: bool
    """Whether no index was used for the ranking."""
    by_words: tuple[Candidate, ...] = ()
    """At most `top_k` of a lexical or hybrid search, best first; keys or chunks, as above."""
    ideal: float = 0.0
    """Of a hybrid search: lexical score of a text that has all of the question's words many times."""
    calibration: Calibration | None = None
    """What the organisation stored for the query's space, without the report."""
    chunks: Mapping[int, Chunk] = field(default_factory=dict[int, Chunk])
    """Those that were chosen, by id, of a search that found keys."""


Choose: TypeAlias = Callable[[Found], Sequence[int]]
"""Says which chunks shall be read whole of what was found as keys. It is called once, with all that was found."""


def nothing(_: Found) -> Sequence[int]:
    """Chooses nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class Counted:
    """What a plan is made from, all in one transaction."""

    served: tuple[Space, ...]
    unknown_ids: tuple[int, ...]
    counts: ScopeCounts
    items: tuple[Item, ...] = ()
    """If asked for: those that fit the budget, most recent first; the very first also if it doesn't."""
    calibration: Calibration | None = None
    """What the organisation stored for the live space, without the report."""


class SearchStore(ABC):
    """Search over published chunks."""

    @abstractmethod
    async def search(self, tenant: Tenant, query: SearchQuery, choose: Choose = nothing) -> Found:
        """Searches by vector, words or both, `top_k` each; the query's vector has been checked.

        Args:
            tenant: Who searches.
            query: The search.
            choose: Which chunks are read whole, from the same snapshot.
        """

    @abstractmethod
    async def count(self, tenant: Tenant, scope: Scope, budget: int, *, list_items: bool = False) -> Counted:
        """Counts what the scope holds, and how many of its most recent items fit a budget in tokens."""

    @abstractmethod
    async def read_items(self, tenant: Tenant, items: Sequence[Item]) -> dict[int, list[Chunk]]:
        """Returns the items' chunks in order, by document; a document that was deleted meanwhile has none."""

    @abstractmethod
    async def chunks(self, tenant: Tenant, chunk_ids: Sequence[int]) -> dict[int, Chunk]:
        """Returns those of the chunks that exist, by id; chunks of superseded versions too, while they are kept."""

    @abstractmethod
    async def vectors(self, tenant: Tenant, space: Space, chunk_ids: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        """Returns the vectors, by id, of those of the chunks that have one; the space has been searched before."""

    @abstractmethod
    async def ping(self) -> None:
        """Raises a `CitewireError` if the database can't serve: it is away, or its schema is missing."""


@dataclass(frozen=True, slots=True)
class Switched:
    """What became of a switch."""

    fill: SpaceFill | None
    """The space: the live one if it was done. None: it is none of the organisation's, or there is no live one yet."""
    done: bool


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What became of storing a calibration."""

    fill: SpaceFill | None
    """The space; None: it is none of the organisation's."""
    done: bool
    """False where no worker has registered the space yet."""


class SpaceStore(ABC):
    """Embedding spaces of an organisation."""

    @abstractmethod
    async def fills(self, tenant: Tenant) -> list[SpaceFill]:
        """Returns the organisation's spaces, the live one first, and how far each is filled."""

    @abstractmethod
    async def prepare(self, tenant: Tenant, space: Space) -> SpaceFill | None:
        """Makes a space the one that is filled beside the live one, in place of any other.

        The live space itself ends the preparation. Workers register the space, once a model serves it.
        """

    @abstractmethod
    async def switch(self, tenant: Tenant, space: Space, *, force: bool) -> Switched:
        """Makes a space the live one if it is filled, or if forced; the live one becomes the previous one."""

    @abstractmethod
    async def calibrate(self, tenant: Tenant, space: Space, calibration: Calibration | None) -> Calibrated:
        """Stores what a space's scores mean, in place of what was stored; None removes it."""


class Changed(Protocol):
    """Tells one watcher that its document may have changed."""

    async def wait(self, seconds: float) -> None:
        """Returns at the next change, at once if there was one since the last call, or after `seconds`."""
        ...


class ProgressFeed(ABC):
    """Who is told when documents change."""

    @abstractmethod
    def subscribe(self, tenant: Tenant, document_id: int) -> AbstractContextManager[Changed]:
        """Subscribes to a document, which need not exist, for as long as the block runs."""
