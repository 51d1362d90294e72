"""Fusion of two legs by their scores."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from citewire_retriever.model import Candidate
from citewire_retriever.service.fusion import FUSION_DEPTH, agreement, compare, distinction, fuse, fuse_by_rank, trust

ENGLISH, SPANISH, HINDI, THAI = 4.9, 3.15, 1.7, 17.0
"""Code points per token of a model for English, by the text's language."""


def candidate(
    chunk_id: int,
    similarity: float | None = 0.5,
    *,
    lexical_score: float | None = None,
    document_id: int = 0,
    chars_per_token: float = 0.0,
) -> Candidate:
    return Candidate(
        chunk_id, document_id, b"", similarity, lexical_score=lexical_score, chars_per_token=chars_per_token
    )


def legs(
    cosines: Mapping[int, float], words: Mapping[int, float], chars_per_token: float = 0.0
) -> tuple[list[Candidate], list[Candidate]]:
    dense = [
        candidate(key, cosine, chars_per_token=chars_per_token)
        for key, cosine in sorted(cosines.items(), key=lambda pair: -pair[1])
    ]
    lexical = [
        candidate(key, cosines.get(key), lexical_score=score, chars_per_token=chars_per_token)
        for key, score in sorted(words.items(), key=lambda pair: -pair[1])
    ]
    return dense, lexical


def order(
    dense: list[Candidate], lexical: list[Candidate], *, ideal: float = 10.0, dense_weight: float | None = None
) -> list[int]:
    fused = fuse(dense, lexical, by_document=False, ideal=ideal, dense_weight=dense_weight)
    return [result.chunk_id for result in fused]


AGREEING = {1: 0.9, 2: 0.7, 3: 0.5, 4: 0.3}, {1: 8.0, 2: 6.0, 3: 4.0, 4: 2.0}


def test_a_score_is_a_weighted_sum_of_cosine_and_share_of_the_question() -> None:
    fused = fuse(*legs(*AGREEING), by_document=False, ideal=10.0, dense_weight=0.25)
    assert [result.fused_score for result in fused] == pytest.approx([0.7125, 0.5375, 0.3625, 0.1875])
    assert [result.lexical_score for result in fused] == [8.0, 6.0, 4.0, 2.0]


def test_the_order_in_which_a_leg_lists_equal_scores_changes_nothing() -> None:
    source = random.Random(5)
    cosines = {key: round(source.random(), 1) for key in range(30)}
    words = {key: float(source.randint(1, 5)) for key in range(10, 40)}
    dense, lexical = legs(cosines, words)
    expected = order(dense, lexical)
    for _ in range(20):
        source.shuffle(dense)
        source.shuffle(lexical)
        assert order(dense, lexical) == expected


def test_a_higher_score_of_either_leg_never_ranks_lower() -> None:
    source = random.Random(7)
    for _ in range(50):
        cosines = {key: source.random() for key in range(20)}
        words = {key: source.uniform(0.1, 9) for key in range(20)}
        fused = fuse(*legs(cosines, words), by_document=False, ideal=10.0)
        places = {result.chunk_id: place for place, result in enumerate(fused)}
        for entry in range(20):
            for other in range(20):
                if cosines[entry] > cosines[other] and words[entry] > words[other]:
                    assert places[entry] < places[other]


def test_legs_that_agree_are_trusted_and_a_noisy_leg_is_not() -> None:
    source = random.Random(11)
    words = {key: 10 - key / 10 for key in range(FUSION_DEPTH)}
    agreeing = compare(*legs({key: words[key] / 12 for key in words}, words), by_document=False, ideal=10.0)
    assert agreement(agreeing) == pytest.approx(1)
    assert trust(agreeing) == 1
    noise = {key: 0.5 + 0.1 * source.random() for key in words}
    guessing = compare(*legs(noise, words), by_document=False, ideal=10.0)
    assert trust(guessing) < 0.6
    reversed_ = compare(*legs({key: 1 - words[key] / 12 for key in words}, words), by_document=False, ideal=10.0)
    assert trust(reversed_) < 0.06


