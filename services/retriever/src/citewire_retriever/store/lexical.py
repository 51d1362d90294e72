"""The lexical leg of a search, as one statement."""

from typing import Any, Final

from psycopg import sql

from citewire_kit.tenant import Tenant
from citewire_retriever.lexical import count_question
from citewire_retriever.model import SearchQuery
from citewire_retriever.store import rows
from citewire_retriever.store.filter_sql import Parameters, scope_condition
from citewire_retriever.store.vectors import HalfVector

_SQL: Final = rows.queries("lexical")
_CHUNK_COLUMNS: Final = sql.SQL(rows.queries("search")["chunk_columns"])


PROBED_CHUNKS: Final = 600
"""Terms are probed, the rarest first, until so many chunks hold them. Measured between 300 and 2,000, on 38,500 chunks;
it only decides about speed."""


def lexical_statement(
    tenant: Tenant,
    query: SearchQuery,
    *,
    table: str | None,
    vector: HalfVector | None,
    depth: int,
    by_terms: bool = False,
) -> tuple[sql.Composed, dict[str, Any]]:
    """Returns the statement, and its values; rows have `chunk_columns`, then score and distance (or NULL).

    Rarity is that of the collection if the scope names one, else that of the organisation; other conditions don't
    change it.

    Args:
        tenant: Who asks.
        query: What is searched.
        table: The vectors' table, to give the distance too.
        vector: The question's, with `table`.
        depth: How many results.
        by_terms: Whether candidates are found by their terms, instead of scanning the scope. It finds the same.
    """
    parameters = Parameters()
    asked = count_question(query.text)
    names = (
        "weights",
        "by_terms" if by_terms else "by_scan",
        "best_documents" if query.by_document else "best_chunks",
        "scored" if table is None else "scored_and_compared",
    )
    scope = scope_condition(query.scope, tenant.user_id, parameters)
    probed = sql.SQL(_SQL["probed_documents" if query.by_document else "probed_chunks"]).format(scope=scope)
    statement = sql.SQL("\n".join(_SQL[name] for name in names)).format(
        scope=scope,
        probed=probed,
        counted=sql.SQL(_SQL["collection_counted" if query.scope.collection else "all_counted"]),
        chunk_columns=_CHUNK_COLUMNS,
        vectors=sql.Identifier("corpus", table or ""),
    )
    values: dict[str, Any] = {
        "org_id": tenant.org_id,
        "terms": list(asked),
        "times": list(asked.values()),
        "depth": depth,
        "probe": PROBED_CHUNKS,
        **parameters.values,
    }
    if query.scope.collection:
        values["statistics_of"] = query.scope.collection
    if vector is not None:
        values["vector"] = vector
    return statement, values
