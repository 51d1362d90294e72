"""Significance, ROC and quantiles with SciPy, which is imported only when needed: the import takes half a second."""

from collections.abc import Callable, Sequence
from typing import Any, cast

RESAMPLES = 9_999
CONFIDENCE = 0.95
_SEED = 20_240_601
_BATCH_NUMBERS = 2_000_000
"""Maximum count of numbers in memory at once."""


def paired_p(differences: Sequence[float]) -> float:
    """Two-sided p of a paired randomisation test on the mean difference; 1 if nothing differs."""
    import numpy as np
    from scipy import stats

    # Questions without a difference have no effect, whatever their sign.
    changed = np.asarray([difference for difference in differences if difference], dtype=float)
    if len(changed) <= 1:  # both signs are equally likely for one question
        return 1.0
    permutation_test = cast("Callable[..., Any]", stats.permutation_test)  # pyright: ignore[reportUnknownMemberType]  # SciPy gives no types
    result = permutation_test(
        (changed,),
        lambda values, axis: values.sum(axis=axis),  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]  # untyped in SciPy
        permutation_type="samples",
        n_resamples=RESAMPLES,
        batch=max(1, _BATCH_NUMBERS // len(changed)),
        rng=np.random.default_rng(_SEED),
    )
    return float(result.pvalue)


def roc_auc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """Area under the ROC curve: the probability that a positive's score is higher, ties counting half."""
    from scipy import stats

    mannwhitneyu = cast("Callable[..., Any]", stats.mannwhitneyu)  # pyright: ignore[reportUnknownMemberType]  # SciPy gives no types
    return float(mannwhitneyu(positive, negative).statistic) / (len(positive) * len(negative))


def safe_quantile(values: Sequence[float], below: float) -> tuple[float, bool]:
    """The highest threshold below which at most `below` of a population lie, with 95 % confidence from this sample.

    It is an order statistic, which assumes nothing about the shape of the distribution.

    Returns:
        The threshold, and whether the sample is large enough for it. If not, the threshold is the lowest value seen.
    """
    from scipy import stats

    ordered = sorted(values)
    # With 95 % probability, so many values of a sample lie below the population's quantile, so the last of them does.
    least = int(cast("Any", stats.binom).ppf(1 - CONFIDENCE, len(ordered), below))
    return ordered[max(least - 1, 0)], least > 0