def test_a_dense_leg_ignorant_of_the_language_hardly_affects_the_order() -> None:
    source = random.Random(13)
    first = 0
    for _ in range(200):
        words = {key: source.uniform(1, 3) for key in range(60)}
        words[0] = 4.5
        cosines = {key: source.uniform(0.5, 0.75) for key in range(60)}
        first += order(*legs(cosines, words))[0] == 0
    assert first >= 190


def unrelated_legs(chars_per_token: float) -> tuple[list[Candidate], list[Candidate]]:
    """Unrelated legs, each with a clear first result of its own."""
    source = random.Random(17)
    cosines = {key: 0.45 + 0.1 * source.random() for key in range(60)} | {100: 0.75}
    words = {key: source.uniform(1, 2) for key in range(60)} | {200: 5.0}
    return legs(cosines, words, chars_per_token)


@pytest.mark.parametrize(("chars_per_token", "trusted"), [(ENGLISH, 1.0), (SPANISH, 0.1), (HINDI, 0.1), (THAI, 0.1)])
def test_a_model_whose_vocabulary_covers_the_language_is_trusted_without_agreement(
    chars_per_token: float, trusted: float
) -> None:
    result = trust(compare(*unrelated_legs(chars_per_token), by_document=False, ideal=10.0))
    assert result == pytest.approx(trusted, abs=0.1 if trusted < 1 else 0)


def test_if_legs_disagree_in_an_uncovered_language_the_terms_decide() -> None:
    dense, lexical = unrelated_legs(HINDI)
    assert order(dense, lexical)[:4] == [result.chunk_id for result in lexical[:4]]


@pytest.mark.parametrize("other", ["dense", "lexical"])
def test_a_language_counts_as_covered_only_if_the_best_of_both_legs_are(other: str) -> None:
    dense, lexical = unrelated_legs(ENGLISH)
    foreign = [result._replace(chars_per_token=SPANISH) for result in (dense if other == "dense" else lexical)]
    mixed = (foreign, lexical) if other == "dense" else (dense, foreign)
    assert compare(dense, lexical, by_document=False, ideal=10.0).coverage == 1
    assert compare(*mixed, by_document=False, ideal=10.0).coverage == 0


@pytest.mark.parametrize(("chars_per_token", "coverage"), [(ENGLISH, 1.0), (SPANISH, 0.0)])
def test_rows_of_numbers_do_not_indicate_the_language(chars_per_token: float, coverage: float) -> None:
    dense, lexical = unrelated_legs(chars_per_token)
    numbers = [result._replace(chars_per_token=0.0) for result in dense]
    for rows in (numbers, [*numbers[:7], *dense[7:]]):
        assert compare(rows, lexical, by_document=False, ideal=10.0).coverage == coverage
    silent = [result._replace(chars_per_token=0.0) for result in lexical]
    assert compare(numbers, silent, by_document=False, ideal=10.0).coverage == 0


def pages_of_one_filing(chars_per_token: float) -> list[int]:
    """Forty pages with the question's words, page 1 with the most of them; page 30 has the answer."""
    words = {page: 2.0 - page / 400 for page in range(1, 41)}
    cosines = dict.fromkeys(words, 0.5) | {30: 0.55}
    return order(*legs(cosines, words, chars_per_token))


def test_if_texts_share_their_words_the_meaning_decides() -> None:
    assert pages_of_one_filing(ENGLISH)[0] == 30
    assert pages_of_one_filing(HINDI)[0] == 1


def test_a_score_stays_within_one_if_the_meaning_counts_more() -> None:
    same = dict.fromkeys(range(20), 10.0)
    fused = fuse(*legs(dict.fromkeys(same, 1.0), same, ENGLISH), by_document=False, ideal=10.0)
    assert [result.fused_score for result in fused] == pytest.approx([0.75] * 20)
    alone = fuse(*legs(dict.fromkeys(same, 1.0), same, ENGLISH), by_document=False, ideal=10.0, dense_weight=1.0)
    assert [result.fused_score for result in alone] == pytest.approx([0.5] * 20)


