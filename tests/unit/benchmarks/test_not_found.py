"""The measures of the not-found benchmark, and its judges."""

import numpy as np
import pytest

from benchmarks.not_found import JUDGES, area, judge, recall, resampled


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    positive, negative = np.array([0.9, 0.5, 0.5]), np.array([0.1, 0.5])
    # Of six pairs, four are in order and two are ties.
    assert area(positive, negative) == pytest.approx(5 / 6)
    assert area(positive, positive) == 0.5
    assert area(negative, np.array([2.0])) == 0.0


def test_recall_is_measured_where_a_tenth_is_refused() -> None:
    positive = np.arange(100) / 100
    assert recall(positive, np.array([0.0, 0.05, 0.5])) == pytest.approx(2 / 3)
    assert recall(positive, np.array([0.5, 0.9])) == 0.0


def test_articles_are_drawn_whole() -> None:
    random = np.random.default_rng(3)
    kinds = np.array(["answerable", "removed"] * 200)
    articles = np.array([f"a{number // 20}" for number in range(400)])
    scores = random.normal(size=400) + (kinds == "answerable")
    low, high = resampled(scores, kinds, articles, "removed")
    middle = area(scores[kinds == "answerable"], scores[kinds == "removed"])
    assert low < middle < high
    assert high - low < 0.2


def test_each_judge_prefers_the_passage_that_answers() -> None:
    results = [
        {"content": "Refunds take 14 days.", "title": "Terms", "similarity": 0.7, "lexical_score": 5.0},
        {"content": "Lunch is at noon.", "title": "Canteen", "similarity": 0.1, "lexical_score": 0.5},
    ]
    answers = judge("How long do refunds take?", results)
    nothing = judge("How long do refunds take?", results[1:])
    assert len(answers) == len(nothing) == len(JUDGES)
    # With a single passage, the margin is its whole similarity.
    assert [score > other for score, other in zip(answers, nothing, strict=True)] == [True] * len(JUDGES)
    assert judge("How long do refunds take?", []) == (0.0,) * len(JUDGES)
