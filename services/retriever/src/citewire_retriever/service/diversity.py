"""Maximal marginal relevance: relevant results that differ from earlier ones."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from citewire_retriever.model import Candidate

Vector = NDArray[np.float32]
"""A chunk's vector: float32, shape (dimensions,), of any non-zero length."""


def diversify(
    candidates: Sequence[Candidate],
    relevance: Sequence[float],
    vectors: Mapping[int, Vector],
    diversity: float,
    most: int,
) -> list[Candidate]:
    """Repeatedly chooses the candidate with the best (1 − diversity) × relevance − diversity × similarity.

    Similarity is the highest cosine to an already chosen one; 0 without a vector. Relevance is scaled to 0–1 over all
    candidates, so that `diversity` means the same for every kind of score.

    Args:
        candidates: Best first.
        relevance: Their scores, in the same order.
        vectors: By chunk id.
        diversity: 0–1; 0 leaves the order as it is.
        most: How many are chosen.

    Returns:
        The chosen ones, in the order of choice.
    """
    if not diversity or not candidates:
        return list(candidates[:most])
    scores = np.asarray(relevance, np.float64)
    spread = float(np.ptp(scores))
    scores = (scores - scores.min()) / spread if spread else np.ones_like(scores)
    units = _units(candidates, vectors)
    likeness = np.zeros(len(candidates))
    left = np.ones(len(candidates), bool)
    picked: list[Candidate] = []
    for _ in range(min(most, len(candidates))):
        value = np.where(left, (1 - diversity) * scores - diversity * likeness, -np.inf)
        position = int(value.argmax())  # the first of the best: in a tie, the better candidate
        picked.append(candidates[position])
        left[position] = False
        likeness = np.maximum(likeness, units @ units[position])
    return picked


def _units(candidates: Sequence[Candidate], vectors: Mapping[int, Vector]) -> NDArray[np.float64]:
    """Vectors of length 1 as rows; zeros where there is none."""
    width = max((len(vector) for vector in vectors.values()), default=1)
    rows = np.zeros((len(candidates), width))
    for position, candidate in enumerate(candidates):
        vector = vectors.get(candidate.chunk_id)
        if vector is not None:
            rows[position] = vector
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
