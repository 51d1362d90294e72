"""The lexical leg of a search, as one statement."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pgvector import HalfVector
from psycopg import sql

from citewire_kit.tenant import Tenant
from citewire_retriever.lexical import count_question
from citewire_retriever.model import SearchQuery
from citewire_retriever.store import rows
from citewire_retriever.store.filter_sql import WHOLE, Parameters, only_visible, scope_condition

_SQL: Final = rows.queries("lexical")

PROBED_CHUNKS: Final = 600
"""Terms are probed, the rarest first, until this many chunks contain them. Measured between 300 and 2,000, on 38,500
chunks; it only affects speed."""


def lexical_statement(
    tenant: Tenant,
    query: SearchQuery,
    *,
    table: str | None,
    vector: HalfVector | None,
    depth: int,
    shape: rows.Shape,
    by_terms: bool = False,
    hidden: bool = False,
) -> tuple[sql.Composed | bytes, dict[str, Any]]:
    """Returns the statement and its values; rows have the shape's columns, then score and distance (or NULL).

    Rarity is measured in the collection if the scope names one, else in the organisation, without what is hidden from
    the caller; other conditions don't affect it.

    Args:
        tenant: Who asks.
        query: The search.
        table: The vectors' table, to return the distance too.
        vector: The question's vector, with `table`.
        depth: How many results.
        shape: What is read of each chunk.
        by_terms: Whether candidates are found by their terms rather than by scanning the scope, with equal results.
        hidden: Whether part of the library is hidden from the caller; a scan then skips it.
    """
    asked = count_question(query.text)
    values: dict[str, Any] = {
        "org_id": tenant.org_id,
        "terms": list(asked),
        "times": list(asked.values()),
        "depth": depth,
        "probe": PROBED_CHUNKS,
    }
    if vector is not None:
        values["vector"] = vector
    kind = _Kind(table, shape, by_document=query.by_document, by_terms=by_terms, hidden=hidden and not by_terms)
    if not query.scope.narrowed:
        return _unscoped(kind), values
    parameters = Parameters()
    scope = scope_condition(query.scope, tenant.user_id, parameters)
    if query.scope.collection:
        values["statistics_of"] = query.scope.collection
    statistics = "collection_counted" if query.scope.collection else "all_counted"
    return _compose(kind, scope, statistics), values | parameters.values


@dataclass(frozen=True, slots=True)
class _Kind:
    """The ways in which statements differ, apart from their scope."""

    table: str | None
    shape: rows.Shape
    by_document: bool
    by_terms: bool
    hidden: bool


@lru_cache(maxsize=256)
def _unscoped(kind: _Kind) -> bytes:
    """A statement over a whole organisation, cached, as there are only a few and composing them takes time."""
    return _compose(kind, WHOLE, "all_counted").as_bytes()


def _compose(kind: _Kind, scope: sql.Composable, statistics: str) -> sql.Composed:
    names = (
        "weights",
        "by_terms" if kind.by_terms else "by_scan",
        "best_documents" if kind.by_document else "best_chunks",
        "scored" if kind.table is None else "scored_and_compared",
    )
    scope = only_visible(scope, hidden=kind.hidden)
    probed = sql.SQL(_SQL["probed_documents" if kind.by_document else "probed_chunks"]).format(scope=scope)
    return sql.SQL("\n".join(_SQL[name] for name in names)).format(
        scope=scope,
        probed=probed,
        statistics=sql.SQL(_SQL[statistics]),
        columns=sql.SQL(kind.shape.columns),
        sources=sql.SQL(kind.shape.sources),
        vectors=sql.Identifier("corpus", kind.table or ""),
    )
