"""The legs of a search in memory, with the store's results, and the ways to order these."""

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
"""Number of documents that `citewire eval` requests, and so each leg."""
_SIGNS: Final = "0123456789.,:;()$\t"
"""If more than a tenth of a text's beginning are such characters, its language can't be determined."""


@dataclass(frozen=True, slots=True)
class Legs:
    """The results of both legs: chunk ids are indexes of passages, document ids their documents' numbers."""

    dense: tuple[Candidate, ...]
    lexical: tuple[Candidate, ...]
    ideal: float
    depth: int
    by_document: bool

    def rank(self, mode: str) -> list[int]:
        """Returns the indexes of the passages, or the numbers of the documents, in the order of a mode of `MODES`."""
        results: Sequence[Candidate] = self.dense if mode == "dense" else self.lexical
        if mode == "hybrid":
            results = fuse(self.dense, self.lexical, by_document=self.by_document, ideal=self.ideal, depth=self.depth)
        elif mode == "by rank":
            results = fuse_by_rank(self.dense, self.lexical, by_document=self.by_document)
        return [result.document_id if self.by_document else result.chunk_id for result in results]


class Library:
    """The passages of a set, to be searched.

    Args:
        texts: The set; its questions aren't read.
        by_document: Whether a result is a document, represented by its best chunk.
    """

    def __init__(self, texts: QuestionSet, *, by_document: bool) -> None:
        self.passages = texts.passages
        self._by_document = by_document
        self._vectors = texts.vectors
        self._documents = np.array([passage.document for passage in texts.passages])
        self._words = LexicalIndex(
            (passage.text for passage in texts.passages), (passage.headings for passage in texts.passages)
        )

    def find_legs(self, text: str, vector: NDArray[np.float32], within: Sequence[int] | None = None) -> Legs:
        """Searches with both legs.

        Args:
            text: The question.
            vector: The question's vector, with the library's dimensions.
            within: Numbers of the documents that are in scope; None: all.
        """
        cosines = np.clip(self._vectors @ vector, 0.0, 1.0).astype(float)
        scores, ideal = self._words.scores(text)
        everything = within is None
        places = np.arange(len(cosines)) if everything else np.flatnonzero(np.isin(self._documents, list(within)))
        depth = DOCUMENTS_DEPTH if self._by_document else FUSION_DEPTH

        def candidates(values: NDArray[np.float64], *, above: float, lexical: bool) -> tuple[Candidate, ...]:
            order = places[np.argsort(-values[places], kind="stable")]
            order = order[values[order] > above]
            if self._by_document:
                order = order[np.sort(np.unique(self._documents[order], return_index=True)[1])]
            return tuple(
                self._candidate(int(place), float(cosines[place]), float(scores[place]) if lexical else None)
                for place in order[:depth]
            )

        return Legs(
            dense=candidates(cosines, above=-1.0, lexical=False),
            lexical=candidates(scores, above=0.0, lexical=True),
            ideal=ideal,
            depth=depth,
            by_document=self._by_document,
        )

    def _candidate(self, place: int, cosine: float, lexical_score: float | None) -> Candidate:
        passage = self.passages[place]
        begin = passage.body[:400]
        signs = sum(char in _SIGNS for char in begin)
        ratio = len(passage.body) / max(passage.tokens, 1) if signs <= 0.1 * len(begin) else 0.0
        return Candidate(place, passage.document, b"", cosine, lexical_score=lexical_score, chars_per_token=ratio)
