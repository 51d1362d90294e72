"""Similarity of a document to a question, from the vectors of their tokens.

Each token of the question is matched with the most similar token of the document; the mean of their cosines is MaxSim
(as in ColBERT). Matches that are close together mean more, so MaxSim is computed within short passages too. As the
embedding model wasn't trained for this, a first ranking's scores are combined with it: docs/adr/0009-rerank.md has the
measurements.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from citewire_embedder.providers.token_vectors import TokenVectors

_STEP = 12
"""Step in tokens between passages; a short passage has twice as many tokens, a long one four times."""
_WHOLE, _LONG, _SHORT = 0.2, 0.4, 0.4
"""Weights of MaxSim within the whole document, and within its best passage of both lengths."""
_FULL_AGREEMENT = 0.7
_FEW = 5
"""Number of documents up to which no agreement can be determined."""
_ALIKE = 1e-12


def max_sim(query: TokenVectors, document: TokenVectors) -> float:
    """The mean, over the query's tokens, of the cosine to the most similar token of the document."""
    return float((query @ document.T).max(axis=1).mean())


def closeness(query: TokenVectors, document: TokenVectors, heading: int = 0) -> float:
    """MaxSim within the whole document, and within its best long and its best short passage; −1 to 1.

    Args:
        query: The question's token vectors.
        document: The document's token vectors, those of its heading first.
        heading: How many of them belong to the heading, which is part of each passage.
    """
    return passage_closeness(query @ document.T, heading)


def passage_closeness(cosines: NDArray[np.float32], heading: int) -> float:
    """Like `closeness`, from the cosines of each token of the query (rows) to each of the document."""
    whole = float(cosines.max(axis=1).mean())
    body = cosines[:, heading:]
    if not body.shape[1]:
        return whole
    above = cosines[:, :heading].max(axis=1, keepdims=True) if heading else None
    steps = np.maximum.reduceat(body, range(0, body.shape[1], _STEP), axis=1)
    pairs = np.maximum.reduceat(steps, range(0, steps.shape[1], 2), axis=1)
    return _WHOLE * whole + _LONG * _best_passage(pairs, above) + _SHORT * _best_passage(steps, above)


def blend(first: Sequence[float], own: Sequence[float]) -> list[float]:
    """Adds the closeness of token vectors to a first ranking's scores, as far as both agree.

    Agreement is the correlation of both over the documents; from 0.7 on the token vectors count in full. A model that
    doesn't know the language never agrees, and leaves the first ranking unchanged.

    Args:
        first: Scores of a first ranking, on the scale of a hybrid search: about 0–1, the best usually 0.2–0.6.
        own: Closeness of each document.
    """
    unclear = len(first) <= _FEW or max(first) - min(first) < _ALIKE
    trust = 1.0 if unclear else min(1.0, max(0.0, _correlation(first, own)) / _FULL_AGREEMENT)
    return [before + trust * more for before, more in zip(first, own, strict=True)]


def _best_passage(parts: NDArray[np.float32], above: NDArray[np.float32] | None) -> float:
    """MaxSim within the best two neighbouring parts, given each part's highest cosine for each token of the query."""
    passages = np.maximum(parts[:, :-1], parts[:, 1:]) if parts.shape[1] > 1 else parts
    return float((passages if above is None else np.maximum(passages, above)).mean(axis=0).max())


def _correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns Pearson's correlation; 0 if all values of one side are equal."""
    left, right = np.asarray(first, np.float64), np.asarray(second, np.float64)
    spread = float(left.std() * right.std())
    return float(((left - left.mean()) * (right - right.mean())).mean()) / spread if spread > _ALIKE else 0.0
