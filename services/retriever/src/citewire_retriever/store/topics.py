"""Data for judging whether a search's results are related to its question, beyond their scores."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from cachetools import TTLCache
from numpy.typing import NDArray

from citewire_kit.nodes import repeated
from citewire_kit.postgres import Pool, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.model import Scope, SearchQuery, Space, SpaceScale
from citewire_retriever.store import rows
from citewire_retriever.store.lexical import lexical_statement
from citewire_retriever.store.statements import fetch, scope_size
from citewire_retriever.store.vectors import half_vector
from citewire_retriever.tuning import SearchTuning

_SQL: Final = rows.queries("topics")
_MAX_ENTRIES: Final = 10_000


@dataclass(frozen=True, slots=True)
class LibraryTopic:
    """Statistics of a library or a collection in one space."""

    table: str
    """The table of the space's vectors."""
    scale: SpaceScale | None
    """The calibration measured for the organisation; None if not measured yet."""
    chunks: int | None
    """Approximate number of vectors; None without a centroid."""
    centroid: NDArray[np.float32] | None
    """The mean of its vectors, each of length 1; None for small collections."""


class PostgresTopics:
    """Reads the data for judging searches; slowly changing data is cached for some seconds."""

    def __init__(self, pool: Pool, tuning: SearchTuning) -> None:
        """Takes the pool of the application's role."""
        self._pool = pool
        self._tuning = tuning
        self._libraries = TTLCache[tuple[str, Space, str, bool], LibraryTopic](_MAX_ENTRIES, tuning.statistics_seconds)

    @repeated
    async def library(self, tenant: Tenant, space: Space, collection: str, *, hidden: bool) -> LibraryTopic:
        """Returns a collection's statistics, "" for the whole library; the space has been searched.

        Args:
            tenant: Who asks.
            space: The space.
            collection: The collection's name.
            hidden: Whether part of the library is hidden from the caller, who then gets no statistics of the whole.
        """
        key = (tenant.org_id, space, collection, hidden)
        known = self._libraries.get(key)
        if known is not None:
            return known
        values = {
            "org_id": tenant.org_id,
            "model": space.model,
            "revision": space.revision,
            "dimensions": space.dimensions,
            "collection": collection,
        }
        async with tenant_transaction(self._pool, tenant) as connection:
            table, unrelated, deviation, related, chunks, centroid = (await fetch(connection, _SQL["library"], values))[
                0
            ]
        topic = LibraryTopic(
            table,
            None if unrelated is None else SpaceScale(unrelated, deviation, related),
            chunks,
            None if centroid is None else np.asarray(centroid, np.float32),
        )
        self._libraries[key] = topic
        return topic

    @repeated
    async def chunks(self, tenant: Tenant, scope: Scope) -> int:
        """Counts the chunks of a scope, up to those of 5,000 documents."""
        async with tenant_transaction(self._pool, tenant) as connection:
            return (await scope_size(connection, tenant, scope))[1]

    @repeated
    async def word_share(self, tenant: Tenant, query: SearchQuery, table: str, chunks: int) -> float:
        """Returns the share of the question's words, weighted by rarity, in the best text, 0–1.

        Args:
            tenant: Who asks.
            query: The search, with the question's text.
            table: The table of the space's vectors.
            chunks: Approximate number in the scope.
        """
        statement, values = lexical_statement(
            tenant,
            query,
            table=table,
            vector=half_vector(np.frombuffer(query.vector, dtype="<f4")),
            depth=1,
            shape=rows.KEYS,
            by_terms=chunks > self._tuning.lexical_scan_chunks,
        )
        async with tenant_transaction(self._pool, tenant) as connection:
            result = await (await connection.execute(statement, values)).fetchall()
        if not result:
            return 0.0
        score, ideal = result[0][rows.KEYS.count], result[0][rows.KEYS.count + 2]
        return float(score / max(ideal or 0.0, score))
