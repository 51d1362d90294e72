"""Jobs and what ingest writes, in Postgres."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from citewire_kit.errors import FailedPrecondition, NotFound, Unavailable
from citewire_kit.postgres import Pool, guard_of
from citewire_kit.telemetry import get_logger
from citewire_kit.tenant import Plan, Tenant
from citewire_kit.transaction_settings import is_spread
from citewire_retriever.headings import named
from citewire_retriever.ingest.chunk_rows import chunk_columns, chunk_terms
from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.cluster_jobs import forget_orphan, put_back
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
from citewire_retriever.ingest.publishing import SQL, OtherSpaceError, holding, job_key, publish
from citewire_retriever.ingest.transactions import own_embedding, shared, under_tenant
from citewire_retriever.model import Space, Stage
from citewire_retriever.store.vectors import Float32, half_vector

log = get_logger(__name__)

_CHANNEL: Final = "citewire_corpus_jobs"
_LISTENER: Final = {"application_name": "citewire-worker-listen", "connect_timeout": 5}
_PARTS_AT_ONCE: Final = 4
_TEXT_PART: Final = 100_000
_LONG_STATEMENT: Final = 300.0
"""Seconds for publishing and removing, which take longer for larger documents."""


CLAIM_SECONDS: Final = 0.1
"""Seconds of work that a claim is charged in advance."""


class PostgresJobStore:
    """Jobs, and everything that ingest reads and writes.

    Methods that take a job work under its tenant. Those that write raise `LeaseLostError`, and write nothing, if the
    worker no longer holds it. All raise `citewire_kit.errors.Unavailable` if the database can't be reached.
    """

    def __init__(self, pool: Pool, dsn: str) -> None:
        """Takes the pool of the worker's role, and its connection string past any pooler, for listening."""
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
        """Claims the first runnable job of the organisation whose turn it is. No two workers get the same job.

        It is the turn of the organisation with the fewest running jobs and, among those, the least virtual time.

        Args:
            kind: The job's kind.
            worker: The claiming worker.
            lease_seconds: The lease's length.
            most_bytes: Only a file of at most this size, of an organisation that has no running job while others do.
            full: Organisations that get no job.
        """
        guard = guard_of(self._pool)
        values = {
            "kind": kind,
            "worker": worker,
            "lease_seconds": lease_seconds,
            "most_bytes": most_bytes,
            # Jobs of organisations whose node is away wait in the queue.
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
        """Charges organisations for seconds of work beyond those charged in advance for their claims."""
        values = {"org_ids": sorted(spent), "seconds": [spent[org_id] for org_id in sorted(spent)]}
        async with shared(self._pool) as connection:
            await connection.execute(SQL["charge"], values)

    async def is_waited_for(self, job: Job) -> bool:
        """Whether other jobs wait for this one's slot."""
        async with shared(self._pool) as connection:
            row = await (await connection.execute(SQL["is_waited_for"], job_key(job))).fetchone()
        return bool(row and row[0])

    async def pass_on(self, job: Job) -> None:
        """Requeues a job after its turn: what it has stored stays, and the attempt doesn't count."""
        async with holding(self._pool, job, "lock_version", {}) as connection:
            await connection.execute(SQL["pass_on"], job_key(job))

    async def requeue_expired(self) -> int:
        """Requeues jobs with expired leases; returns how many."""
        async with shared(self._pool) as connection:
            return (await connection.execute(SQL["requeue_expired"])).rowcount

    async def release_all(self, worker: str) -> int:
        """Requeues the jobs still held by a worker that is stopping; returns how many."""
        async with shared(self._pool) as connection:
            return (await connection.execute(SQL["release_all"], {"worker": worker})).rowcount

    async def renew(self, job: Job, *, lease_seconds: float) -> bool:
        """Extends a lease; False if the job is no longer held."""
        # The job's row may be locked by its own transaction waiting for a node; other leases shouldn't wait for that.
        async with shared(self._pool, statement_seconds=lease_seconds / 3) as connection:
            cursor = await connection.execute(SQL["renew"], {**job_key(job), "lease_seconds": lease_seconds})
            return cursor.rowcount == 1

    async def begin(self, job: Job) -> VersionToIngest:
        """Marks the version as processing, and reads its metadata."""
        async with holding(self._pool, job, "begin_version", {"attempt": job.attempt}) as connection:
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
            # One transaction per few parts, so that parsing and spooling hold no connection.
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
        """Writes the version's progress, and notifies watchers."""
        async with holding(self._pool, job, "progress", {"stage": stage, "done": done, "total": total}):
            pass

    async def save_text(self, job: Job, text: str, *, first: int = 0, part: int = 0) -> int:
        """Stores the text that chunks' spans point into, replacing what an earlier attempt stored from there on.

        Args:
            job: The job.
            text: The version's text, or more of it.
            first: Its start in the version's text, in code points.
            part: The number of its first part.

        Returns:
            The number of the next part.
        """
        stage = {} if part else {"stage": "chunk", "done": 0, "total": 0}
        async with holding(self._pool, job, "lock_version" if part else "progress", stage) as connection:
            await connection.execute(SQL["delete_text"], {**job_key(job), "part": part})
            parts = [
                {**job_key(job), "part": number, "char_start": first + start, "body": text[start : start + _TEXT_PART]}
                for number, start in enumerate(range(0, len(text), _TEXT_PART), start=part)
            ]
            await connection.cursor().executemany(SQL["insert_text"], parts)
        return part + len(parts)

    async def ensure_space(self, space: Space) -> VectorTable:
        """Finds a space's table, or creates it."""
        values = {"model": space.model, "revision": space.revision, "dimensions": space.dimensions}
        if (guard := guard_of(self._pool)) is not None:
            async with shared(self._pool) as connection:
                row = await (await connection.execute(SQL["space_table"], values)).fetchone()
            if row is not None:
                return VectorTable(*row)
            # A table is created on all nodes or on none. That locks the chunks of all organisations, which a node that
            # never answers would keep locked.
            await guard.require_all()
        async with shared(self._pool) as connection:
            await connection.execute(SQL["ensure_space"], values)
            row = await (await connection.execute(SQL["space_table"], values)).fetchone()
        if row is None:
            raise NotFound("the embedding space no longer exists", reason="SPACE_NOT_FOUND")
        return VectorTable(*row)

    async def staged(self, job: Job, table: VectorTable, first: int = 0, most: int | None = None) -> list[StagedChunk]:
        """Reads the version's chunks stored by an earlier attempt, in order: at most `most`, from one on."""
        async with under_tenant(self._pool, job) as connection:
            values = {**job_key(job), "first": first, "most": most}
            cursor = await connection.execute(_with_table(SQL["staged"], table), values, binary=True)
            return [StagedChunk(*row) for row in await cursor.fetchall()]

    async def clear(self, job: Job, first: int = 0) -> None:
        """Removes the version's chunks from one on, with their vectors."""
        values = {"stage": "embed", "done": 0, "total": 0}
        async with holding(self._pool, job, "progress", values, statement_seconds=_LONG_STATEMENT) as connection:
            await connection.execute(SQL["delete_chunks"], {**job_key(job), "first": first})

    async def live_inputs(self, job: Job, hashes: Sequence[bytes]) -> dict[bytes, int]:
        """Maps those `input_hash`es that the live version has to the id of one of its chunks."""
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
        """Stores a batch of chunks with their vectors. Searches don't see them until the version is live.

        Args:
            job: The job.
            table: The table for the vectors.
            chunks: The batch.
            vectors: Each chunk's vector, or the id of the live version's chunk with the same one.
            total: How many chunks the version has.

        Raises:
            FailedPrecondition: The live version has become another one, and its vectors are gone.
        """
        done = chunks[-1].index + 1
        values: dict[str, Any] = {"stage": "embed", "done": done, "total": total}
        async with holding(self._pool, job, "progress", values, plan_once=True) as connection:
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
        """Makes the version live and ends the job, in one transaction.

        Older versions lose their vectors at once; a sweep is queued for the rest.
        """
        try:
            async with under_tenant(self._pool, job, statement_seconds=_LONG_STATEMENT) as connection:
                return await publish(connection, job, publication)
        except OtherSpaceError:
            return Published.OTHER_SPACE

    async def fail(self, job: Job, error: IngestError) -> None:
        """Marks the version as permanently failed, removes staged data, and ends the job. The live version stays."""
        values = {"code": error.code.value, "message": error.message}
        async with holding(self._pool, job, "version_failed", values, statement_seconds=_LONG_STATEMENT) as connection:
            await connection.execute(SQL["delete_chunks"], {**job_key(job), "first": 0})
            await connection.execute(SQL["delete_text"], {**job_key(job), "part": 0})
            await connection.execute(SQL["end_job"], {**job_key(job), "state": "failed"})

    async def retry(self, job: Job, *, delay_seconds: float, uncount: bool = False) -> None:
        """Requeues the job.

        Args:
            job: The job.
            delay_seconds: The least delay.
            uncount: Whether the attempt doesn't count, because it was interrupted by us.
        """
        first = "version_pending" if job.kind == "ingest" else "lock_version"
        async with holding(self._pool, job, first, {}) as connection:
            await connection.execute(
                SQL["requeue"], {**job_key(job), "delay_seconds": delay_seconds, "uncount": uncount}
            )

    async def put_back(self, job: Job, *, delay_seconds: float) -> bool:
        """Requeues a job whose version's node is away, which `retry` can't do; False without nodes."""
        return await put_back(self._pool, job, delay_seconds=delay_seconds)

    async def forget_orphan(self, job: Job) -> bool:
        """Deletes a job without a version, as foreign keys do without nodes; False if it has one."""
        return await forget_orphan(self._pool, job)

    async def live(self, job: Job) -> LiveVersion | None:
        """Reads the job's version; None if it is no longer live."""
        async with under_tenant(self._pool, job) as connection:
            result = await (await connection.execute(SQL["lock_live"], job_key(job))).fetchone()
            row = await (await connection.execute(SQL["version_to_ingest"], job_key(job))).fetchone()
            _, only_own = await own_embedding(connection, job.tenant)
        if result is None or row is None:
            return None
        title = named(result[0], row[0])
        return LiveVersion(title, None if row[6] is None else Space(row[6], row[7], row[8]), only_own)

    async def unembedded(self, job: Job, table: VectorTable, most: int) -> list[StoredChunk]:
        """Reads chunks of the version that have no vector in a space, in order."""
        async with under_tenant(self._pool, job) as connection:
            values = {**job_key(job), "most": most}
            cursor = await connection.execute(_with_table(SQL["unembedded"], table), values, binary=True)
            return [StoredChunk(*row) for row in await cursor.fetchall()]

    async def add_vectors(self, job: Job, table: VectorTable, chunk_ids: Sequence[int], vectors: Vectors) -> None:
        """Stores vectors of a live version in a space; existing ones stay."""
        async with holding(self._pool, job, "lock_live", {}, plan_once=True) as connection:
            rows = [
                {**job_key(job), "chunk_id": chunk_id, "embedding": half_vector(vector)}
                for chunk_id, vector in zip(chunk_ids, vectors, strict=True)
            ]
            await connection.cursor().executemany(_with_table(SQL["insert_missing_vector"], table), rows)

    async def end_embedding(self, job: Job, tables: Sequence[VectorTable], *, failed: bool = False) -> None:
        """Ends a job of kind embed; from now on the organisation's searches may use these spaces."""
        async with holding(self._pool, job, "lock_version", {}) as connection:
            for table in tables:
                await connection.execute(SQL["add_further_space"], {**job_key(job), "space_id": table.space_id})
            await connection.execute(SQL["end_job"], {**job_key(job), "state": "failed" if failed else "done"})

    async def sweep(self, job: Job) -> None:
        """Removes a superseded version's bytes, text and chunks. Leaves a version alone that is or may become live."""
        async with holding(self._pool, job, "lock_version", {}, statement_seconds=_LONG_STATEMENT) as connection:
            forgotten = (await connection.execute(SQL["forget_version"], job_key(job))).rowcount
            if not forgotten:  # it is live after all; otherwise the job was removed with the version
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
            # A separate connection, as listening would occupy one of the pool's for ever.
            connection = await psycopg.AsyncConnection.connect(make_conninfo(self._dsn, **_LISTENER), autocommit=True)
            async with connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(_CHANNEL)))
                yield
                async for _ in connection.notifies():
                    yield
        except psycopg.OperationalError as exc:
            raise Unavailable("the database can't be reached", reason="DATABASE_UNAVAILABLE", retry_after=1.0) from exc


def _with_table(query: LiteralString, table: VectorTable) -> sql.Composed:
    return sql.SQL(query).format(vectors=sql.Identifier("corpus", table.name))
