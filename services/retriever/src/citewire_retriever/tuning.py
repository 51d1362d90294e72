"""Chooses the graph or an exact scan for a dense search. It affects speed and recall, not what may be found.

The costs were measured (see benchmarks/scale.py). The graph's cost grows with the candidates that it must keep, and
their number with the share of its rows that are out of scope: other tenants' in the partition, and filtered ones. The
scan's cost grows with the scope.

Most questions are about something in the scope, and a short walk finds its chunks. If the scope has nothing about a
question, the nearest chunks are all far away, scattered among others just as far, and a short walk misses some. The
walk's distances show this. A second search then follows in the same statement: a longer walk, or a scan if that costs
no more.
"""

from dataclasses import dataclass
from typing import Final

_CANDIDATES_PER_RESULT: Final = 4
"""Candidates per result, in addition to `ef_search`, if every row of the graph is in scope."""

_SPARE: Final = 50
"""Additional chunks returned by the first walk, which are used to judge it."""

_SPARE_AGAIN: Final = 70
"""The same for the second walk."""

_FIRST_PER_RESULT: Final = 2.5
"""Candidates of the first walk per result, if that is more than `ef_search_first`: a walk that has to continue because
its candidates are used up takes longer than one that starts with enough."""

WATCHED: Final = 10
"""Number of nearest chunks watched for judging the walk."""

MARGIN: Final = 0.06
"""The first walk is doubted if the last of the watched chunks is nearer than the last one returned by less than this
share of its distance (ADR 13), and if they weren't all among the first quarter returned, as it was then still finding
nearer ones."""

_DOUBTED: Final = 0.2
"""Share of first walks for ten results that are doubted and so cost a second search. The more results, the farther the
last of them is from the tenth."""

_FILTERED: Final = 5.0
"""Relative cost of a candidate with filters, compared with one for which only its tenant is checked: more for filters
by metadata, or ones that exclude what is near the question; less for tags."""

CHUNKS_PER_DOCUMENT: Final = 5
"""Chunks to examine per document, when only a document's best chunk counts."""


@dataclass(frozen=True, slots=True)
class SearchTuning:
    """The settings for the choice, explained in `RetrieverSettings`."""

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
    """Approximate sizes known before a search."""

    documents: int
    """Live documents in the scope."""
    chunks: int
    """Their chunks."""
    partition_rows: int
    """Rows in the shared graph, of all tenants."""
    narrowed: bool = False
    """Whether filters exclude part of the tenant's chunks."""
    hidden: bool = False
    """Whether part of the tenant's chunks is hidden from the caller."""


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """A search through the graph."""

    ef_search_first: int
    """Candidates of the first walk."""
    ef_search: int
    """Candidates of the second walk."""
    scans: bool = False
    """Whether a scan replaces the second walk."""


@dataclass(frozen=True, slots=True)
class WalkSizes:
    """Number of chunks in scope that the walks return."""

    first: int
    again: int


def walk_sizes(*, top_k: int, by_document: bool) -> WalkSizes:
    """Returns how many chunks the walks return for this many results."""
    rows = _rows(top_k, by_document=by_document)
    return WalkSizes(rows + _SPARE, rows + _SPARE_AGAIN)


def choose(sizes: Sizes, *, top_k: int, by_document: bool, tuning: SearchTuning) -> IndexSearch | None:
    """Chooses between graph and scan.

    Args:
        sizes: The scope's sizes.
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
    """Number of chunks that are scanned in the time of a walk with this many candidates."""
    cost = tuning.exact_chunks_per_candidate * candidates
    # With filters, a plan serves only one search, and planning takes as long as scanning a small scope.
    return tuning.exact_chunks + _FILTERED * cost if sizes.narrowed else cost
