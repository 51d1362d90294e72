from __future__ import annotations

import math
import random

import numpy as np
import pytest

from benchmarks.embedder import CHUNK_TOKENS, single_token_words, text_of
from benchmarks.embedder_quality import Collection, score
from citewire_embedder.providers.model_directory import BUILT_IN, find_model
from citewire_embedder.providers.tokeniser import Tokeniser


def test_texts_have_exactly_the_requested_tokens() -> None:
    tokeniser = Tokeniser(find_model(BUILT_IN).path / "tokenizer.json", max_tokens=256)
    words = single_token_words(tokeniser)
    assert len(words) > 30
    for tokens in (3, 24, CHUNK_TOKENS):
        assert tokeniser.count([text_of(words, tokens, random.Random(tokens))]) == [tokens - 2]


def test_scores_follow_the_definition() -> None:
    """By hand: the first query's graded documents rank second and third, the second query's document ranks first."""
    documents = np.array([[1, 0], [0.9, 0], [0.8, 0], [0, 1]], np.float32)
    queries = np.array([[1, 0], [0, 1]], np.float32)
    collection = Collection(
        documents=dict.fromkeys("abcd", ""),
        queries={"one": "", "two": ""},
        qrels={"one": {"b": 1, "c": 2}, "two": {"d": 1}},
    )
    ndcg, recall = score(collection, documents, queries)
    first = (1 / math.log2(3) + 2 / math.log2(4)) / (2 / math.log2(2) + 1 / math.log2(3))
    assert ndcg == pytest.approx((first + 1) / 2)
    assert recall == 1.0
