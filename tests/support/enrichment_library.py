"""A library whose documents are saved, changed and read like in the retriever, for tests of enrichment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from citewire.retriever.v1 import corpus_pb2 as pb
from google.protobuf.json_format import MessageToDict

from citewire_kit.postgres import Pool, open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.model import Changes, NewContent
from citewire_retriever.store.collections import PostgresCollections
from citewire_retriever.store.content import PostgresContent
from citewire_retriever.store.documents import PostgresDocuments
from citewire_retriever.store.storage import PostgresStorage
from databases import HasDsn
from ingest_harness import ACME, BytesSource

COLLECTION = "saved"
ANSWER = {"summary": "It serves fish.", "entity_type": "restaurant", "category": "food", "tags": ["fish", "harbour"]}
TEXT = "Da Enzo serves fish by the harbour. Reserve a table for the evening."


def answer(**changes: object) -> str:
    """The answer of a scripted model."""
    return json.dumps(ANSWER | changes, ensure_ascii=False)


class EnrichmentLibrary:
    """See the module."""

    def __init__(self, pool: Pool) -> None:
        storage = PostgresStorage(pool, None)
        self.documents = PostgresDocuments(pool, storage, store_seconds=30)
        self.collections = PostgresCollections(pool)
        self._content = PostgresContent(pool, storage, store_seconds=30)

    @classmethod
    @asynccontextmanager
    async def open(cls, database: HasDsn, *, enrich: bool = True) -> AsyncGenerator[Self]:
        """Opens a library with one collection."""
        pool = await open_pool(database.dsn("citewire_corpus"), name="library")
        try:
            library = cls(pool)
            await library.collections.create(ACME, COLLECTION, enrich=enrich)
            yield library
        finally:
            await pool.close()

    async def save(
        self,
        text: str = TEXT,
        *,
        title: str = "Da Enzo",
        tags: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
        document_id: int | None = None,
        collection: str = COLLECTION,
        tenant: Tenant = ACME,
    ) -> int:
        """Saves a capture or a new version of one."""
        content = NewContent(
            document_id, "capture", "", "text/markdown", title, collection, tuple(tags), metadata, "https://x.org/a"
        )
        stored = await self._content.add(tenant, content, BytesSource(text.encode()))
        assert stored is not None
        return stored.document.document_id

    async def get(self, document_id: int, tenant: Tenant = ACME) -> pb.Document:
        """Reads a document."""
        state = await self.documents.get(tenant, document_id)
        assert state is not None
        return state.document

    async def labels(self, document_id: int) -> dict[str, Any]:
        """The labels of a document."""
        document = await self.get(document_id)
        return {**MessageToDict(document.metadata), "tags": list(document.tags)}

    async def patch(self, document_id: int, **changes: Any) -> None:  # noqa: ANN401 # of `Changes`
        """Changes a document, like a user."""
        assert await self.documents.update(ACME, document_id, Changes(**changes)) is not None

    async def until(
        self, document_id: int, state: pb.EnrichmentState, *, version: int = 1, code: str | None = None
    ) -> pb.Document:
        """Waits until the enrichment of a live version has a state and, if `code` is given, this error."""
        document = await self.get(document_id)
        try:
            async with asyncio.timeout(30):
                while not (
                    document.live_version == version
                    and document.HasField("enrichment")
                    and document.enrichment.state == state
                    and code in (None, document.enrichment.error.code)
                ):
                    await asyncio.sleep(0.05)
                    document = await self.get(document_id)
        except TimeoutError:
            raise AssertionError(f"the enrichment isn't so: {document}") from None
        return document

    async def until_ready(self, document_id: int) -> None:
        """Waits until a document can be searched."""
        async with asyncio.timeout(30):
            while (await self.get(document_id)).status != pb.DOCUMENT_STATUS_READY:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)

    async def until_done(self, document_id: int, version: int = 1) -> dict[str, Any]:
        """Waits until a version is enriched; returns the document's labels."""
        await self.until(document_id, pb.ENRICHMENT_STATE_DONE, version=version)
        return await self.labels(document_id)
