"""Measures the graph's recall against an exact search, for one search, in Postgres."""

from typing import Any, Final

import numpy as np
from psycopg import sql

from citewire_kit.postgres import Pool, tenant_transaction
from citewire_kit.transaction_settings import plans
from citewire_retriever.store import rows
from citewire_retriever.store.filter_sql import Parameters, scope_condition
from citewire_retriever.store.sampling import Sample
from citewire_retriever.store.statements import gave_up, walk_values
from citewire_retriever.store.vectors import half_vector
from citewire_retriever.tuning import SearchTuning

_SQL: Final = rows.queries("recall")
_SEARCH: Final = rows.queries("search")
_FIRST: Final = 10
"""Recall is measured for the first ten results, or all if fewer were requested."""


class PostgresRecall:
    """Repeats searches both ways in one statement, so that both see the same snapshot.

    Writes since the original search, or during this one, don't matter: the result is the present graph's recall for
    the same question, scope and effort.
    """

    def __init__(self, pool: Pool, tuning: SearchTuning, *, seconds: float) -> None:
        """Takes a separate pool, so that searches never wait for it, and the statement timeout."""
        self._pool = pool
        self._tuning = tuning
        self._seconds = seconds

    async def measure(self, sample: Sample) -> float | None:
        """Returns the share of the nearest chunks that the graph finds; None if it finds too few to be the answer.

        Chunks as near as the last of the nearest count too. Raises as `tenant_transaction`.
        """
        query = sample.query
        parameters = Parameters()
        vectors = sql.Identifier("corpus", sample.table)
        scope = scope_condition(query.scope, sample.tenant.user_id, parameters)
        statement = sql.SQL(_SQL["recall_of_documents" if query.by_document else "recall_of_chunks"]).format(
            walk=sql.SQL(_SEARCH["walk"]).format(
                vectors=vectors, scope=scope, order=sql.SQL(_SEARCH["by_scan" if sample.way.scans else "by_index"])
            ),
            vectors=vectors,
            scope=scope,
            by_scan=sql.SQL(_SEARCH["by_scan"]),
        )
        values: dict[str, Any] = {
            "org_id": sample.tenant.org_id,
            "vector": half_vector(np.frombuffer(query.vector, dtype="<f4")),
            "sample_size": min(query.top_k, _FIRST),
            **walk_values(sample.way, top_k=query.top_k, by_document=query.by_document),
            **parameters.values,
        }
        settings = {
            "org_id": sample.tenant.org_id,
            "ef_search": str(sample.way.ef_search_first),
            "max_scan_tuples": str(self._tuning.max_scan_tuples),
            "enable_sort": "off",
            "enable_seqscan": "on",
            "plans": plans(once=False),
        }
        async with tenant_transaction(self._pool, sample.tenant, statement_seconds=self._seconds) as connection:
            await connection.execute(_SEARCH["prepare_search"], settings)
            row_count, found_again, scanned, common = (await (await connection.execute(statement, values)).fetchall())[
                0
            ]
        # With fewer, a search falls back to the scan.
        lost = gave_up(sample.way, found_again, top_k=query.top_k, by_document=query.by_document)
        by_graph = row_count >= query.top_k and not lost and not (found_again is not None and sample.way.scans)
        return common / scanned if scanned and by_graph else None
