"""The worker's surroundings for tests of ingest: uploads, an embedder over gRPC without weights, and the tables."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from callers import WORKER_KEY
from citewire_kit.postgres import Pool, open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.ingest.app import work
from citewire_retriever.ingest.chunker import chunk
from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.document import ParsedDocument
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.ingest.store import PostgresJobStore
from citewire_retriever.model import NewContent
from citewire_retriever.store.content import PostgresContent
from citewire_retriever.store.documents import PostgresDocuments
from citewire_retriever.store.storage import PostgresStorage
from databases import HasDsn
from embedder_server import running_embedder_server
from fake_embedding import FakeModel

WINDOW = 64
"""Tokens that the fake model takes, its two special ones included."""

ACME = Tenant("acme", "ann", "pro")
OTHER = Tenant("other", "bob", "free")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BytesSource:
    """Content that is in memory."""

    data: bytes

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return len(self.data)

    @property
    def sha256(self) -> bytes:
        """Its digest."""
        return hashlib.sha256(self.data).digest()

    async def parts(self, size: int) -> AsyncGenerator[bytes, None]:
        """Its bytes, part by part."""
        for start in range(0, len(self.data), size):
            yield self.data[start : start + size]


class IngestHarness:
    """A database filled by uploads and read by its owner, to whom no policy applies."""

    def __init__(self, uploads: Pool, owner: psycopg.AsyncConnection[Row], worker: PostgresJobStore) -> None:
        storage = PostgresStorage(uploads, None)
        self.corpus = uploads
        self.uploads = PostgresContent(uploads, storage, store_seconds=30)
        self.documents = PostgresDocuments(uploads, storage, store_seconds=30)
        self.owner = owner
        self.worker = worker

    @classmethod
    @asynccontextmanager
    async def open(cls, database: HasDsn) -> AsyncGenerator[Self]:
        """Opens pools and connections to a database."""
        async with AsyncExitStack() as stack:
            corpus = await open_pool(database.dsn("citewire_corpus"), name="uploads")
            stack.push_async_callback(corpus.close)
            worker_dsn = database.dsn("citewire_worker")
            jobs = await open_pool(worker_dsn, name="worker")
            stack.push_async_callback(jobs.close)
            owner = await psycopg.AsyncConnection[Row].connect(
                database.dsn("postgres"), autocommit=True, row_factory=dict_row
            )
            stack.push_async_callback(owner.close)
            yield cls(corpus, owner, PostgresJobStore(jobs, worker_dsn))

    async def upload(
        self,
        name: str,
        data: str | bytes,
        *,
        tenant: Tenant = ACME,
        document_id: int | None = None,
        title: str = "",
        media_type: str = "",
        collection: str = "",
        tags: tuple[str, ...] = (),
        request_id: str = "",
    ) -> int:
        """Uploads a file; returns the document's id when it is durable."""
        content = NewContent(document_id, "file", name, media_type, title, collection, tags, None, "", request_id)
        source = BytesSource(data.encode() if isinstance(data, str) else data)
        stored = await self.uploads.add(tenant, content, source)
        assert stored is not None
        return stored.document.document_id

    async def rows(self, statement: str, *values: object) -> list[Row]:
        """All rows of a query, as the owner."""
        cursor = await self.owner.execute(statement.encode(), values)
        return await cursor.fetchall()

    async def row(self, statement: str, *values: object) -> Row:
        """The one row of a query."""
        (row,) = await self.rows(statement, *values)
        return row

    async def version(self, document_id: int, version: int = 1) -> Row:
        """A version's row."""
        return await self.row(
            "SELECT * FROM corpus.versions WHERE document_id = %s AND version = %s", document_id, version
        )

    async def document(self, document_id: int) -> Row:
        """A document's row."""
        return await self.row("SELECT * FROM corpus.documents WHERE document_id = %s", document_id)

    async def job(self, document_id: int, version: int = 1) -> Row:
        """The row of a version's ingest job."""
        return await self.row(
            "SELECT * FROM corpus.ingest_jobs WHERE document_id = %s AND version = %s AND kind = 'ingest'",
            document_id,
            version,
        )

    async def chunks(self, document_id: int, version: int = 1) -> list[Row]:
        """A version's chunks, in order."""
        return await self.rows(
            "SELECT * FROM corpus.chunks WHERE document_id = %s AND version = %s ORDER BY chunk_index",
            document_id,
            version,
        )

    async def text(self, document_id: int, version: int = 1) -> str:
        """A version's stored text."""
        parts = await self.rows(
            "SELECT char_start, body FROM corpus.texts WHERE document_id = %s AND version = %s ORDER BY part",
            document_id,
            version,
        )
        text = "".join(part["body"] for part in parts)
        assert [text[part["char_start"] :][: len(part["body"])] for part in parts] == [part["body"] for part in parts]
        return text

    async def vectors(self, document_id: int, version: int | None = None) -> list[Row]:
        """A document's vectors, in order of the chunks; none if there is no space yet."""
        tables = await self.rows("SELECT table_name FROM corpus.spaces")
        rows: list[Row] = []
        for table in tables:
            query = sql.SQL(
                "SELECT v.version, c.chunk_index, v.embedding::text FROM {} v"
                " JOIN corpus.chunks c USING (org_id, chunk_id)"
                " WHERE v.document_id = %s AND v.version = coalesce(%s, v.version) ORDER BY v.version, c.chunk_index"
            ).format(sql.Identifier("corpus", table["table_name"]))
            rows += await (await self.owner.execute(query, (document_id, version))).fetchall()
        return rows

    async def count(self, table: str, document_id: int) -> int:
        """Number of a table's rows that belong to a document."""
        query = sql.SQL("SELECT count(*) AS n FROM {} WHERE document_id = %s").format(sql.Identifier("corpus", table))
        row = await (await self.owner.execute(query, (document_id,))).fetchone()
        return 0 if row is None else int(row["n"])

    async def until(self, document_id: int, status: str, version: int = 1, *, seconds: float = 30) -> Row:
        """Waits until a version has a status, woken by the notifications that watchers get."""
        try:
            async with asyncio.timeout(seconds):
                await self.owner.execute("LISTEN citewire_corpus_progress")
                while (row := await self.version(document_id, version))["status"] != status:
                    async for _ in self.owner.notifies(timeout=1, stop_after=1):
                        pass
                return row
        except TimeoutError:
            row = await self.version(document_id, version)
            job = await self.job(document_id, version)
            raise AssertionError(f"version {version} isn't {status} after {seconds} s: {row}, {job}") from None