def test_distinction_is_how_far_the_first_result_stands_out_from_the_tenth() -> None:
    def distinction_of(words: Mapping[int, float]) -> float:
        return distinction(compare(*legs({}, words), by_document=False, ideal=10.0))

    assert distinction_of({key: 2.0 - key / 100 for key in range(40)}) == 0
    assert distinction_of(dict.fromkeys(range(40), 2.0) | {99: 5.0}) == 1
    assert 0 < distinction_of(dict.fromkeys(range(40), 2.0) | {99: 2.8}) < 1
    assert distinction_of({1: 2.0, 2: 1.9}) == 1


def test_with_few_results_the_dense_leg_is_trusted() -> None:
    assert trust(compare(*legs({1: 0.9}, {2: 9.0}), by_document=False, ideal=10.0)) > 0.8
    assert order(*legs({1: 0.9}, {2: 2.0}))[0] == 1


def test_if_terms_hardly_match_the_meaning_decides() -> None:
    # The best text matches 5 % of the question, too little to judge the dense leg by.
    words = dict.fromkeys(range(50, 60), 0.5)
    cosines = {1: 0.8, 2: 0.3} | dict.fromkeys(range(50, 60), 0.1)
    assert order(*legs(cosines, words))[:2] == [1, 2]


def test_a_single_leg_keeps_its_order() -> None:
    assert order([candidate(2, 0.9), candidate(1, 0.4)], [], ideal=0.0) == [2, 1]
    assert order([], [candidate(2, None, lexical_score=3.0), candidate(1, None, lexical_score=1.0)]) == [2, 1]
    assert fuse([], [], by_document=True, ideal=0.0) == []


@pytest.mark.parametrize(("weight", "first"), [(0.0, 9), (1.0, 1)])
def test_a_calibrated_weight_ranges_from_terms_only_to_meaning_only(weight: float, first: int) -> None:
    cosines = {1: 0.9, 2: 0.8, 3: 0.6, 9: 0.2}
    words = {1: 2.0, 2: 1.5, 3: 1.0, 9: 2.1}
    assert order(*legs(cosines, words), dense_weight=weight)[0] == first


def test_results_beyond_a_full_leg_may_have_its_lowest_score() -> None:
    dense = [candidate(key, 0.9 - key / 1000) for key in range(100)]
    lexical = [candidate(key, 0.5, lexical_score=9 - key / 100) for key in range(100, 200)]
    full = compare(dense, lexical, by_document=False, ideal=10.0, depth=100)
    assert full.shares[0] == pytest.approx(0.701)
    open_ended = compare(dense, lexical, by_document=False, ideal=10.0, depth=101)
    assert open_ended.shares[0] == 0
    unembedded = compare(dense, [candidate(500, None, lexical_score=1.0)], by_document=False, ideal=10.0, depth=100)
    assert unembedded.cosines[-1] == pytest.approx(0.801)


def test_a_documents_chunk_comes_from_the_dense_leg() -> None:
    fused = fuse(
        [candidate(1, document_id=7)], [candidate(2, document_id=7, lexical_score=3.0)], by_document=True, ideal=10.0
    )
    assert [(result.chunk_id, result.lexical_score) for result in fused] == [(1, 3.0)]


def test_by_rank_both_legs_count_and_ties_go_to_the_lexical_leg() -> None:
    dense = [candidate(1), candidate(2), candidate(3)]
    lexical = [candidate(4, lexical_score=9.0), candidate(3, lexical_score=8.0), candidate(5, lexical_score=7.0)]
    fused = fuse_by_rank(dense, lexical, by_document=False)
    assert [(result.chunk_id, result.fused_score) for result in fused] == [
        (3, pytest.approx(1 / 8 + 1 / 7)),
        (4, pytest.approx(1 / 6)),
        (1, pytest.approx(1 / 6)),
        (2, pytest.approx(1 / 7)),
        (5, pytest.approx(1 / 8)),
    ]
    assert [result.lexical_score for result in fused] == [8.0, 9.0, None, None, 7.0]
