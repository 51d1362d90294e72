"""Which way a dense search goes: the graph, or an exact scan. Speed and recall depend on it, not what may be found.

Both costs were measured (see benchmarks/scale.py). The graph's grows with the candidates that it must keep, and these
with the share of its rows that are out of scope: other tenants of the partition, and what the filters leave out. The
scan's grows with the scope. Questions that the scope says nothing about are the hardest: their nearest chunks are all
far away, and scattered among others that are as far. The candidates are such that these too are answered.
"""

from dataclasses import dataclass
from typing import Final

_CANDIDATES_PER_RESULT: Final = 4
"""Candidates for each result wanted, besides `ef_search`, if every row of the graph is in scope."""

CHUNKS_PER_DOCUMENT: Final = 5
"""Chunks to look at for each document wanted, when only a document's best chunk counts."""


@dataclass(frozen=True, slots=True)
class SearchTuning:
    """The settings behind the choice; `RetrieverSettings` says what they mean."""

    ef_search: int = 160
    ef_search_max: int = 400
    max_scan_tuples: int = 20_000
    exact_chunks: int = 1000
    exact_chunks_per_candidate: float = 15.0
    lexical_scan_chunks: int = 8000
    statistics_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is known, roughly, before a search."""

    documents: int
    """Live documents in the scope."""
    chunks: int
    """Their chunks."""
    partition_rows: int
    """Rows that share the graph, whoever's they are."""


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """Go through the graph."""

    ef_search: int


def choose(sizes: Sizes, *, wanted: int, by_document: bool, tuning: SearchTuning) -> IndexSearch | None:
    """Chooses the way.

    Args:
        sizes: The scope's.
        wanted: How many results.
        by_document: Whether results are documents.
        tuning: The settings.

    Returns:
        How to use the graph, or None for an exact scan.
    """
    if sizes.chunks <= tuning.exact_chunks or (by_document and sizes.documents < wanted):
        return None
    rows = wanted * CHUNKS_PER_DOCUMENT if by_document else wanted
    out_of = max(sizes.partition_rows, sizes.chunks) / sizes.chunks
    candidates = (tuning.ef_search + _CANDIDATES_PER_RESULT * rows) * out_of
    if sizes.chunks <= tuning.exact_chunks + tuning.exact_chunks_per_candidate * candidates:
        return None
    return IndexSearch(ef_search=int(min(candidates, tuning.ef_search_max)))
