"""Finds versions without vectors or terms, in Postgres."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from psycopg import sql

from citewire_kit.postgres import Connection, Pool, guard_of, tenant_transaction
from citewire_kit.queries import load_queries
from citewire_kit.tenant import Tenant
from citewire_kit.transaction_settings import is_spread
from citewire_retriever.headings import heading, named
from citewire_retriever.ingest.chunk_rows import weighed_terms
from citewire_retriever.ingest.model import Job, LeaseLostError, OwnEmbedding, VectorTable
from citewire_retriever.ingest.transactions import own_embedding, refused, shared
from citewire_retriever.ingest.turn import Turn
from citewire_retriever.model import Space, SpaceScale
from citewire_retriever.store.jobs import queue_missing

_SQL: Final = load_queries("citewire_retriever.ingest.backfill", "queries.sql")
_LONG_STATEMENT: Final = 300.0
"""Time limit for checking an organisation, which reads an index entry per chunk."""
_MISSING_SECONDS: Final = 120.0
"""Age of uploads of which each has a job, unless it was lost."""
_SAMPLE: Final = 4000
"""Approximate number of chunks for a library's centroid; all, if there are fewer."""
_LEAST_OF_COLLECTION: Final = 50
"""Minimum number of sampled chunks for a collection to have its own centroid."""
_MOST_COLLECTIONS: Final = 200
"""Maximum number of an organisation's collections with a centroid, the largest ones."""


@dataclass(frozen=True, slots=True)
class TargetSpaces:
    """The spaces in which an organisation's documents should have vectors, without further ones."""

    live: Space | None
    """The live space; None before the first document."""
    following: Space | None
    """The space being prepared, if any."""
    own: OwnEmbedding | None
    """The organisation's own embedding provider (in a job's case, the user's first)."""
    only_own: bool
    """Whether only the organisation's own providers may see its documents."""


@dataclass(frozen=True, slots=True)
class IncompleteVersion:
    """A live version with missing vectors."""

    title: str
    """Its document's title for embedding, with its file's name."""
    targets: TargetSpaces
    """The spaces in which it should have vectors."""


