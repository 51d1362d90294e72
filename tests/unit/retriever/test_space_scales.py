"""The scale of similarities in a space, by built-in texts."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from citewire_retriever.ingest.backfill.scales import TEXTS, scale_of

Pair = tuple[NDArray[np.float32], NDArray[np.float32]]


def space(noise: float, offset: float = 0.0, *, seed: int = 1, texts: int = 16) -> Pair:
    """Questions equal to their texts except for noise, all shifted in one direction."""
    random = np.random.default_rng(seed)
    passages = random.normal(size=(texts, 300))
    questions = passages + noise * random.normal(size=passages.shape)
    questions, passages = (np.column_stack([part, np.full(texts, offset * 300**0.5)]) for part in (questions, passages))
    return questions.astype(np.float32), (3 * passages).astype(np.float32)


def test_questions_and_texts_belong_together_in_every_language() -> None:
    assert len(TEXTS) >= 4
    for texts in TEXTS.values():
        assert len(texts.questions) == len(texts.passages) >= 8
        assert len(set(texts.questions)) == len(set(texts.passages)) == len(texts.passages)


def test_vectors_in_one_corner_shift_the_mean_and_not_the_distinction() -> None:
    plain, moved = scale_of({"en": space(1.0)}), scale_of({"en": space(1.0, offset=2.0)})
    assert plain.unrelated == pytest.approx(0.0, abs=0.02)
    assert moved.unrelated > 0.6
    assert moved.deviation < plain.deviation / 2
    assert moved.related == pytest.approx(
        plain.related, rel=0.3
    )  # lengths vary a little, and so does the corner's share


def test_the_language_that_the_model_knows_best_counts() -> None:
    known, unknown = space(1.0), space(6.0, offset=1.5, seed=2)
    assert scale_of({"xx": unknown, "en": known}) == scale_of({"en": known})


def test_a_model_that_finds_everything_alike_distinguishes_nothing() -> None:
    same = np.ones((8, 4), np.float32)
    assert scale_of({"en": (same, same)}).related == pytest.approx(0.0, abs=0.1)
    assert abs(scale_of({"en": (space(1.0)[0], space(1.0, seed=3)[1])}).related) < 1.5
