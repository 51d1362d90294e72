"""Retrieval measures, computed by `ir_measures`, and the quantiles of what was timed."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from citewire_cli.evaluation.datasets import Dataset, Question
from citewire_cli.evaluation.searching import SearchRun

RETRIEVAL = ("nDCG@10", "R@5", "R@10", "R@100", "RR@10")
"""Names as `ir_measures` writes them; R is recall, RR the reciprocal rank of the first relevant one."""

PerQuery = dict[str, float]
"""A measure's value by question id."""


def judge(dataset: Dataset, run: SearchRun, by_chunk: bool) -> dict[str, PerQuery]:
    """Each measure for each question; a question that failed or found nothing has 0.

    Measures that look further down than results were asked for are left out.

    Returns:
        Values by measure and question id, each 0–1.
    """
    import ir_measures  # an optional extra: only this command needs it, and it brings SciPy

    questions = [question for question in dataset.answerable if not by_chunk or question.spans]
    qrels = {question.question_id: _judged(question, by_chunk) for question in questions}
    # The order is the server's: ranks, not scores, go in, so that equal scores can't be reordered.
    scored = {
        question_id: {key: float(len(found.ranking) - rank) for rank, key in enumerate(found.ranking)}
        for question_id, found in run.found.items()
    }
    names = [name for name in RETRIEVAL if int(name.partition("@")[2]) <= run.depth]
    wanted = [ir_measures.parse_measure(name) for name in names]
    values: dict[str, PerQuery] = {name: {} for name in names}
    calculated = ir_measures.iter_calc(wanted, qrels, scored)  # pyright: ignore[reportUnknownMemberType]  # untyped there
    for metric in cast("Iterable[Any]", calculated):
        values[str(metric.measure)][str(metric.query_id)] = float(metric.value)
    return {name: {q.question_id: values[name].get(q.question_id, 0.0) for q in questions} for name in names}


def mean(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """The least value that `share` of the values don't exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def latency_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    return {name: round(quantile(seconds, share) * 1e3, 2) for name, share in (("p50", 0.5), ("p95", 0.95))}


def _judged(question: Question, by_chunk: bool) -> dict[str, int]:
    return {span.key: span.grade for span in question.spans} if by_chunk else dict(question.judged)