class PostgresBackfillStore:
    """Finds missing vectors and terms. Raises as `PostgresJobStore`."""

    def __init__(self, pool: Pool) -> None:
        """Takes the pool of the worker's role."""
        self._pool = pool

    async def take_due(self, again_seconds: float) -> str | None:
        """Claims the organisation whose check is most overdue; None if none is due.

        No other worker gets it within `again_seconds`, even if this one fails.
        """
        async with shared(self._pool) as connection:
            cursor = await connection.execute(_SQL["take_due"], {"again_seconds": again_seconds})
            row = await cursor.fetchone()
        return None if row is None else str(row[0])

    async def come_back(self, org_id: str, seconds: float) -> None:
        """Makes an organisation's check due earlier."""
        async with shared(self._pool) as connection:
            await connection.execute(_SQL["come_back"], {"org_id": org_id, "seconds": seconds})

    async def target_spaces(self, org_id: str) -> TargetSpaces:
        """Reads the spaces in which an organisation's documents should have vectors."""
        tenant = _nobody(org_id)
        with refused():
            async with tenant_transaction(self._pool, tenant) as connection:
                return await _target_spaces(connection, tenant, registered_only=False)

    async def queue(
        self, org_id: str, tables: Sequence[VectorTable], further: Sequence[VectorTable], *, most: int, again: float
    ) -> int:
        """Queues live versions that lack terms or a vector in one of the tables, newest first; returns how many.

        A version whose job waits, runs, or failed less than `again` seconds ago isn't queued again. For further tables,
        this also applies to the jobs of uploads.

        Args:
            org_id: The organisation.
            tables: Tables of its live space and of the one being prepared.
            further: Tables of further spaces.
            most: Maximum number of the organisation's waiting jobs.
            again: Pause after a failure in seconds.
        """
        queued = 0
        with refused():
            async with tenant_transaction(self._pool, _nobody(org_id), statement_seconds=_LONG_STATEMENT) as connection:
                values: dict[str, Any] = {"org_id": org_id, "again": again}
                await connection.execute(_SQL["forget_given_up"], values)
                row = await (await connection.execute(_SQL["waiting"], values)).fetchone()
                room = most - (0 if row is None else int(row[0]))
                spaces = [(each.name, False) for each in tables] + [(each.name, True) for each in further]
                for table, is_further in [("lexical", False), *spaces]:
                    if room <= queued:
                        break
                    values |= {"kind": "backfill", "most": room - queued, "further": is_further}
                    vectors = sql.Identifier("corpus", table)
                    queued += await _queue(connection, "incomplete", values, vectors=vectors)
        return queued

    async def queue_missing(self, org_id: str, *, most: int) -> int:
        """Queues uploads whose job a cluster's coordinator has lost; returns how many.

        Call it when the pool has connected, as `take_due` makes it do: only then does it know whether there are nodes.
        """
        if guard_of(self._pool) is None:
            return 0
        with refused():
            async with tenant_transaction(self._pool, _nobody(org_id), statement_seconds=_LONG_STATEMENT) as connection:
                return await queue_missing(connection, org_id, after=_MISSING_SECONDS, most=most)

    async def queue_enrichment(self, org_id: str, *, most: int) -> int:
        """Queues a limited number of live versions of collections with enrichment; returns how many."""
        with refused():
            async with tenant_transaction(self._pool, _nobody(org_id), statement_seconds=_LONG_STATEMENT) as connection:
                values = {"org_id": org_id, "kind": "enrich", "most": most, "further": False}
                return await _queue(connection, "not_enriched", values)

    async def is_waiting(self, org_id: str) -> bool:
        """Whether a backfill of the organisation waits or runs."""
        with refused():
            async with tenant_transaction(self._pool, _nobody(org_id)) as connection:
                row = await (await connection.execute(_SQL["waiting"], {"org_id": org_id})).fetchone()
        return row is not None and row[0] > 0

    async def has_scale(self, org_id: str, table: VectorTable, texts_version: int) -> bool:
        """Whether a space was measured for the organisation with these texts."""
        values = {"org_id": org_id, "space_id": table.space_id, "texts_version": texts_version}
        with refused():
            async with tenant_transaction(self._pool, _nobody(org_id)) as connection:
                return (await connection.execute(_SQL["has_scale"], values)).rowcount == 1

    async def put_scale(self, org_id: str, table: VectorTable, scale: SpaceScale, texts_version: int) -> None:
        """Stores a measurement."""
        values = {"org_id": org_id, "space_id": table.space_id, "texts_version": texts_version}
        with refused():
            async with tenant_transaction(self._pool, _nobody(org_id)) as connection:
                await connection.execute(_SQL["put_scale"], values | asdict(scale))

    async def sample_centroids(self, org_id: str, table: VectorTable) -> None:
        """Recomputes the centroids of the organisation and of its collections, if its size has changed much."""
        values: dict[str, Any] = {"org_id": org_id, "space_id": table.space_id}
        with refused():
            async with tenant_transaction(self._pool, _nobody(org_id), statement_seconds=_LONG_STATEMENT) as connection:
                row = await (await connection.execute(_SQL["centroids_due"], values)).fetchone()
                if row is None:
                    return
                values |= {
                    "chunks": row[0],
                    "every": max(1, round(row[0] / _SAMPLE)),
                    "least": _LEAST_OF_COLLECTION,
                    "most": _MOST_COLLECTIONS,
                }
                statement = sql.SQL(_SQL["sample_centroids"]).format(vectors=sql.Identifier("corpus", table.name))
                await connection.execute(_SQL["forget_centroids"], values)
                await connection.execute(statement, values)

    async def incomplete_version(self, job: Job) -> IncompleteVersion | None:
        """Reads a job's version; None if it isn't live any more."""
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                row = await (await connection.execute(_SQL["live_title"], _key(job))).fetchone()
                targets = await _target_spaces(connection, job.tenant, registered_only=True)
        return None if row is None else IncompleteVersion(named(row[0], row[1]), targets)

    async def add_terms(self, job: Job, title: str, most: int, turn: Turn) -> int:
        """Stores and counts missing terms of a limited number of chunks; returns their number.

        Raises:
            LeaseLostError: The job isn't ours any more, or the version isn't live.
        """
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                cursor = await connection.execute(_SQL["without_terms"], {**_key(job), "most": most})
                chunks = await cursor.fetchall()
        if not chunks:
            return 0
        texts = [(heading(title, section), text) for _, section, text in chunks]
        # Terms take a quarter of a millisecond per chunk, so they are computed in a thread, while no lock is held.
        terms = await turn.compute(lambda: [weighed_terms(header, text) for header, text in texts])
        with refused():
            async with tenant_transaction(self._pool, job.tenant, statement_seconds=_LONG_STATEMENT) as connection:
                live = await (await connection.execute(_SQL["hold_live"], _key(job))).fetchone()
                if live is None:
                    raise LeaseLostError
                for query in ("hold_version", "hold_job"):
                    await _written(connection, query, job)
                values = {**_key(job), "chunk_ids": [row[0] for row in chunks], "terms": terms}
                added = [row[0] for row in await (await connection.execute(_SQL["add_terms"], values)).fetchall()]
                if added:
                    values = {"org_id": job.tenant.org_id, "access_id": live[0], "added": added}
                    await connection.execute(_SQL["count_terms"], values)
        return len(chunks)

    async def end(self, job: Job, further: Sequence[VectorTable]) -> None:
        """Ends a job successfully; from now on the organisation's searches may use these further spaces."""
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                await connection.execute(_SQL["hold_version"], _key(job))
                for table in further:
                    await connection.execute(_SQL["add_further_space"], {**_key(job), "space_id": table.space_id})
                await _written(connection, "forget_job", job)

    async def give_up(self, job: Job) -> None:
        """Ends a job without success; `queue` takes the version up again later."""
        with refused():
            async with tenant_transaction(self._pool, job.tenant) as connection:
                await connection.execute(_SQL["hold_version"], _key(job))
                await _written(connection, "fail_job", job)


