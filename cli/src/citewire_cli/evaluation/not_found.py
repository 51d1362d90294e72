"""Not-found decisions: how often an answer says so when it should, and when it shouldn't."""

from collections.abc import Sequence
from dataclasses import dataclass

from citewire_cli.evaluation.answering import Answered
from citewire_cli.evaluation.statistics import roc_auc

FALSE_NOT_FOUND = 0.10
"""The rate of false not-found at which recall is stated."""


@dataclass(frozen=True, slots=True)
class NotFound:
    """Decisions about answerable questions and one kind of unanswerable ones.

    Attributes:
        kind: Which unanswerable ones.
        questions: How many of these.
        answerable: How many answerable ones.
        precision: Share of the not-found answers that are right to say so.
        recall: Share of the unanswerable questions that got one.
        f1: Their harmonic mean.
        false_not_found: Share of the answerable questions that got one.
        roc_auc: Chance that the score of an answerable question is above an unanswerable one's, a tie counting half;
            None where answers carry no scores.
        recall_at_10: Recall at the threshold that makes 10 % of the answerable ones not found; None as above.
    """

    kind: str
    questions: int
    answerable: int
    precision: float
    recall: float
    f1: float
    false_not_found: float
    roc_auc: float | None = None
    recall_at_10: float | None = None


def judge_not_found(answerable: Sequence[Answered], others: Sequence[Answered], kind: str) -> NotFound:
    """Compares decisions with what is known."""
    right = sum(one.not_found for one in others)
    wrong = sum(one.not_found for one in answerable)
    precision = right / (right + wrong) if right + wrong else 0.0
    recall = right / len(others) if others else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    positive, negative = scores_of(answerable), scores_of(others)
    auc = recall_at_10 = None
    if positive and negative and len(positive) == len(answerable) and len(negative) == len(others):
        auc = roc_auc(positive, negative)
        threshold = threshold_at(positive, FALSE_NOT_FOUND)
        recall_at_10 = sum(score < threshold for score in negative) / len(negative)
    rate = wrong / len(answerable) if answerable else 0.0
    return NotFound(kind, len(others), len(answerable), precision, recall, f1, rate, auc, recall_at_10)


def scores_of(answers: Sequence[Answered]) -> list[float]:
    """The scores of those that have one."""
    return [one.score for one in answers if one.score is not None]


def threshold_at(positive: Sequence[float], rate: float) -> float:
    """The highest threshold below which at most `rate` of the scores lie; a score equal to it is above."""
    ordered = sorted(positive)
    return ordered[min(int(rate * len(ordered)), len(ordered) - 1)]
