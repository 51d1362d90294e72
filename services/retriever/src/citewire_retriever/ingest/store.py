"""Jobs and what ingest writes, in Postgres."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from citewire_kit.errors import FailedPrecondition, NotFound, Unavailable
from citewire_kit.postgres import Connection, Pool, guard_of
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Plan, Tenant
from citewire_kit.transaction_settings import is_spread
from citewire_retriever.headings import named
from citewire_retriever.ingest.chunk_rows import chunk_columns, chunk_terms
from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.errors import IngestError
from citewire_retriever.ingest.model import (
    Job,
    JobKind,
    LeaseLostError,
    LiveVersion,
    Publication,
    Published,
    QueueState,
    StagedChunk,
    StoredChunk,
    Vectors,
    VectorTable,
    VersionToIngest,
)
from citewire_retriever.ingest.publishing import SQL, OtherSpaceError, held, job_key, publish, written
from citewire_retriever.ingest.transactions import STATEMENT_SECONDS, own_embedding, shared, under_tenant
from citewire_retriever.model import Space, Stage
from citewire_retriever.store.vectors import Float32, half_vector

log = get_logger(__name__)

_CHANNEL: Final = "citewire_corpus_jobs"
_LISTENER: Final = {"application_name": "citewire-worker-listen", "connect_timeout": 5}
_PARTS_AT_ONCE: Final = 4
_TEXT_PART: Final = 100_000
_PUT_BACK_SECONDS: Final = 5.0
_LONG_STATEMENT: Final = 300.0
"""Seconds for statements whose work grows with the document: publishing and removing."""


CLAIM_SECONDS: Final = 0.1
"""Seconds of work that a claim is charged in advance."""


class PostgresJobStore:
    """Jobs, and all that ingest reads and writes.

    Methods that take a job work under its tenant. Those that write raise `LeaseLostError`, and write nothing, if the
    worker holds it no longer. All raise `citewire_kit.errors.Unavailable` if the database can't be reached.
    """

    def __init__(self, pool: Pool, dsn: str) -> None:
        """Takes the pool of the worker's role, and its connection string for the connection that listens."""
        self._pool = pool
        self._dsn = dsn

    async def claim(
        self,
        kind: JobKind,
        *,
        worker: str,
        lease_seconds: float,
        most_bytes: int | None = None,
        full: Sequence[str] = (),
    ) -> Job | None:
        """Takes the first job that may run, of the organisation whose turn it is. No two workers get the same one.

        It is the turn of the one with the fewest running jobs; among these, of the one with the least virtual time.

        Args:
            kind: Of which kind.
            worker: Who claims.
            lease_seconds: For how long.
            most_bytes: Only a file of at most so many bytes, of an organisation that has no running job while others
                have.
            full: Organisations that get none.
        """
        guard = guard_of(self._pool)
        values = {
            "kind": kind,
            "worker": worker,
            "lease_seconds": lease_seconds,
            "most_bytes": most_bytes,
            # What is owed to organisations whose node is away waits in the queue.
            "full": [*full, *(guard.away_organisations() if guard else ())],
            "advance": CLAIM_SECONDS,
        }
        async with shared(self._pool) as connection:
            cursor = await connection.execute(SQL["claim"], values)
            row = await cursor.fetchone()
        if row is None:
            return None
        plan: Plan = row[7] if row[7] in ("free", "basic", "pro") else "free"
        return Job(
            job_id=row[1],
            document_id=row[2],
            version=row[3],
            kind=kind,
            attempt=row[4],
            fence=row[5],
            tenant=Tenant(row[0], row[6], plan),
            trace_context={str(key): str(value) for key, value in row[8].items()},
            age_seconds=row[9],
            lane=row[10],
            waited_seconds=max(0.0, row[11]),
        )

    async def charge(self, spent: Mapping[str, float]) -> None:
        """Charges organisations for seconds of work beyond those that their claims were charged in advance."""
        values = {"org_ids": sorted(spent), "seconds": [spent[org_id] for org_id in sorted(spent)]}
        async with shared(self._pool) as connection:
            await connection.execute(SQL["charge"], values)

    async def is_waited_for(self, job: Job) -> bool:
        """Says whether others wait for the job's place."""
        async with shared(self._pool) as connection:
            row = await (await connection.execute(SQL["is_waited_for"], job_key(job))).fetchone()
        return bool(row and row[0])

    async def pass_on(self, job: Job) -> None:
        """Queues a job that has had its turn again: what it has stored stays, and the attempt doesn't count."""
        async with self._holding(job, "lock_version", {}) as connection:
            await connection.execute(SQL["pass_on"], job_key(job))

    async def requeue_expired(self) -> int:
        """Queues jobs again whose lease has passed; returns how many."""
        async with shared(self._pool) as connection:
            return (await connection.execute(SQL["requeue_expired"])).rowcount

    async def release_all(self, worker: str) -> int:
        """Queues again whatever a worker that ends still holds; returns how many."""
        async with shared(self._pool) as connection:
            return (await connection.execute(SQL["release_all"], {"worker": worker})).rowcount

    async def renew(self, job: Job, *, lease_seconds: float) -> bool:
        """Extends a lease; False if the job isn't held any more."""
        # A transaction of the job's that waits for a node holds its row: others' leases don't wait for that.
        async with shared(self._pool, statement_seconds=lease_seconds / 3) as connection:
            cursor = await connection.execute(SQL["renew"], {**job_key(job), "lease_seconds": lease_seconds})
            return cursor.rowcount == 1

    async def begin(self, job: Job) -> VersionToIngest:
        """Marks the version as processing, and reads what is known of it."""
        async with self._holding(job, "begin_version", {"attempt": job.attempt}) as connection:
            cursor = await connection.execute(SQL["version_to_ingest"], job_key(job))
            row = await cursor.fetchone()
            own, only_own = await own_embedding(connection, job.tenant)
        if row is None:
            raise LeaseLostError
        space = None if row[6] is None else Space(row[6], row[7], row[8])
        return VersionToIngest(row[0], row[1], row[2], row[3], row[4], row[5], space, own, only_own)

    async def read_original(self, job: Job, size_bytes: int) -> AsyncGenerator[bytes]:
        """Reads the version's bytes, part by part."""
        position = first = 0
        while position < size_bytes:
            # A transaction for a few parts: parsing and spooling hold no connection.
            async with under_tenant(self._pool, job) as connection:
                values = {**job_key(job), "first": first, "end": first + _PARTS_AT_ONCE}
                cursor = await connection.execute(SQL["read_parts"], values, binary=True)
                parts: list[bytes] = [row[0] for row in await cursor.fetchall()]
            if not parts:
                raise LeaseLostError  # deleted meanwhile
            for part in parts:
                position += len(part)
                yield part
            first += len(parts)

    async def progress(self, job: Job, stage: Stage, done: int, total: int) -> None:
        """Writes how far the version is; watchers are told."""
        async with self._holding(job, "progress", {"stage": stage, "done": done, "total": total}):
            pass

    async def save_text(self, job: Job, text: str, *, first: int = 0, part: int = 0) -> int:
        """Stores text that chunks' spans point into, in place of what an earlier attempt stored from there on.

        Args:
            job: The job.
            text: The version's text, or more of it.
            first: Where it starts in the version's text, in code points.
            part: Number of its first part.

        Returns:
            The number of the part that would follow.
        """
        stage = {} if part else {"stage": "chunk", "done": 0, "total": 0}
        async with self._holding(job, "lock_version" if part else "progress", stage) as connection:
            await connection.execute(SQL["delete_text"], {**job_key(job), "part": part})
            parts = [
                {**job_key(job), "part": number, "char_start": first + start, "body": text[start : start + _TEXT_PART]}
                for number, start in enumerate(range(0, len(text), _TEXT_PART), start=part)
            ]
            await connection.cursor().executemany(SQL["insert_text"], parts)
        return part + len(parts)

    async def ensure_space(self, space: Space) -> VectorTable:
        """Finds a space's table, or makes it."""
        values = {"model": space.model, "revision": space.revision, "dimensions": space.dimensions}
        if (guard := guard_of(self._pool)) is not None:
            async with shared(self._pool) as connection:
                row = await (await connection.execute(SQL["space_table"], values)).fetchone()
            if row is not None:
                return VectorTable(*row)
            # A table is made on all nodes, or on none. Making it locks the chunks of all organisations: one node that
            # never answers would keep them locked.
            await guard.require_all()
        async with shared(self._pool) as connection:
            await connection.execute(SQL["ensure_space"], values)
            row = await (await connection.execute(SQL["space_table"], values)).fetchone()
        if row is None:
            raise NotFound("the embedding space no longer exists", reason="SPACE_NOT_FOUND")
        return VectorTable(*row)

    async def staged(self, job: Job, table: VectorTable, first: int = 0, most: int | None = None) -> list[StagedChunk]:
        """Reads what an earlier attempt has stored of the version's chunks, in order: so many at most, from one on."""
        async with under_tenant(self._pool, job) as connection:
            values = {**job_key(job), "first": first, "most": most}
            cursor = await connection.execute(_with_table(SQL["staged"], table), values, binary=True)
            return [StagedChunk(*row) for row in await cursor.fetchall()]

    async def clear(self, job: Job, first: int = 0) -> None:
        """Removes the version's chunks from one on, with their vectors."""
        values = {"stage": "embed", "done": 0, "total": 0}
        async with self._holding(job, "progress", values, statement_seconds=_LONG_STATEMENT) as connection:
            await connection.execute(SQL["delete_chunks"], {**job_key(job), "first": first})

    async def live_inputs(self, job: Job, hashes: Sequence[bytes]) -> dict[bytes, int]:
        """Which of these `input_hash`es chunks of the live version have, with one chunk's id for each."""
        async with under_tenant(self._pool, job, statement_seconds=_LONG_STATEMENT) as connection:
            values = {**job_key(job), "hashes": list(hashes)}
            cursor = await connection.execute(SQL["live_inputs"], values, binary=True)
            return dict(await cursor.fetchall())

    async def stage(
        self,
        job: Job,
        table: VectorTable,
        chunks: Sequence[Chunk],
        vectors: Iterable[Float32 | int],
        total: int,
    ) -> None:
        """Stores a batch of chunks with their vectors. No search sees them before the version is live.

        Args:
            job: The job.
            table: Where the vectors go.
            chunks: The batch.
            vectors: Of each chunk its vector, or the id of the live version's chunk that has the same one.
            total: How many chunks the version has.

        Raises:
            FailedPrecondition: The live version has become another one, and its vectors are gone.
        """
        done = chunks[-1].index + 1
        async with self._holding(job, "progress", {"stage": "embed", "done": done, "total": total}) as connection:
            cursor = await connection.execute(SQL["insert_chunks"], {**job_key(job), **chunk_columns(chunks)})
            ids: dict[int, int] = dict(await cursor.fetchall())
            await connection.execute(SQL["insert_terms"], {**job_key(job), **chunk_terms(chunks, ids)})
            rows: list[dict[str, Any]] = []
            copies: dict[int, int] = {}
            for chunk, vector in zip(chunks, vectors, strict=True):
                if isinstance(vector, int):
                    copies[ids[chunk.index]] = vector
                else:
                    rows.append({**job_key(job), "chunk_id": ids[chunk.index], "embedding": half_vector(vector)})
            await connection.cursor().executemany(_with_table(SQL["insert_vector"], table), rows)
            if copies:
                values = {**job_key(job), "chunk_ids": list(copies), "from_chunk_ids": list(copies.values())}
                cursor = await connection.execute(_with_table(SQL["copy_vectors"], table), values)
                if cursor.rowcount != len(copies):
                    raise FailedPrecondition("another version of the document went live", reason="WRONG_STATE")

    async def publish(self, job: Job, publication: Publication) -> Published:
        """Makes the version the live one and ends the job, all in one transaction.

        Older versions lose their vectors at once; a sweep is queued for the rest of them.
        """
        try:
            async with under_tenant(self._pool, job, statement_seconds=_LONG_STATEMENT) as connection:
                return await publish(connection, job, publication)
        except OtherSpaceError:
            return Published.OTHER_SPACE

    async def fail(self, job: Job, error: IngestError) -> None:
        """Marks the version as failed for good, removes what was staged, and ends the job. The live version stays."""
        values = {"code": error.code.value, "message": error.message}
        async with self._holding(job, "version_failed", values, statement_seconds=_LONG_STATEMENT) as connection:
            await connection.execute(SQL["delete_chunks"], {**job_key(job), "first": 0})
            await connection.execute(SQL["delete_text"], {**job_key(job), "part": 0})
            await connection.execute(SQL["end_job"], {**job_key(job), "state": "failed"})

    async def retry(self, job: Job, *, delay_seconds: float, uncount: bool = False) -> None:
        """Queues the job again.

        Args:
            job: The job.
            delay_seconds: Not before.
            uncount: Whether the attempt doesn't count: it was broken off by us.
        """
        first = "version_pending" if job.kind == "ingest" else "lock_version"
        async with self._holding(job, first, {}) as connection:
            await connection.execute(
                SQL["requeue"], {**job_key(job), "delay_seconds": delay_seconds, "uncount": uncount}
            )

    async def put_back(self, job: Job, *, delay_seconds: float) -> bool:
        """Queues a job again whose version's node is away, which `retry` can't; False where there are no nodes."""
        if guard_of(self._pool) is None:
            return False
        async with shared(self._pool, statement_seconds=_PUT_BACK_SECONDS) as connection:
            cursor = await connection.execute(SQL["put_back"], {**job_key(job), "delay_seconds": delay_seconds})
            return cursor.rowcount == 1

    async def live(self, job: Job) -> LiveVersion | None:
        """Reads the job's version; None if it isn't the live one any more."""
        async with under_tenant(self._pool, job) as connection:
            result = await (await connection.execute(SQL["lock_live"], job_key(job))).fetchone()
            row = await (await connection.execute(SQL["version_to_ingest"], job_key(job))).fetchone()
            _, only_own = await own_embedding(connection, job.tenant)
        if result is None or row is None:
            return None
        title = named(result[0], row[0])
        return LiveVersion(title, None if row[6] is None else Space(row[6], row[7], row[8]), only_own)

    async def unembedded(self, job: Job, table: VectorTable, most: int) -> list[StoredChunk]:
        """Reads chunks of the version, in order, that have no vector in a space."""
        async with under_tenant(self._pool, job) as connection:
            values = {**job_key(job), "most": most}
            cursor = await connection.execute(_with_table(SQL["unembedded"], table), values, binary=True)
            return [StoredChunk(*row) for row in await cursor.fetchall()]

    async def add_vectors(self, job: Job, table: VectorTable, chunk_ids: Sequence[int], vectors: Vectors) -> None:
        """Stores vectors of a live version in a space; those that are there already stay."""
        async with self._holding(job, "lock_live", {}) as connection:
            rows = [
                {**job_key(job), "chunk_id": chunk_id, "embedding": half_vector(vector)}
                for chunk_id, vector in zip(chunk_ids, vectors, strict=True)
            ]
            await connection.cursor().executemany(_with_table(SQL["insert_missing_vector"], table), rows)

    async def end_embedding(self, job: Job, tables: Sequence[VectorTable], *, failed: bool = False) -> None:
        """Ends a job of the kind embed; from now on the organisation's searches may use these spaces."""
        async with self._holding(job, "lock_version", {}) as connection:
            for table in tables:
                await connection.execute(SQL["add_further_space"], {**job_key(job), "space_id": table.space_id})
            await connection.execute(SQL["end_job"], {**job_key(job), "state": "failed" if failed else "done"})

    async def sweep(self, job: Job) -> None:
        """Forgets a superseded version: bytes, text, chunks. Does nothing to one that is live or may become so."""
        async with self._holding(job, "lock_version", {}, statement_seconds=_LONG_STATEMENT) as connection:
            forgotten = (await connection.execute(SQL["forget_version"], job_key(job))).rowcount
            if not forgotten:  # it is live after all; else the job is gone with the version
                await connection.execute(SQL["end_job"], {**job_key(job), "state": "done"})
            elif is_spread(connection):
                await connection.execute(SQL["delete_jobs"], job_key(job))

    async def queue_state(self) -> QueueState:
        """Measures the queue of ingest jobs."""
        async with shared(self._pool) as connection:
            row = await (await connection.execute(SQL["queue_state"])).fetchone()
        return QueueState(0, 0.0) if row is None else QueueState(row[0], max(0.0, row[1]))

    async def wake_ups(self) -> AsyncGenerator[None]:
        """Yields whenever jobs were queued, until the connection is lost (`Unavailable`)."""
        try:
            # A connection of its own: listening would keep one of the pool's for ever.
            connection = await psycopg.AsyncConnection.connect(make_conninfo(self._dsn, **_LISTENER), autocommit=True)
            async with connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(_CHANNEL)))
                yield
                async for _ in connection.notifies():
                    yield
        except psycopg.OperationalError as exc:
            raise Unavailable("the database can't be reached", reason="DATABASE_UNAVAILABLE", retry_after=1.0) from exc

    @asynccontextmanager
    async def _holding(
        self, job: Job, first: str, values: dict[str, Any], *, statement_seconds: float = STATEMENT_SECONDS
    ) -> AsyncGenerator[Connection]:
        """A transaction in which the job is surely this worker's: it begins with a statement on the version's row.

        Raises:
            LeaseLostError: It isn't any more, or the version was deleted; nothing is written.
        """
        async with under_tenant(self._pool, job, statement_seconds=statement_seconds) as connection:
            await written(connection, first, {**job_key(job), **values})
            await held(connection, job)
            yield connection


def _with_table(query: LiteralString, table: VectorTable) -> sql.Composed:
    return sql.SQL(query).format(vectors=sql.Identifier("corpus", table.name))
