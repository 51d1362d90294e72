"""Fusion of two rankings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from citewire_retriever.model import Chunk, Hit
from citewire_retriever.service.fusion import fuse


def hit(chunk_id: int, *, document_id: int = 0, lexical_score: float | None = None) -> Hit:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    place = (None, None, None, None, 0, 1)
    chunk = Chunk(
        chunk_id, document_id, 1, 0, "t", 1, b"", "", *place, "", "", "", "file", moment, live=True, metadata={}
    )
    return Hit(chunk, 0.5, lexical_score=lexical_score)


def test_both_legs_count_and_ties_go_to_the_words() -> None:
    dense = [hit(1), hit(2), hit(3)]
    lexical = [hit(4, lexical_score=9.0), hit(3, lexical_score=8.0), hit(5, lexical_score=7.0)]
    fused = fuse(dense, lexical, by_document=False)
    assert [(each.chunk.chunk_id, each.fused_score) for each in fused] == [
        (3, pytest.approx(1 / 8 + 1 / 7)),
        (4, pytest.approx(1 / 6)),
        (1, pytest.approx(1 / 6)),
        (2, pytest.approx(1 / 7)),
        (5, pytest.approx(1 / 8)),
    ]
    assert [each.lexical_score for each in fused] == [8.0, 9.0, None, None, 7.0]


def test_a_documents_chunk_is_the_dense_legs() -> None:
    fused = fuse([hit(1, document_id=7)], [hit(2, document_id=7, lexical_score=3.0)], by_document=True)
    assert [(each.chunk.chunk_id, each.lexical_score) for each in fused] == [(1, 3.0)]


def test_one_leg_alone_keeps_its_order() -> None:
    assert [each.chunk.chunk_id for each in fuse([hit(2), hit(1)], [], by_document=False)] == [2, 1]
    assert fuse([], [], by_document=True) == []
