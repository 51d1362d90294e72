"""Results that differ from each other."""

from __future__ import annotations

import numpy as np
import pytest

from citewire_retriever.model import Candidate
from citewire_retriever.service.diversity import diversify


def candidate(chunk_id: int) -> Candidate:
    return Candidate(chunk_id, chunk_id, b"", 0.5)


CANDIDATES = [candidate(number) for number in (1, 2, 3, 4)]
SCORES = [1.0, 0.95, 0.6, 0.5]
VECTORS = {
    1: np.array([1, 0, 0], np.float32),
    2: np.array([5, 0.1, 0], np.float32),  # like 1, but longer
    3: np.array([0, 1, 0], np.float32),
    4: np.array([0, 0, 1], np.float32),
}


def order(diversity: float, most: int = 4) -> list[int]:
    return [entry.chunk_id for entry in diversify(CANDIDATES, SCORES, VECTORS, diversity, most)]


def test_without_diversity_the_order_stays() -> None:
    assert order(0.0) == [1, 2, 3, 4]


@pytest.mark.parametrize("diversity", [0.5, 0.8, 1.0])
def test_a_near_copy_follows_different_results(diversity: float) -> None:
    assert order(diversity)[0] == 1
    assert order(diversity)[-1] == 2
    assert order(diversity, most=3) == [1, 3, 4]


def test_a_little_diversity_gives_way_to_relevance() -> None:
    assert order(0.05) == [1, 2, 3, 4]


def test_a_result_without_a_vector_is_similar_to_none() -> None:
    result = diversify(CANDIDATES, SCORES, {1: VECTORS[1]}, 0.5, 4)
    assert [entry.chunk_id for entry in result] == [1, 2, 3, 4]
    assert diversify(CANDIDATES, [0.3] * 4, {}, 0.5, 2) == CANDIDATES[:2]
    assert diversify([], [], {}, 0.5, 2) == []
