"""The built-in model as a reranker: it prefers texts that answer a question to those on the same topic."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from citewire_embedder.providers.base import Precision
from citewire_embedder.providers.late_interaction import LateInteraction
from citewire_embedder.providers.model_directory import BUILT_IN, find_model, read_directory

CASES = [
    (
        "How long does a refund take?",
        "Refunds reach your account within five working days.",
        ["Refunds are for unused tickets only.", "Our shop opens at nine.", "A delivery takes two days by lorry."],
    ),
    (
        "Who wrote the symphony that Vienna first heard in 1824?",
        "Beethoven's ninth symphony was first performed in Vienna in 1824.",
        ["Vienna is the capital of Austria.", "A symphony has four movements.", "In 1824 a railway was planned."],
    ),
    (
        "maximum file size for uploads",
        "Files of up to 256 MB can be uploaded; larger ones are refused.",
        ["Uploads are scanned for viruses.", "The maximum speed is 80 km/h.", "Delete files that you don't need."],
    ),
]


@pytest.fixture
async def reranker() -> AsyncGenerator[LateInteraction]:
    directory = read_directory(find_model(BUILT_IN).path)
    model = LateInteraction(BUILT_IN, directory, precision=Precision.FP32, threads=1)
    yield model
    await model.close()


async def test_answers_come_first(reranker: LateInteraction) -> None:
    for query, answer, others in CASES:
        ranking = await reranker.rerank(query, [*others, answer])
        assert ranking.ranked[0].index == len(others), query
        alone = await reranker.rerank(query, [answer, query])
        assert alone.ranked[0].index == 1, "no text is more similar to a question than the question itself"
        assert alone.ranked[0].score == pytest.approx(1, abs=1e-3)
