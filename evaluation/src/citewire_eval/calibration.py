"""Derives the thresholds of an embedding space from measurements and stores them with the space.

- `relevance_threshold`: the highest similarity that at most `1 - keep` of the gold chunks lie below, on every data set,
  with 95 % confidence (an order statistic, so no shape of the distribution is assumed).
- `answerable_threshold`: the highest score that at most 10 % of the answerable questions lie below, on every data set.
- `dense_weight`: the weight of dense search that gives hybrid search the best mean nDCG@10 over the data sets. Among
  weights that aren't measurably worse than the best, the one nearest to equal weights wins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from citewire_cli.errors import CliError, ExitCode
from citewire_cli.jsonio import JsonObject, get_int, get_object, get_objects, get_str
from citewire_eval.client import Progress, RetryingClient
from citewire_eval.collection import Collection
from citewire_eval.datasets.model import Dataset
from citewire_eval.measures import FALSE_NOT_FOUND_RATE, PerQuery, judge_searches, mean, quantile, threshold_at
from citewire_eval.results import Row, Run
from citewire_eval.search import SearchMode, run_searches
from citewire_eval.statistics import CONFIDENCE, paired_p, roc_auc, safe_quantile

THRESHOLDS = ("relevance_threshold", "answerable_threshold", "dense_weight")
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_EQUAL = 0.5
_MEASURE = "nDCG@10"
_DEPTH = 10
_SIGNIFICANT_P = 0.05
_QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class WeightCurve:
    """nDCG@10 of each question of a data set, by the weight of dense search in hybrid search."""

    dataset: str
    values: Mapping[float, PerQuery]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold (None if it couldn't be derived) and a report of how it was derived."""

    value: float | None
    report: JsonObject
    notes: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space."""

    name: JsonObject
    """`model`, `revision` and `dimensions`, as in the API."""
    calibration: JsonObject
    """The stored calibration; empty if there is none."""


async def measure_weights(
    client: RetryingClient, dataset: Dataset, collection: Collection, progress: Progress
) -> WeightCurve:
    """Searches with each weight; raises CliError if the gateway is unreachable or rejects the request."""
    values: dict[float, PerQuery] = {}
    for weight in WEIGHTS:
        mode = SearchMode("hybrid", dense_weight=weight)
        run = await run_searches(client, dataset, collection, mode, _DEPTH, by_chunk=False, progress=progress)
        values[weight] = judge_searches(dataset, run, by_chunk=False)[_MEASURE]
    return WeightCurve(dataset.name, values)


def calibrate(run: Run, curves: Sequence[WeightCurve], keep: float) -> JsonObject:
    """Derives the thresholds that the run's measurements allow.

    Args:
        run: Rows of dense searches, and of answers with scores.
        curves: Hybrid searches with different weights, per data set.
        keep: Share of the gold chunks that the relevance threshold must keep, such as 0.99.

    Returns:
        The body to store: each of THRESHOLDS that could be derived, and `report`.
    """
    thresholds = {
        "relevance": _derive_relevance([row for row in run.rows if row.label == "dense"], keep),
        "answerable": _derive_answerable([row for row in run.rows if row.part == "answers"]),
        "dense_weight": derive_weight(curves),
    }
    report: JsonObject = {"command": "citewire eval --calibrate", "created_at": run.about.get("created_at", "")}
    report |= {name: threshold.report for name, threshold in thresholds.items()}
    report["notes"] = [note for threshold in thresholds.values() for note in threshold.notes]
    values = zip(THRESHOLDS, (threshold.value for threshold in thresholds.values()), strict=True)
    derived: JsonObject = {name: round(value, _DIGITS) for name, value in values if value is not None}
    return derived | {"report": report}


def derive_weight(curves: Sequence[WeightCurve]) -> Threshold:
    """The weight with the best average over the sets, or one nearer to equal weights that isn't measurably worse."""
    if not curves:
        return Threshold(None, {"sets": []}, ["no set has judged documents: no dense_weight"])
    best = _best({weight: mean(mean(curve.values[weight].values()) for curve in curves) for weight in WEIGHTS})
    weight = _nearest_to_equal(best, [curve.values for curve in curves])
    sets: list[JsonObject] = []
    for curve in curves:
        values = {weight: round(mean(per_query.values()), 4) for weight, per_query in curve.values.items()}
        best_here = _best(values)
        sets.append(
            {
                "set": curve.dataset,
                "equal": values[_EQUAL],
                "chosen": values[weight],
                "best": values[best_here],
                "best_weight": best_here,
                "by_weight": {f"{weight:g}": value for weight, value in values.items()},
            }
        )
    criterion = (
        f"best mean {_MEASURE} of hybrid search over the sets; "
        f"of the weights that aren't measurably worse (p ≥ {_SIGNIFICANT_P}), the one nearest to {_EQUAL}"
    )
    return Threshold(weight, {"criterion": criterion, "sets": sets})


def merge(derived: JsonObject, stored: JsonObject) -> JsonObject:
    """The body to store. A threshold that wasn't derived this time keeps the value of an earlier measurement.

    Args:
        derived: The thresholds that this run derived.
        stored: The present calibration. Without `measured_at` it is the server's default and isn't carried over.
    """
    if not stored.get("measured_at"):
        return derived
    names = (*THRESHOLDS, "off_topic_threshold")  # not derived here
    return {name: stored[name] for name in names if stored.get(name) is not None} | derived


async def live_space(client: RetryingClient) -> Space | None:
    """The space that searches use; None if nothing has been embedded yet."""
    body = await client.call("GET", "/v1/spaces")
    for space in get_objects(body, "spaces"):
        if get_str(space, "role") == "live":
            name: JsonObject = {"model": get_str(space, "model"), "revision": get_str(space, "revision")}
            name["dimensions"] = get_int(space, "dimensions")
            return Space(name, get_object(space, "calibration"))
    return None