async def _queue(connection: Connection, which: str, values: dict[str, Any], **blanks: sql.Composable) -> int:
    """Queues the versions found by a statement that aren't queued yet; returns how many."""
    spread = is_spread(connection)
    if spread:
        row = await (await connection.execute(_SQL["jobs"], values)).fetchone()
        document_ids, versions = row or ([], [])
        values = {**values, "document_ids": document_ids, "versions": versions}
    taken = sql.SQL(_SQL["taken_there" if spread else "taken"])
    gaps = await (await connection.execute(sql.SQL(_SQL[which]).format(taken=taken, **blanks), values)).fetchall()
    if not gaps:
        return 0
    document_ids, versions, owners = (list(column) for column in zip(*gaps, strict=True))
    values = {**values, "document_ids": document_ids, "versions": versions, "owners": owners}
    return (await connection.execute(_SQL["queue"], values)).rowcount


async def _target_spaces(connection: Connection, tenant: Tenant, *, registered_only: bool) -> TargetSpaces:
    row = await (await connection.execute(_SQL["target_spaces"], {"org_id": tenant.org_id})).fetchone()
    own, only_own = await own_embedding(connection, tenant)
    if row is None:
        return TargetSpaces(None, None, own, only_own)
    live = None if row[0] is None else Space(row[0], row[1], row[2])
    following = None if row[3] is None or (registered_only and not row[6]) else Space(row[3], row[4], row[5])
    return TargetSpaces(live, following, own, only_own)


async def _written(connection: Connection, query: str, job: Job) -> None:
    """Writes a job, if it is still this worker's; otherwise the transaction is rolled back."""
    if (await connection.execute(_SQL[query], _key(job))).rowcount != 1:
        raise LeaseLostError


def _nobody(org_id: str) -> Tenant:
    """The organisation as a tenant without a user."""
    return Tenant(org_id, "backfill", "free")


def _key(job: Job) -> dict[str, Any]:
    return {
        "org_id": job.tenant.org_id,
        "job_id": job.job_id,
        "fence": job.fence,
        "document_id": job.document_id,
        "version": job.version,
    }
