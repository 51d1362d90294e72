"""Thresholds of an embedding space, derived from what was measured.

- `relevance_threshold`: the highest similarity that at most `1 - keep` of the gold chunks lie below, on every data set,
  with 95 % confidence (an order statistic, so no shape of the distribution is assumed).
- `answerable_threshold`: the highest score that at most 10 % of the answerable questions lie below, on every data set.
- `dense_weight`: the weight of the dense leg with the best mean nDCG@10 of hybrid search over the data sets; of those
  that aren't measurably worse than the best the one nearest to equal weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from citewire_cli.evaluation.measures import quantile
from citewire_cli.evaluation.not_found import FALSE_NOT_FOUND, threshold_at
from citewire_cli.evaluation.results import Row, Run
from citewire_cli.evaluation.statistics import CONFIDENCE, roc_auc, safe_quantile
from citewire_cli.evaluation.weighing import Weighed, derive_weight
from citewire_cli.jsonio import JsonObject

_QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
_DIGITS = 4
THRESHOLDS = ("relevance_threshold", "answerable_threshold", "dense_weight")


@dataclass(slots=True)
class _Derived:
    value: float | None
    report: JsonObject
    notes: list[str]


def calibrate(run: Run, weighed: Sequence[Weighed], keep: float) -> JsonObject:
    """Derives what the run's measurements allow.

    Args:
        run: Rows of dense searches, and of answers with scores.
        weighed: Hybrid searches with different weights, per data set.
        keep: Share of the gold chunks that the relevance threshold has to keep, such as 0.99.

    Returns:
        The body that is stored: those of THRESHOLDS that could be derived, and `report`.
    """
    parts = {
        "relevance_threshold": _relevance([row for row in run.rows if row.label == "dense"], keep),
        "answerable_threshold": _answerable([row for row in run.rows if row.part == "answers"]),
    }
    weight = derive_weight(weighed)
    report: JsonObject = {"command": "citewire eval --calibrate", "created_at": run.about.get("created_at", "")}
    report["relevance"] = parts["relevance_threshold"].report
    report["answerable"] = parts["answerable_threshold"].report
    report["dense_weight"] = weight.report
    report["notes"] = [note for part in parts.values() for note in part.notes] + weight.notes
    values = {name: part.value for name, part in parts.items()} | {"dense_weight": weight.value}
    derived: JsonObject = {name: round(value, _DIGITS) for name, value in values.items() if value is not None}
    return derived | {"report": report}


def merged(derived: JsonObject, stored: JsonObject) -> JsonObject:
    """What is stored: a threshold that wasn't derived this time keeps the value that an earlier measurement gave it.

    Args:
        derived: What this run derived.
        stored: The space's present calibration; without `measured_at` it came with the server, and isn't kept.
    """
    if not stored.get("measured_at"):
        return derived
    kept = {name: stored[name] for name in THRESHOLDS if name not in derived and stored.get(name) is not None}
    return {**kept, **derived}


def _relevance(rows: Sequence[Row], keep: float) -> _Derived:
    notes: list[str] = []
    found: list[tuple[Row, float]] = []
    for row in rows:
        gold = list(row.scores.get("gold", {}).values())
        if not gold:
            continue
        threshold, sure = safe_quantile(gold, 1 - keep)
        found.append((row, threshold))
        if not sure:
            notes.append(
                f"{row.dataset}: {len(gold)} questions are too few to be sure of {keep:.0%}; the least similarity "
                "of a gold chunk stands in"
            )
    if not found:
        return _Derived(None, {"sets": []}, ["no dense search found a gold document: no relevance_threshold"])
    threshold = _floor(max(0.0, min(value for _, value in found)))
    criterion = f"keeps {keep:.0%} of the gold chunks of every set, with {CONFIDENCE:.0%} confidence"
    sets = [_relevance_of(row, value, threshold) for row, value in found]
    return _Derived(threshold, {"criterion": criterion, "sets": sets}, notes)


def _relevance_of(row: Row, own: float, threshold: float) -> JsonObject:
    gold, other = list(row.scores["gold"].values()), list(row.scores.get("other", {}).values())
    return {
        "set": row.dataset,
        "questions": row.questions,
        "gold_found": len(gold),
        "threshold": round(own, _DIGITS),
        "kept": _share(gold, threshold),
        "gold": _spread(gold),
        "best_other": _spread(other),
    }


def _answerable(rows: Sequence[Row]) -> _Derived:
    found = [(row, threshold_at(list(row.scores["answerable"].values()), FALSE_NOT_FOUND)) for row in _scored(rows)]
    if not found:
        why = "no answer carries a score: only the extractive provider's do (--model extractive)"
        return _Derived(None, {"sets": []}, [f"{why}; no answerable_threshold"])
    threshold = _floor(min(value for _, value in found))
    criterion = f"at most {FALSE_NOT_FOUND:.0%} of the answerable questions of every set are not found"
    sets = [_answerable_of(row, value, threshold) for row, value in found]
    return _Derived(threshold, {"criterion": criterion, "sets": sets}, [])


def _answerable_of(row: Row, own: float, threshold: float) -> JsonObject:
    positive = list(row.scores["answerable"].values())
    body: JsonObject = {
        "set": row.dataset,
        "profile": row.label,
        "questions": len(positive),
        "threshold": round(own, _DIGITS),
        "false_not_found": round(1 - _share(positive, threshold), _DIGITS),
        "answerable": _spread(positive),
    }
    for kind, name in (("unanswerable", "unanswerable"), ("left out", "left_out")):
        negative = list(row.scores.get(kind, {}).values())
        if negative:
            body[f"recall_{name}"] = round(1 - _share(negative, threshold), _DIGITS)
            body[f"roc_auc_{name}"] = round(roc_auc(positive, negative), _DIGITS)
            body[name] = _spread(negative)
    return body


def _scored(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.scores.get("answerable")]


def _share(values: Sequence[float], threshold: float) -> float:
    """Share of the values at or above a threshold."""
    return round(sum(value >= threshold for value in values) / len(values), _DIGITS) if values else 0.0


def _floor(value: float) -> float:
    """Rounded down: rounding up would cut off the very value that the threshold was taken from."""
    return int(value * 10**_DIGITS) / 10**_DIGITS


def _spread(values: Sequence[float]) -> Mapping[str, float]:
    return {f"{share:g}": round(quantile(values, share), _DIGITS) for share in _QUANTILES} if values else {}
