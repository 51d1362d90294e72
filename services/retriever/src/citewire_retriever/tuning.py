"""Chooses the graph or an exact scan for a dense search. It affects speed and recall, not what may be found.

The costs were measured (see benchmarks/scale.py). The graph's grows with the candidates that it must keep, and these
with the share of its rows that are out of scope: other tenants of the partition, and what the filters leave out. The
scan's grows with the scope.

Most questions are about something that the scope holds: a short walk finds its chunks. If it holds nothing about a
question, the nearest chunks are all far away, scattered among others just as far, and a short walk misses some. The
distances of the walk show this. A second look then follows in the same statement: a longer walk, or a scan if that
costs no more.
"""

from dataclasses import dataclass
from typing import Final

_CANDIDATES_PER_RESULT: Final = 4
"""Candidates for each result wanted, besides `ef_search`, if every row of the graph is in scope."""

_SPARE: Final = 50
"""Chunks that the first walk gives besides those wanted: the doubt is about these."""

_SPARE_AGAIN: Final = 70
"""The same of the second walk."""

_FIRST_PER_RESULT: Final = 2.5
"""Candidates of the first walk for each result wanted, where that is more than `ef_search_first`: a walk that has to go
on, as its candidates are used up, takes longer than one that begins with enough."""

WATCHED: Final = 10
"""How many of the nearest the doubt looks at."""

MARGIN: Final = 0.06
"""The first walk is doubted if the last of the watched ones is nearer than the last of all that it gave by less than
this share of its distance (ADR 13); and if they weren't all among the first quarter of what it gave: then it was still
finding nearer ones."""

_DOUBTED: Final = 0.2
"""Share of the first walks for ten results that are doubted: so often a second look has to be paid for, too. The more
results, the farther the last of them is from the tenth."""

_FILTERED: Final = 5.0
"""What a candidate costs where filters are looked up for it, compared with one for which only its tenant counts: more
where they go by metadata, or leave out what is near the question; less where they go by tags."""

CHUNKS_PER_DOCUMENT: Final = 5
"""Chunks to look at for each document wanted, when only a document's best chunk counts."""


@dataclass(frozen=True, slots=True)
class SearchTuning:
    """The settings behind the choice; `RetrieverSettings` says what they mean."""

    ef_search_first: int = 60
    ef_search: int = 160
    ef_search_max: int = 400
    max_scan_tuples: int = 20_000
    exact_chunks: int = 1000
    exact_chunks_per_candidate: float = 12.0
    lexical_scan_chunks: int = 4000
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
    narrowed: bool = False
    """Whether filters leave out part of what is the tenant's."""
    hidden: bool = False
    """Whether part of what is the tenant's is hidden from the caller."""


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """Go through the graph."""

    ef_search_first: int
    """Candidates of the first walk."""
    ef_search: int
    """Candidates of the second one."""
    scans: bool = False
    """Whether a scan takes the second walk's place."""


@dataclass(frozen=True, slots=True)
class WalkSizes:
    """How many chunks the walks give, those in scope counted."""

    first: int
    again: int


def walk_sizes(*, top_k: int, by_document: bool) -> WalkSizes:
    """Returns how many chunks the walks of a search for so many results give."""
    rows = _rows(top_k, by_document=by_document)
    return WalkSizes(rows + _SPARE, rows + _SPARE_AGAIN)


def choose(sizes: Sizes, *, top_k: int, by_document: bool, tuning: SearchTuning) -> IndexSearch | None:
    """Chooses the way.

    Args:
        sizes: The scope's.
        top_k: How many results.
        by_document: Whether results are documents.
        tuning: The settings.

    Returns:
        How to use the graph, or None for an exact scan.
    """
    if sizes.chunks <= tuning.exact_chunks or (by_document and sizes.documents < top_k):
        return None
    rows = _rows(top_k, by_document=by_document)
    out_of = max(sizes.partition_rows, sizes.chunks) / sizes.chunks
    first = max(tuning.ef_search_first, rows + _SPARE, _FIRST_PER_RESULT * rows) * out_of
    again = (tuning.ef_search + _CANDIDATES_PER_RESULT * rows) * out_of
    scanned_again = _scanned_meanwhile(sizes, again, tuning)
    doubted = _DOUBTED * min(1, WATCHED / rows)
    if sizes.chunks <= _scanned_meanwhile(sizes, first, tuning) + doubted * min(scanned_again, sizes.chunks):
        return None
    return IndexSearch(
        ef_search_first=int(min(first, tuning.ef_search_max)),
        ef_search=int(min(again, tuning.ef_search_max)),
        scans=sizes.chunks <= scanned_again,
    )


def _rows(top_k: int, *, by_document: bool) -> int:
    return top_k * CHUNKS_PER_DOCUMENT if by_document else top_k


def _scanned_meanwhile(sizes: Sizes, candidates: float, tuning: SearchTuning) -> float:
    """How many chunks are scanned in the time of a walk with so many candidates."""
    cost = tuning.exact_chunks_per_candidate * candidates
    # With filters, a plan serves only one search, and takes as long to make as a small scope to scan.
    return tuning.exact_chunks + _FILTERED * cost if sizes.narrowed else cost