def worker_settings(database: HasDsn, embedder: str, **changes: object) -> WorkerSettings:
    """Settings of a worker without delays."""
    values: dict[str, object] = {
        "dsn": database.dsn("citewire_worker"),
        "embedder_target": embedder,
        "metrics_port": 0,
        "poll_seconds": 0.2,
        "retry_seconds": 0.1,
        "retry_seconds_max": 0.4,
        "batch_chunks": 4,
        "stream_batches": 2,
        "chunk_tokens": 24,
        "overlap_tokens": 8,
        "confinement": "available",
        "auth": "keys",
        "caller_key": WORKER_KEY,
        **changes,
    }
    return WorkerSettings.model_validate(values)


@asynccontextmanager
async def running_worker(settings: WorkerSettings) -> AsyncGenerator[asyncio.Event]:
    """A worker in this event loop; it stops with the block, or when the event is set."""
    stop = asyncio.Event()
    working = asyncio.create_task(work(settings, stop))
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await working


@asynccontextmanager
async def embedder_address(model: FakeModel) -> AsyncGenerator[str]:
    """The real embedder around a fake model; yields its address."""
    async with running_embedder_server(model) as running:
        yield f"127.0.0.1:{running.server.port}"


async def count_words(texts: Sequence[str]) -> list[int]:
    """The fake model's token count."""
    return [len(text.split()) for text in texts]


async def expected_chunks(document: ParsedDocument, title: str, settings: WorkerSettings) -> list[Chunk]:
    """The chunks of an undisturbed ingest."""
    return await chunk(document, title, settings.rules(WINDOW - 2), count_words)


def article(sections: int, sentences: int = 6, *, name: str = "topic") -> str:
    """Markdown with a number of sections and sentences; all sentences differ."""
    parts = [f"# All about {name}"]
    for section in range(sections):
        text = " ".join(f"Sentence {index} of {name} {section} says something new." for index in range(sentences))
        parts.append(f"## Part {section} of {name}\n\n{text}")
    return "\n\n".join(parts) + "\n"
