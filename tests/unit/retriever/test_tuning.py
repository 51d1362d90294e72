"""The choice between graph and exact scan, and its inputs."""

from __future__ import annotations

from citewire_retriever.tuning import IndexSearch, SearchTuning, Sizes, WalkSizes, choose, walk_sizes

TUNING = SearchTuning()


def way(chunks: int, rows: int, *, top_k: int = 10, by_document: bool = False, documents: int = 1000) -> int | None:
    """The candidates of the graph's search, or None for a scan."""
    result = choose(Sizes(documents, chunks, rows), top_k=top_k, by_document=by_document, tuning=TUNING)
    return None if result is None else result.ef_search


def test_small_scopes_are_scanned() -> None:
    assert way(0, 0) is None
    assert way(1000, 1000) is None
    assert way(1000, 1_000_000) is None


def test_large_scopes_go_through_the_graph() -> None:
    assert way(50_000, 50_000) == 200
    assert way(5000, 5000) == 200


def test_candidates_grow_with_rows_out_of_scope_and_requested_results() -> None:
    assert way(50_000, 75_000) == 300
    assert way(50_000, 50_000, top_k=50) == 360
    assert way(50_000, 50_000, by_document=True) == 360
    assert way(500_000, 10_000_000) == TUNING.ef_search_max


def test_the_first_walk_starts_with_as_many_candidates_as_it_needs() -> None:
    def first(rows: int, *, top_k: int = 10) -> int:
        result = choose(Sizes(10_000, 50_000, rows), top_k=top_k, by_document=False, tuning=TUNING)
        assert result is not None
        return result.ef_search_first

    assert (first(50_000), first(100_000)) == (60, 120), "half of the candidates belong to others"
    assert (first(50_000, top_k=30), first(50_000, top_k=80)) == (80, 200)
    assert first(500_000) == TUNING.ef_search_max


def test_a_scope_that_is_a_small_part_of_its_graph_is_scanned_even_if_it_is_large() -> None:
    assert way(10_000, 10_000_000) is None
    assert way(10_000, 15_000) is not None


def test_a_scan_follows_if_a_longer_walk_would_cost_as_much() -> None:
    def scans(chunks: int, rows: int) -> bool | None:
        result = choose(Sizes(1000, chunks, rows), top_k=10, by_document=False, tuning=TUNING)
        return None if result is None else result.scans

    assert (scans(1000, 1000), scans(1001, 1001)) == (None, True)
    assert (scans(1800, 3600), scans(1810, 3620)) == (None, True), "the cost of the frequent second search counts"
    assert (scans(2400, 2400), scans(2401, 2401)) == (True, False)
    assert scans(4500, 9000) is True  # the longer walk would pass as many rows of others


def test_the_more_results_are_requested_the_rarer_is_a_second_search() -> None:
    assert (way(2400, 2400, top_k=80), way(2460, 2460, top_k=80)) == (None, None)
    assert way(2470, 2470, top_k=80) == TUNING.ef_search_max, "it counts for a fortieth, not a fifth"


def test_with_filters_the_graph_pays_off_later() -> None:
    def scanned(chunks: int, *, narrowed: bool) -> bool:
        sizes = Sizes(1000, chunks, 2 * chunks, narrowed=narrowed)
        return choose(sizes, top_k=10, by_document=False, tuning=TUNING) is None

    assert (scanned(5000, narrowed=False), scanned(5000, narrowed=True)) == (False, True)
    assert not scanned(20_000, narrowed=True)


def test_walks_return_more_than_requested() -> None:
    assert walk_sizes(top_k=10, by_document=False) == WalkSizes(60, 80)
    assert walk_sizes(top_k=10, by_document=True) == WalkSizes(100, 120)


def test_fewer_documents_than_requested_are_scanned() -> None:
    assert way(50_000, 50_000, by_document=True, documents=9) is None
    assert way(50_000, 50_000, by_document=True, documents=10) is not None


def test_an_old_count_never_exceeds_the_graph() -> None:
    result = choose(Sizes(1, 5000, 0), top_k=10, by_document=False, tuning=TUNING)
    assert result == IndexSearch(60, 200)
