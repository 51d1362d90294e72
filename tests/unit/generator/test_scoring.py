"""Features for and against an answer: opposites, extremes, numbers, negation."""

import pytest

from citewire_generator.extraction.opposites import is_extreme
from citewire_generator.extraction.questions import read_question
from citewire_generator.extraction.scoring import (
    ANSWER_FEATURES,
    UNIT_FEATURES,
    Source,
    answer_features,
    answer_score,
    answerable,
    rank,
    score_units,
)
from citewire_generator.extraction.weights import load_weights

TEXT = "The tower was built in 1889 and is the tallest structure in the city. Its lifts were accepted by the council."
PASSAGE = Source(TEXT, "The tower", 0.6)


def features(question: str, source: Source = PASSAGE) -> dict[str, float]:
    scored = score_units(read_question(question), [source])
    best = rank(scored, load_weights().unit)[0][1]
    return dict(zip(ANSWER_FEATURES, answer_features(scored, best), strict=True))


def probability(question: str, *sources: Source) -> float:
    scored = score_units(read_question(question), sources)
    return answerable(scored, rank(scored, load_weights().unit)[0][1], load_weights())


@pytest.mark.parametrize(
    ("question", "feature", "value"),
    [
        ("Who accepted the lifts of the tower?", "opposed", 0.0),
        ("Who rejected the lifts of the tower?", "opposed", 1.0),  # the passage says accepted
        ("Who painted the lifts of the tower?", "opposed", 0.0),  # another word, no opposite
        ("What is the tallest structure in the city?", "opposed", 0.0),
        ("What is the shortest structure in the city?", "opposed", 1.0),
        ("What is the tallest structure in the city?", "extreme_missing", 0.0),
        ("What is the oldest structure in the city?", "extreme_missing", 1.0),
        ("What is the only structure in the city?", "extreme_missing", 1.0),
        ("What was built in 1889?", "numbers_missing", 0.0),
        ("What was built in 1890?", "numbers_missing", 1.0),
        ("What was not built in the city?", "negation", 1.0),
        ("What was built in the city?", "negation", 0.0),
        ("What did Gustave build in the city?", "names_missing", 1.0),
    ],
)
def test_features_against_an_answer(question: str, feature: str, value: float) -> None:
    assert features(question)[feature] == value


def test_prefixes_that_reverse_a_meaning() -> None:
    source = Source("The work was finished in May. It is related to the tower.", "", 0.5)
    assert features("What is unrelated to the tower?", source)["opposed"] == 1.0
    assert features("What is related to the tower?", source)["opposed"] == 0.0
    negated = Source("The work was left unfinished in May.", "", 0.5)
    assert features("When was the work finished?", negated)["opposed"] == 1.0


@pytest.mark.parametrize(
    ("passage", "same", "opposite"),
    [
        ("Der Umsatz ist im ersten Jahr hoch.", "Wann ist der Umsatz hoch?", "Wann ist der Umsatz niedrig?"),
        ("La torre está al norte de la ciudad.", "¿Qué está al norte?", "¿Qué está al sur?"),
        ("La tour est grande, au nord de la ville.", "Où est la tour du nord ?", "Où est la tour du sud ?"),
    ],
)
def test_other_languages_have_opposites_too(passage: str, same: str, opposite: str) -> None:
    source = Source(passage, "", 0.5)
    assert features(same, source)["opposed"] == 0.0
    assert features(opposite, source)["opposed"] == 1.0


def test_words_that_narrow_a_question() -> None:
    assert all(map(is_extreme, ("only", "never", "largest", "first", "nur", "ultimo")))
    assert not any(map(is_extreme, ("est", "west", "test", "forest", "interest", "tower", "")))


def test_an_opposite_costs_more_than_another_word() -> None:
    asked = "Which council {} the lifts of the tower?"
    accepted, rejected = (probability(asked.format(verb), PASSAGE) for verb in ("accepted", "rejected"))
    assert accepted > rejected
    weights = load_weights()
    result = dict(zip(ANSWER_FEATURES, weights.answer.weights, strict=True))
    assert all(result[name] > 0 for name in ("similarity", "similarity_best", "coverage"))
    against = ("negation", "names_missing", "numbers_missing", "opposed", "extreme_missing")
    assert all(result[name] < 0 for name in against)


def test_the_scale_has_its_threshold_in_the_middle() -> None:
    weights = load_weights()
    scored = score_units(read_question("When was the tower built?"), [PASSAGE])
    best = rank(scored, weights.unit)[0][1]
    assert 0 < answerable(scored, best, weights) < 1
    assert (answerable(scored, best, weights) >= 0.5) == (answer_score(scored, best, weights) >= 0)
    far = Source("Bread is baked from flour.", "", 0.0)
    assert 0 < probability("When was the tower built?", far) < 0.1


def test_each_feature_has_its_weight() -> None:
    weights = load_weights()
    assert len(weights.unit.weights) == len(UNIT_FEATURES)
    lexical = dict(zip(ANSWER_FEATURES, weights.answer_lexical.weights, strict=True))
    assert lexical["similarity"] == lexical["similarity_best"] == 0.0
