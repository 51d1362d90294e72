"""Retrieval measures, computed by `ir_measures`; not-found decisions; means and quantiles."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from citewire_eval.answers import Answer
from citewire_eval.datasets.model import Dataset, Question
from citewire_eval.search import SearchRun
from citewire_eval.statistics import roc_auc

RETRIEVAL = ("nDCG@10", "R@5", "R@10", "R@100", "RR@10")
"""Names as in `ir_measures`; R is recall, RR the reciprocal rank of the first relevant result."""

RANKED = "ranked"
"""Share of the candidates that a rerank model had time to score."""

OFF_TOPIC = "off_topic"
"""Share of the questions whose search was judged off topic: answerable ones are lost, others reach no model."""

FALSE_NOT_FOUND_RATE = 0.10
"""The rate of false not-found answers at which recall is reported."""

PerQuery = dict[str, float]
"""A measure's value by question id."""


def judge_searches(dataset: Dataset, run: SearchRun, by_chunk: bool) -> dict[str, PerQuery]:
    """Computes each measure for each question; a question that failed or has no results gets 0.

    Measures with a deeper cut-off than the number of results requested are left out.

    Returns:
        Values by measure and question id, each 0–1.
    """
    import ir_measures  # importing it takes longer than most commands

    questions = [question for question in dataset.answerable if not by_chunk or question.spans]
    qrels = {question.question_id: _qrels(question, by_chunk) for question in questions}
    # Pass ranks instead of scores: results with equal scores must keep the server's order.
    scored = {
        question_id: {key: float(len(ranking.keys) - rank) for rank, key in enumerate(ranking.keys)}
        for question_id, ranking in run.rankings.items()
    }
    names = [name for name in RETRIEVAL if int(name.partition("@")[2]) <= run.depth]
    measures = [ir_measures.parse_measure(name) for name in names]
    values: dict[str, PerQuery] = {name: {} for name in names}
    calculated = ir_measures.iter_calc(measures, qrels, scored)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    for metric in cast("Iterable[Any]", calculated):
        values[str(metric.measure)][str(metric.query_id)] = float(metric.value)
    shares = {key: ranking.ranked for key, ranking in run.rankings.items() if ranking.ranked is not None}
    measured = {name: {q.question_id: values[name].get(q.question_id, 0.0) for q in questions} for name in names}
    verdicts = {key: float(ranking.off_topic) for key, ranking in run.rankings.items() if ranking.off_topic is not None}
    return measured | ({RANKED: shares} if shares else {}) | ({OFF_TOPIC: verdicts} if verdicts else {})


def judge_not_found(answerable: Sequence[Answer], unanswerable: Sequence[Answer]) -> dict[str, float]:
    """Measures the not-found decisions on answerable questions and on one kind of unanswerable questions.

    Returns:
        `not_found_precision`, `not_found_recall`, `not_found_f1`; if all answers have scores, also `not_found_auc`
        (the probability that an answerable question's score is above an unanswerable one's, ties counting half) and
        `not_found_recall_at_10` (recall at the threshold at which 10 % of the answerable questions are not found).
    """
    right = sum(answer.not_found for answer in unanswerable)
    wrong = sum(answer.not_found for answer in answerable)
    precision = right / (right + wrong) if right + wrong else 0.0
    recall = right / len(unanswerable) if unanswerable else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    measures = {"not_found_precision": precision, "not_found_recall": recall, "not_found_f1": f1}
    positive = [answer.score for answer in answerable if answer.score is not None]
    negative = [answer.score for answer in unanswerable if answer.score is not None]
    if positive and negative and len(positive) == len(answerable) and len(negative) == len(unanswerable):
        threshold = threshold_at(positive, FALSE_NOT_FOUND_RATE)
        measures["not_found_auc"] = roc_auc(positive, negative)
        measures["not_found_recall_at_10"] = sum(score < threshold for score in negative) / len(negative)
    return measures


def threshold_at(positive: Sequence[float], rate: float) -> float:
    """The highest threshold below which at most `rate` of the scores lie; a score equal to it counts as above."""
    ordered = sorted(positive)
    return ordered[min(int(rate * len(ordered)), len(ordered) - 1)]


def mean(values: Iterable[float]) -> float:
    """The mean; 0 if there are no values."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """The lowest value that `share` of the values don't exceed; 0 if there are no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def latency_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    return {name: round(quantile(seconds, share) * 1e3, 2) for name, share in (("p50", 0.5), ("p95", 0.95))}


def _qrels(question: Question, by_chunk: bool) -> dict[str, int]:
    return {span.key: span.grade for span in question.spans} if by_chunk else dict(question.judged)
