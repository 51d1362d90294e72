"""What `citewire eval` computes: text measures, not-found decisions, significance, thresholds, bounds, fusion."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress, TextColumn

from citewire_eval.answer_text import compare, contains, normalise, overlap, without_markers
from citewire_eval.answers import Answer, Kind, without_gold
from citewire_eval.calibration import THRESHOLDS, WEIGHTS, WeightCurve, calibrate, derive_weight, merge
from citewire_eval.client import Failures
from citewire_eval.comparison import compare_runs
from citewire_eval.datasets.model import Dataset, Document, Question, Span, build
from citewire_eval.gates import Gate
from citewire_eval.measures import judge_not_found, judge_searches, latency_ms, mean, quantile, threshold_at
from citewire_eval.progress import StepProgress
from citewire_eval.results import MEASURES, Row, Run
from citewire_eval.search import Ranking, SearchMode, SearchRun
from citewire_eval.statistics import paired_p, roc_auc, safe_quantile


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The  cat's hat, a U.S. one!", ["cats", "hat", "us", "one"]),
        ("«Déjà vu» – l’été", ["déjà", "vu", "lété"]),
        ("東京タワー", list("東京タワー")),
        ("", []),
    ],
)
def test_normalisation_is_squads(text: str, words: list[str]) -> None:
    assert normalise(text) == words


@pytest.mark.parametrize(
    ("answer", "gold", "present"),
    [
        ("It was in [ref:1] October 1973. [SOURCE 2]", "october 1973", 1.0),
        ("It cost 120 euros.", "12", 0.0),  # words, not letters
        ("Nothing of that.", "October", 0.0),
        ("それは東京です", "東京", 1.0),
        ("Anything", "…", 0.0),  # a gold answer without any word can't be present
    ],
)
def test_presence_is_of_whole_words(answer: str, gold: str, present: float) -> None:
    assert compare(answer, [gold])["answer_present"] == present


def test_the_best_matching_gold_answer_counts() -> None:
    values = compare("October of 1973", ["October 1973", "May", "1973"])
    assert values["answer_f1"] == pytest.approx(0.8)  # precision 2/3, recall 1
    assert values["answer_recall"] == 1
    assert values["answer_present"] == 1
    assert compare("", ["x"]) == {"answer_present": 0.0, "answer_f1": 0.0, "answer_recall": 0.0}


def test_markers_are_no_part_of_an_answer() -> None:
    assert without_markers("One [ref:1]. Two [SOURCE 12], three 【3†a】.") == "One . Two , three ."
    assert without_markers("a[0] = [1, 2]") == "a[0] = [1, 2]"


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_overlap_is_symmetric_and_bounded(answer: list[str], other: list[str]) -> None:
    f1, recall = overlap(answer, other)
    assert 0 <= f1 <= 1
    assert 0 <= recall <= 1
    assert f1 == pytest.approx(overlap(other, answer)[0])
    assert (f1 == 1) == (sorted(answer) == sorted(other))
    if contains(answer, other):
        assert recall == 1


def make_answer(kind: Kind, not_found: bool, score: float | None = None, name: str = "q") -> Answer:
    return Answer(name, kind, not_found, score)


def test_not_found_decisions() -> None:
    positive = [make_answer("answerable", False, score / 10) for score in range(1, 10)] + [
        make_answer("answerable", True, 0.0)
    ]
    negative = [make_answer("left out", True, 0.05), make_answer("left out", False, 0.5)]
    measures = judge_not_found(positive, negative)
    assert [measures[f"not_found_{name}"] for name in ("precision", "recall", "f1")] == [0.5, 0.5, 0.5]
    assert measures["not_found_recall_at_10"] == 0.5  # at most one of ten may lie below the threshold, which is 0.1
    # 0.05 is above one of ten; 0.5 above five, and ties with one.
    assert measures["not_found_auc"] == pytest.approx((9 + 4.5) / 20)


def test_scores_that_are_missing_give_no_curve() -> None:
    measures = judge_not_found([make_answer("answerable", False, None)], [make_answer("unanswerable", True, 0.0)])
    assert not {"not_found_auc", "not_found_recall_at_10"} & measures.keys()
    assert judge_not_found([], [])["not_found_f1"] == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.sampled_from([0.0, 0.05, 0.1, 0.5]))
def test_a_threshold_cuts_off_at_most_the_given_rate(scores: list[float], rate: float) -> None:
    threshold = threshold_at(scores, rate)
    assert sum(score < threshold for score in scores) <= rate * len(scores)
    above = [score for score in scores if score > threshold]
    if above:  # it must be the highest such score
        assert sum(score < min(above) for score in scores) > int(rate * len(scores))


def test_roc_auc_counts_pairs() -> None:
    pairs = [(p > n) + 0.5 * (p == n) for p in (1, 2, 3) for n in (0, 2)]
    assert roc_auc([1, 2, 3], [0, 2]) == pytest.approx(sum(pairs) / 6)


def test_quantiles_and_means() -> None:
    assert latency_ms([0.001 * n for n in range(1, 101)]) == {"p50": 51.0, "p95": 96.0}
    assert (quantile([], 0.5), mean([])) == (0.0, 0.0)


def test_a_safe_quantile_holds_for_the_population_nineteen_times_of_twenty() -> None:
    drawn = random.Random(7)
    held = 0
    for _ in range(200):
        threshold, sure = safe_quantile([drawn.random() for _ in range(400)], 0.05)
        assert sure
        held += threshold <= 0.05  # of evenly spread numbers, 5 % lie below 0.05
    assert 180 <= held <= 200
    assert safe_quantile([0.3, 0.2, 0.9], 0.05) == (0.2, False)


def test_paired_p_tells_chance_from_a_difference() -> None:
    assert paired_p([0.0] * 50) == 1
    assert paired_p([0.1, -0.1] * 20) > 0.5
    assert paired_p([0.1] * 20) < 0.001
    assert paired_p([1.0]) == 1  # one question proves nothing


def row(label: str, values: Mapping[str, float]) -> Row:
    measures, per_query = {"nDCG@10": mean(values.values())}, {"nDCG@10": dict(values)}
    return Row("set", "search", label, len(values), 9, measures, per_query, {}, {"p95": 90})


def test_runs_are_compared_on_common_questions() -> None:
    before = Run((row("dense", {f"q{n}": 0.5 for n in range(30)}), row("lexical", {"q1": 0.5})), {})
    after = Run((row("dense", {f"q{n}": 0.75 for n in range(10, 50)}), row("hybrid", {"q1": 1.0})), {})
    (difference,) = compare_runs(after, before)
    assert (difference.label, difference.questions, difference.before, difference.after) == ("dense", 20, 0.5, 0.75)
    assert difference.p < 0.001
    assert difference.mark == "**"


def test_several_comparisons_are_corrected() -> None:
    drawn = random.Random(3)
    noise = {f"q{n}": drawn.random() for n in range(40)}
    better = {name: value + drawn.choice([0.1, 0.1, -0.06]) for name, value in noise.items()}
    before = Run(tuple(row(f"m{n}", noise) for n in range(6)), {})
    after = Run(tuple(row(f"m{n}", better if n == 0 else dict(noise)) for n in range(6)), {})
    first, *others = compare_runs(after, before)
    assert first.corrected == first.p  # measures that don't differ don't count as tests
    assert [(entry.changed, entry.corrected) for entry in others] == [(0, 1.0)] * 5
    again = Run(tuple(row(f"m{n}", better) for n in range(6)), {})
    assert [run.corrected for run in compare_runs(again, before)] == [pytest.approx(min(1.0, first.p * 6))] * 6


@pytest.mark.parametrize(
    ("text", "under", "broken"),
    [
        ("nDCG@10=0.5", True, []),
        ("nDCG@10=0.8", True, ["set dense: nDCG@10 0.7000 is under 0.8"]),
        ("lexical:nDCG@10=0.8", True, []),
        ("dense:nDCG@10=0.6", False, ["set dense: nDCG@10 0.7000 is over 0.6"]),
        ("p95=50", False, ["set dense: p95 90.0000 is over 50", "set lexical: p95 90.0000 is over 50"]),
        ("R@5=0.1", True, ["no measure called R@5 was taken"]),
        ("hybrid:nDCG@10=0.1", True, ["no measure called hybrid:nDCG@10 was taken"]),
    ],
)
def test_bounds(text: str, under: bool, broken: list[str]) -> None:
    rows = [row("dense", {"q": 0.7}), row("lexical", {"q": 0.9})]
    assert Gate.parse(text, under=under).violations(rows) == broken


@pytest.mark.parametrize("text", ["nDCG@10", "nDCG@10=high", "nDCG=0.5", ":R@5=1", "R@5=nan"])
def test_bounds_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"isn't MEASURE=VALUE|unknown measure"):
        Gate.parse(text, under=True)


def ranking(*ranking: str, gold: float | None = None, other: float | None = None) -> Ranking:
    return Ranking(ranking, gold, other, 0.01)


def dataset_of(questions: Sequence[Question]) -> Dataset:
    documents = [Document(name, "", f"text of {name}") for name in ("a", "b", "c", "d")]
    return build("set", "beir", documents, questions)


def test_measures_follow_the_servers_order() -> None:
    questions = [Question(name, "?", judged={"a": 1}) for name in ("1", "2", "3", "4")]
    run = SearchRun(SearchMode("dense"), Failures("set, dense"))
    run.rankings |= {"1": ranking("a", "b"), "2": ranking("b", "a"), "3": ranking()}  # the fourth failed
    values = judge_searches(dataset_of(questions), run, by_chunk=False)
    assert values["nDCG@10"] == pytest.approx({"1": 1, "2": 0.6309, "3": 0, "4": 0}, abs=1e-4)
    assert values["RR@10"] == {"1": 1, "2": 0.5, "3": 0, "4": 0}
    assert values["R@5"] == {"1": 1, "2": 1, "3": 0, "4": 0}


def test_chunks_are_judged_by_the_parts_that_they_contain() -> None:
    span = Span("a", 0, 6, "text o")
    run = SearchRun(SearchMode("dense"), Failures("set, dense"))
    run.rankings["1"] = ranking("a#7", span.key)
    values = judge_searches(dataset_of([Question("1", "?", judged={"a": 1}, spans=(span,))]), run, by_chunk=True)
    assert values["RR@10"] == {"1": 0.5}


def weight_curve(*, best: float, loss: float, questions: int = 60) -> WeightCurve:
    """A set whose questions lose `loss` for each step away from the best weight."""
    drawn = random.Random(5)
    easy = [drawn.uniform(0.5, 0.9) for _ in range(questions)]
    noise = {weight: [drawn.uniform(-0.02, 0.02) for _ in easy] for weight in WEIGHTS}
    curve = {
        weight: {f"q{n}": value - loss * abs(weight - best) * 10 + noise[weight][n] for n, value in enumerate(easy)}
        for weight in WEIGHTS
    }
    return WeightCurve("set", curve)


def test_the_weight_moves_where_it_helps_and_otherwise_stays_equal() -> None:
    assert derive_weight([weight_curve(best=0.8, loss=0.05)]).value == 0.8
    assert derive_weight([weight_curve(best=0.2, loss=0.05)]).value == 0.2
    assert derive_weight([weight_curve(best=0.8, loss=0.0)]).value == 0.5
    assert derive_weight([]).value is None


def test_every_set_counts_the_same_for_the_weight() -> None:
    large, small = weight_curve(best=0.3, loss=0.02, questions=900), weight_curve(best=0.7, loss=0.08, questions=30)
    derived = derive_weight([large, small])
    assert derived.value == 0.7
    sets = derived.report["sets"]
    assert isinstance(sets, list)
    assert [entry["best_weight"] for entry in cast("list[dict[str, object]]", sets)] == [0.3, 0.7]


def score_row(dataset: str, gold: Sequence[float], other: Sequence[float]) -> Row:
    scores = {
        "gold": {str(n): value for n, value in enumerate(gold)},
        "other": {str(n): v for n, v in enumerate(other)},
    }
    return Row(dataset, "search", "dense", len(gold), 9, {}, {}, scores, {})


def test_calibration_holds_on_every_set() -> None:
    high, low = [0.5 + n / 2000 for n in range(1000)], [0.2 + n / 2000 for n in range(1000)]
    answers = Row(
        "one", "answers", "documents", 4, 9, {}, {}, {"answerable": {str(n): n / 100 for n in range(100)}}, {}
    )
    run = Run((score_row("one", high, low), score_row("two", low, [0.1]), answers), {"created_at": "now"})
    derived = calibrate(run, [], keep=0.95)
    threshold = derived["relevance_threshold"]
    assert isinstance(threshold, float)
    assert 0.21 < threshold < 0.225  # 5 % of `two` lie below 0.225
    assert derived["answerable_threshold"] == 0.1
    assert "dense_weight" not in derived
    report = derived["report"]
    assert isinstance(report, dict)
    assert {"relevance", "answerable", "dense_weight", "notes"} <= report.keys()


def test_without_scores_nothing_is_derived() -> None:
    derived = calibrate(Run((), {}), [], keep=0.99)
    assert [name for name in THRESHOLDS if name in derived] == []


def test_an_earlier_measurement_is_kept_if_nothing_new_was_derived() -> None:
    stored: dict[str, object] = {
        "relevance_threshold": 0.2,
        "dense_weight": 0.4,
        "answerable_threshold": None,
        "measured_at": "2026",
    }
    assert merge({"relevance_threshold": 0.3, "report": {}}, stored) == {
        "relevance_threshold": 0.3,
        "dense_weight": 0.4,
        "report": {},
    }
    came_with_the_server: dict[str, object] = {**stored, "measured_at": None}
    assert merge({"report": {}}, came_with_the_server) == {"report": {}}


def test_the_gold_document_is_left_out_with_its_group() -> None:
    question = Question("1", "?", judged={"a": 1, "b": 0})
    ids = {6: "b", 7: "a"}
    by_group = {"field": "metadata.group", "op": "eq", "value": "Ferry"}
    assert without_gold(question, {"a": "Ferry", "b": "Other"}, ids) == {"not": by_group}
    assert without_gold(question, {"a": ""}, ids) == {"not": {"field": "id", "op": "in", "value": [7]}}
    two = Question("1", "?", judged={"a": 1, "b": 1})
    assert without_gold(two, {"a": "Ferry", "b": "Other"}, ids) == {
        "not": {"any": [by_group, {"field": "metadata.group", "op": "eq", "value": "Other"}]}
    }


def test_measures_have_names_of_their_own() -> None:
    assert len(set(MEASURES)) == len(MEASURES)


def test_bars_on_a_terminal_name_the_set_and_the_step() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=120)
    with Progress(TextColumn("{task.description}"), console=console) as progress:
        bars = StepProgress(console, progress)
        bars.dataset = "harbours"
        bars.show("upload", 3, 8)
        bars.show("upload", 8, 8)
        bars.dataset = "towns"
        bars.show("upload", 1, 2)
        shown = [(task.description, task.completed, task.total) for task in progress.tasks]
    assert shown == [("harbours: upload", 8, 8), ("towns: upload", 1, 2)]