async def store_calibration(client: RetryingClient, space: Space | None, derived: JsonObject, *, dry_run: bool) -> str:
    """Stores the derived thresholds with the live space; the others keep the values of an earlier measurement.

    Returns:
        A sentence that lists the stored thresholds.

    Raises:
        CliError: The gateway rejected the change, which requires the key of an owner or admin.
    """
    if space is None:
        raise CliError("There is no live embedding space", "Nothing in this library has been embedded.")
    model = get_str(space.name, "model")
    body = merge(derived, space.calibration)
    names = ", ".join(threshold for threshold in THRESHOLDS if threshold in body)
    if not any(threshold in derived for threshold in THRESHOLDS):
        return "Nothing was derived, so nothing was stored."
    if dry_run:
        return f"Not stored (--dry-run): {names} of {model}."
    try:
        await client.call("PUT", "/v1/spaces/calibration", body={"space": space.name, "calibration": body})
    except CliError as error:
        if error.code is ExitCode.UNAUTHORISED:
            error.detail = f"{error.detail} Only an owner or admin can change thresholds; use --dry-run to print them."
        raise
    return f"Stored with {model}: {names}."


def _derive_relevance(rows: Sequence[Row], keep: float) -> Threshold:
    notes: list[str] = []
    by_row: list[tuple[Row, float]] = []
    for row in rows:
        gold = list(row.scores.get("gold", {}).values())
        if not gold:
            continue
        threshold, sure = safe_quantile(gold, 1 - keep)
        by_row.append((row, threshold))
        if not sure:
            notes.append(
                f"{row.dataset}: {len(gold)} questions are too few to be sure of {keep:.0%}; the lowest similarity "
                "of a gold chunk is used instead"
            )
    if not by_row:
        return Threshold(None, {"sets": []}, ["no dense search found a gold document: no relevance_threshold"])
    threshold = _round_down(max(0.0, min(value for _, value in by_row)))
    sets: list[JsonObject] = []
    for row, value in by_row:
        gold, other = list(row.scores["gold"].values()), list(row.scores.get("other", {}).values())
        sets.append(
            {
                "set": row.dataset,
                "questions": row.questions,
                "gold_found": len(gold),
                "threshold": round(value, _DIGITS),
                "kept": _share_above(gold, threshold),
                "gold": _quantiles(gold),
                "best_other": _quantiles(other),
            }
        )
    criterion = f"keeps {keep:.0%} of the gold chunks of every set, with {CONFIDENCE:.0%} confidence"
    return Threshold(threshold, {"criterion": criterion, "sets": sets}, notes)


def _derive_answerable(rows: Sequence[Row]) -> Threshold:
    scored = [(row, list(row.scores["answerable"].values())) for row in rows if row.scores.get("answerable")]
    if not scored:
        why = "no answer has a score: only the extractive provider gives one (--model extractive)"
        return Threshold(None, {"sets": []}, [f"{why}; no answerable_threshold"])
    by_row = [threshold_at(positive, FALSE_NOT_FOUND_RATE) for _, positive in scored]
    threshold = _round_down(min(by_row))
    sets: list[JsonObject] = []
    for (row, positive), value in zip(scored, by_row, strict=True):
        body: JsonObject = {
            "set": row.dataset,
            "profile": row.label,
            "questions": len(positive),
            "threshold": round(value, _DIGITS),
            "false_not_found": round(1 - _share_above(positive, threshold), _DIGITS),
            "answerable": _quantiles(positive),
        }
        for kind, name in (("unanswerable", "unanswerable"), ("left out", "left_out")):
            if negative := list(row.scores.get(kind, {}).values()):
                body[f"recall_{name}"] = round(1 - _share_above(negative, threshold), _DIGITS)
                body[f"roc_auc_{name}"] = round(roc_auc(positive, negative), _DIGITS)
                body[name] = _quantiles(negative)
        sets.append(body)
    criterion = f"at most {FALSE_NOT_FOUND_RATE:.0%} of the answerable questions of every set are not found"
    return Threshold(threshold, {"criterion": criterion, "sets": sets})


def _best(values: Mapping[float, float]) -> float:
    return max(WEIGHTS, key=lambda weight: (values[weight], -abs(weight - _EQUAL)))


def _nearest_to_equal(best: float, curves: Sequence[Mapping[float, PerQuery]]) -> float:
    """The first weight, going from equal weights to the best one, that isn't measurably worse than the best."""
    between = [weight for weight in WEIGHTS if min(best, _EQUAL) <= weight <= max(best, _EQUAL)]
    for weight in sorted(between, key=lambda weight: abs(weight - _EQUAL)):
        # Every set has the same influence whatever its number of questions: differences are scaled by the set's size.
        gaps = [(curve[best][q] - curve[weight][q]) / len(curve[best]) for curve in curves for q in curve[best]]
        if sum(gaps) <= 0 or paired_p(gaps) >= _SIGNIFICANT_P:
            return weight
    return best


def _share_above(values: Sequence[float], threshold: float) -> float:
    """Share of the values at or above a threshold."""
    return round(sum(value >= threshold for value in values) / len(values), _DIGITS) if values else 0.0


def _round_down(value: float) -> float:
    """Rounds down: rounding up would cut off the value that the threshold was taken from."""
    return int(value * 10**_DIGITS) / 10**_DIGITS


def _quantiles(values: Sequence[float]) -> Mapping[str, float]:
    return {f"{share:g}": round(quantile(values, share), _DIGITS) for share in _QUANTILES} if values else {}
