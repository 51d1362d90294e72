"""The bytes of documents in Postgres."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1.corpus_pb2 import Document

from citewire_kit.errors import FailedPrecondition, NotFound
from citewire_kit.nodes import repeated
from citewire_kit.postgres import Connection, Pool, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.errors import access_missing
from citewire_retriever.model import TEXT_TYPE, NewContent, Original, Source
from citewire_retriever.store import rows
from citewire_retriever.store.collections import hold_collection
from citewire_retriever.store.documents import (
    intern_access,
    json_text,
    lock_document,
    read_document,
    violates,
    write_document,
)
from citewire_retriever.store.jobs import queue_enrichment, queue_ingest, queue_missing
from citewire_retriever.store.storage import PostgresStorage

_SQL: Final = rows.queries("content")
_DOCUMENTS: Final = rows.queries("documents")
PART_BYTES: Final = 1024 * 1024
_PARTS_AT_ONCE: Final = 4
_MOST_VERSIONS: Final = 100
"""Most versions of one document that wait for an ingest."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document."""

    document: Document
    behind: bool = False
    """Whether its organisation stores more than is ingested."""


class PostgresContent:
    """The bytes of documents."""

    def __init__(self, pool: Pool, storage: PostgresStorage, *, store_seconds: float) -> None:
        """Takes the pool of the application's role, and the statement timeout of a storing transaction."""
        self._pool = pool
        self._storage = storage
        self._store_seconds = store_seconds

    @repeated
    async def add(self, tenant: Tenant, content: NewContent, source: Source) -> Stored | None:
        """Durably stores a document or a version with its bytes and its ingest job, or nothing.

        Returns:
            The document; None if `content.document_id` is hidden from the caller or doesn't exist.

        Raises:
            PermissionDenied: The caller may not add documents, or not to this collection, or not change this one.
            ResourceExhausted: It would exceed its owner's or the organisation's storage limit (reason `STORAGE_FULL`).
        """
        try:
            return await self._add(tenant, content, source)
        except psycopg.errors.UniqueViolation as exc:
            if not violates(exc, "versions_request"):
                raise
            # The same request ran concurrently, and the other one was faster.
            return await self._add(tenant, content, source)

    async def _add(self, tenant: Tenant, content: NewContent, source: Source) -> Stored | None:
        async with tenant_transaction(self._pool, tenant, statement_seconds=self._store_seconds) as connection:
            if content.request_id and (result := await _made_before(connection, tenant, content)) is not None:
                await queue_missing(connection, tenant.org_id, document_id=result, most=_MOST_VERSIONS)
                return await _read_stored(connection, tenant, result)
            made = await _make_version(connection, tenant, content)
            if made is None:
                return None
            document_id, version = made
            key = {"org_id": tenant.org_id, "document_id": document_id, "version": version}
            await connection.execute(
                _SQL["insert_version"],
                {
                    **key,
                    "file_name": content.file_name,
                    "media_type": content.media_type,
                    "size_bytes": source.size_bytes,
                    "sha256": source.sha256,
                    "request_key": _request_key(tenant, content),
                },
            )
            if source.size_bytes > PART_BYTES:
                await self._storage.check(connection, tenant, document_id, source.size_bytes)
            await _store_parts(connection, key, source)
            behind = await queue_ingest(connection, tenant, document_id, version)
            await self._storage.settle(connection, tenant, document_id, source.size_bytes)
            return await _read_stored(connection, tenant, document_id, behind=behind)

    @repeated
    async def find_original(self, tenant: Tenant, document_id: int, version: int | None) -> Original | None:
        """Returns a version's header; None for `version` means the live one, else the latest."""
        async with tenant_transaction(self._pool, tenant) as connection:
            cursor = await connection.execute(
                _SQL["find_original"],
                {"org_id": tenant.org_id, "document_id": document_id, "version": version},
            )
            row = await cursor.fetchone()
        return None if row is None else Original(*row)

    async def read(self, tenant: Tenant, original: Original) -> AsyncIterator[bytes]:
        """Yields a version's bytes, at most 1 MiB at a time. No connection is held while the caller is busy.

        Raises:
            NotFound: The version was deleted meanwhile (reason `VERSION_NOT_FOUND`).
        """
        parts = -(-original.size_bytes // PART_BYTES)
        for first in range(0, parts, _PARTS_AT_ONCE):
            end = min(first + _PARTS_AT_ONCE, parts)
            for part in await self._read_parts(tenant, original, first, end):
                yield part

    @repeated
    async def find_text(self, tenant: Tenant, document_id: int, version: int | None) -> Original | None:
        """Returns the header of the text found in a version, chosen as above.

        Raises:
            FailedPrecondition: The version isn't ready (reason `WRONG_STATE`).
        """
        async with tenant_transaction(self._pool, tenant) as connection:
            cursor = await connection.execute(
                _SQL["find_text"],
                {"org_id": tenant.org_id, "document_id": document_id, "version": version},
            )
            row = await cursor.fetchone()
        if row is None:
            return None
        number, version_number, name, size, ready = row
        if not ready:
            raise FailedPrecondition(
                f"version {version_number} of document {number} isn't ready: it has no text",
                reason="WRONG_STATE",
                metadata={"document_ids": str(number), "version": str(version_number)},
            )
        return Original(number, version_number, name, TEXT_TYPE, int(size), b"")

    async def read_text(self, tenant: Tenant, text: Original) -> AsyncIterator[bytes]:
        """Yields that text in UTF-8, some 100,000 characters at a time, otherwise like `read`."""
        read = first = 0
        while read < text.size_bytes:
            parts = await self._read_texts(tenant, text, first, first + _PARTS_AT_ONCE)
            if not parts:
                raise NotFound("the document was deleted while it was being read", reason="VERSION_NOT_FOUND")
            first += _PARTS_AT_ONCE
            for part in parts:
                read += len(part)
                yield part

    @repeated
    async def find_chunks(self, tenant: Tenant, text: Original, start: int, end: int) -> list[tuple[int, int, Place]]:
        """Returns spans and places of the chunks, or their parts, that a span of a text overlaps.

        A span outside all chunks is a heading's; its place is that of the following chunk.
        """
        values = {"document_id": text.document_id, "version": text.version, "char_start": start, "char_end": end}
        async with tenant_transaction(self._pool, tenant) as connection:
            cursor = await connection.execute(_SQL["find_chunks"], {"org_id": tenant.org_id, **values})
            rows = await cursor.fetchall()
        chunks = rows[:-1] if len(rows) > 1 and rows[-1][0] >= end else rows
        parts: list[tuple[int, int, Place]] = []
        for *row, verbatim in chunks:
            if verbatim or not row[3] or row[0] >= end:
                parts += _placed_parts(row, start, end)
            else:
                first, body = await self.read_span(tenant, text, row[0], row[1])
                parts += _rendered_rows(row, body[row[0] - first : row[1] - first], start, end)
        return parts

    @repeated
    async def read_span(self, tenant: Tenant, text: Original, start: int, end: int) -> tuple[int, str]:
        """Returns a part of a text that contains a span, as far as the text reaches, and the part's start."""
        values = {"document_id": text.document_id, "version": text.version, "char_start": start, "char_end": end}
        async with tenant_transaction(self._pool, tenant) as connection:
            cursor = await connection.execute(_SQL["read_span"], {"org_id": tenant.org_id, **values})
            row = await cursor.fetchone()
        return (0, "") if row is None else (int(row[0]), str(row[1]))

    @repeated
    async def _read_texts(self, tenant: Tenant, text: Original, first: int, end: int) -> list[bytes]:
        """Reads a few parts of a text, like `_read_parts`."""
        async with tenant_transaction(self._pool, tenant) as connection:
            values = {"document_id": text.document_id, "version": text.version, "first": first, "end": end}
            cursor = await connection.execute(_SQL["read_text"], {"org_id": tenant.org_id, **values})
            return [row[0].encode() for row in await cursor.fetchall()]

    @repeated
    async def _read_parts(self, tenant: Tenant, original: Original, first: int, end: int) -> list[bytes]:
        """Reads a few parts in a separate transaction, so that a slow reader holds no connection."""
        async with tenant_transaction(self._pool, tenant) as connection:
            cursor = await connection.execute(
                _SQL["read_parts"],
                {
                    "org_id": tenant.org_id,
                    "document_id": original.document_id,
                    "version": original.version,
                    "first": first,
                    "end": end,
                },
                binary=True,
            )
            results: list[bytes] = [row[1] for row in await cursor.fetchall()]
        if len(results) != end - first:
            raise NotFound("the document was deleted while it was being read", reason="VERSION_NOT_FOUND")
        return results


def _placed_parts(row: Sequence[Any], start: int, end: int) -> list[tuple[int, int, Place]]:
    """A chunk, or those of its parts that a span overlaps."""
    first, last, place, places = row
    if not places or first >= end:
        return [(first, last, Place(**place))]
    bounds = [first + each for each, _ in places] + [last]
    parts = [(begin, stop, Place(**each)) for begin, stop, (_, each) in zip(bounds, bounds[1:], places, strict=False)]
    return [part for part in parts if part[0] < end and part[1] > start]


def _rendered_rows(row: Sequence[Any], body: str, start: int, end: int) -> list[tuple[int, int, Place]]:
    """Those of a chunk's rows that a span overlaps, if only their lines are in the stored text (`body`)."""
    first, _, place, places = row
    line = Place(**place).start_line + body.count("\n", 0, max(0, start - first))
    last = line + body.count("\n", max(0, start - first), max(0, end - first - 1))
    parts = [Place(**each) for _, each in places]
    return [(start, end, part) for part in parts if part.start_line <= last and part.end_line >= line]


async def _read_stored(
    connection: Connection, tenant: Tenant, document_id: int, *, behind: bool = False
) -> Stored | None:
    state = await read_document(connection, tenant, document_id)
    return None if state is None else Stored(state.document, behind)


async def _made_before(connection: Connection, tenant: Tenant, content: NewContent) -> int | None:
    """Returns the document that this request already created within the last day."""
    values = {"org_id": tenant.org_id, "request_key": _request_key(tenant, content)}
    await connection.execute(_SQL["forget_request"], values)
    row = await (await connection.execute(_SQL["find_request"], values)).fetchone()
    return None if row is None else int(row[0])


def _request_key(tenant: Tenant, content: NewContent) -> str | None:
    """A request's id as stored, distinct per user."""
    if not content.request_id:
        return None
    return hashlib.sha256(f"{tenant.user_id} {content.request_id}".encode()).hexdigest()


async def _make_version(connection: Connection, tenant: Tenant, content: NewContent) -> tuple[int, int] | None:
    """Creates the document's row, or adds a version; returns both ids, or None if there is no such document."""
    collection_id = await hold_collection(connection, tenant, content.collection or None)
    values = rows.values_of(content) | {"org_id": tenant.org_id, "collection_id": collection_id}
    if content.document_id is None:
        if tenant.role == "reader":
            raise access_missing("add documents", "write")
        values["access_id"] = await intern_access(connection, values, content.readers or ())
        values["user_id"] = tenant.user_id
        values["type"] = content.type or "file"
        values["title"] = content.title or content.file_name
        values["title_given"] = bool(content.title)
        values["metadata"] = json_text(content.metadata or {})
        row = await write_document(connection, _DOCUMENTS["insert_document"], values)
    else:
        values["set_collection"] = collection_id is not None
        if await lock_document(connection, values) is None:
            return None
        values["access_id"] = await intern_access(connection, values, content.readers)
        values["metadata"] = json_text(content.metadata)
        row = await write_document(connection, _DOCUMENTS["add_version"], values)
        if collection_id is not None:
            await queue_enrichment(connection, tenant.org_id, content.document_id)
    return None if row is None else (row[0], row[1])


async def _store_parts(connection: Connection, key: dict[str, Any], source: Source) -> None:
    number = 0
    async for part in source.parts(PART_BYTES):
        await connection.execute(_SQL["insert_part"], {**key, "part": number, "bytes": part})
        number += 1
