"""The legs of a search in memory, as the store would find them, and the ways to order what they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.fusion_data import LexicalIndex, QuestionSet
from citewire_retriever.model import Candidate
from citewire_retriever.service.fusion import FUSION_DEPTH, fuse, fuse_by_rank

MODES: Final = ("dense", "lexical", "by rank", "hybrid")
DOCUMENTS_DEPTH: Final = 100
"""Documents that `citewire eval` asks for, and so each leg."""


@dataclass(frozen=True, slots=True)
class Legs:
    """What both legs found: chunk ids are places of passages, document ids their documents' numbers."""

    dense: tuple[Candidate, ...]
    lexical: tuple[Candidate, ...]
    ideal: float
    depth: int


def find_legs(
    library: QuestionSet,
    words: LexicalIndex,
    text: str,
    vector: NDArray[np.float32],
    *,
    by_document: bool,
    within: Sequence[int] | None = None,
) -> Legs:
    """Searches by both legs.

    Args:
        library: What is searched.
        words: Its words.
        text: The question.
        vector: The question's vector, of the library's dimensions.
        by_document: Whether a result is a document, and so its best chunk.
        within: Numbers of the documents that are in scope; None: all.
    """
    documents = np.array([passage.document for passage in library.passages])
    cosines = np.clip(library.vectors @ vector, 0.0, 1.0).astype(float)
    scores, ideal = words.scores(text)
    places = np.arange(len(documents)) if within is None else np.flatnonzero(np.isin(documents, list(within)))
    depth = DOCUMENTS_DEPTH if by_document else FUSION_DEPTH

    def best(values: NDArray[np.float64], *, above: float) -> list[int]:
        order = places[np.argsort(-values[places], kind="stable")]
        order = order[values[order] > above]
        if by_document:
            order = order[np.sort(np.unique(documents[order], return_index=True)[1])]
        return [int(place) for place in order[:depth]]

    def candidate(place: int, lexical_score: float | None) -> Candidate:
        return Candidate(place, int(documents[place]), b"", float(cosines[place]), lexical_score=lexical_score)

    return Legs(
        dense=tuple(candidate(place, None) for place in best(cosines, above=-1.0)),
        lexical=tuple(candidate(place, float(scores[place])) for place in best(scores, above=0.0)),
        ideal=ideal,
        depth=depth,
    )


def rank(legs: Legs, mode: str, *, by_document: bool) -> list[int]:
    """Returns the places of the passages, or the numbers of the documents, in the order of a mode of `MODES`."""
    if mode == "hybrid":
        results: Sequence[Candidate] = fuse(
            legs.dense, legs.lexical, by_document=by_document, ideal=legs.ideal, depth=legs.depth
        )
    elif mode == "by rank":
        results = fuse_by_rank(legs.dense, legs.lexical, by_document=by_document)
    else:
        results = legs.dense if mode == "dense" else legs.lexical
    return [result.document_id if by_document else result.chunk_id for result in results]
