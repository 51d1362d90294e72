"""Significance, ROC and quantiles by SciPy, which is imported only where it is needed: it takes half a second."""

from collections.abc import Callable, Sequence
from typing import Any, cast

RESAMPLES = 9_999
CONFIDENCE = 0.95
_SEED = 20_240_601
_BATCH_NUMBERS = 2_000_000
"""Numbers that are in memory at once."""


def paired_p(differences: Sequence[float]) -> float:
    """Two-sided p of a paired randomisation test on the mean difference; 1 where nothing differs."""
    import numpy as np
    from scipy import stats

    # Questions that don't differ change nothing, whichever sign they get.
    changed = np.asarray([difference for difference in differences if difference], dtype=float)
    if len(changed) <= 1:  # one question's sign is as likely to be the other
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
    """Area under the ROC curve: the chance that a positive's score is higher, a tie counting half."""
    from scipy import stats

    mannwhitneyu = cast("Callable[..., Any]", stats.mannwhitneyu)  # pyright: ignore[reportUnknownMemberType]  # SciPy gives no types
    return float(mannwhitneyu(positive, negative).statistic) / (len(positive) * len(negative))


def safe_quantile(values: Sequence[float], below: float) -> tuple[float, bool]:
    """The highest threshold that at most `below` of a population lie under, with 95 % confidence from this sample.

    An order statistic: it assumes nothing about the distribution's shape.

    Returns:
        The threshold, and whether the sample is large enough to say so: else it is the least value seen.
    """
    from scipy import stats

    ordered = sorted(values)
    # With 95 % probability, so many values of a sample lie under the population's quantile, so the last of them does.
    least = int(cast("Any", stats.binom).ppf(1 - CONFIDENCE, len(ordered), below))
    return ordered[max(least - 1, 0)], least > 0
