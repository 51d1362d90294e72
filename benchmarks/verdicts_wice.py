"""Measures verdicts on WiCE, and fits the score from which a sentence without a mismatch is `supported`.

`python -m benchmarks.verdicts_wice` prints the balanced accuracy of the shipped verdict on Wikipedia's claims with
the pages that they cite, labelled by people; that of a threshold fitted without the claims that it is
tested on (five folds, `SPLITS` times, with a bootstrap interval over claims); and the time per claim.

`--write` fits the threshold on all claims and writes it into the package's constants. The weights of the score come
from `benchmarks.citations`. A mismatch prevents `supported` whatever the score: without that rule a
regression over mismatches does little better here, and misses planted falsehoods.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import describe_machine
from citewire_verify import Passage
from citewire_verify.passages import PassageIndex
from citewire_verify.score import Weights, compare, load_weights
from citewire_verify.tokens import tokenise_sentence

FOLDS = 5
SPLITS = 20
RESAMPLES = 2000
"""Number of bootstrap samples."""
CANDIDATES = np.round(np.arange(0.2, 0.6, 0.01), 2)
PUBLISHED = "SummaC 0.628, AlignScore 0.660, MiniCheck-Flan-T5-L 0.722, GPT-4o 0.785 (on the test part, not this one)"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of WiCE."""

    text: str
    page: str
    supported: bool


@dataclass(frozen=True, slots=True)
class Scores:
    """Scored claims, in parallel arrays."""

    labels: np.ndarray
    """Whether people judged the claim as supported."""
    values: np.ndarray
    mismatched: np.ndarray
    """Whether there is a mismatch with the page."""
    milliseconds: np.ndarray
    """Processor time, including reading the page."""
    characters: float
    """Average length of a page."""

    def verdicts(self, threshold: float) -> np.ndarray:
        """The claims that are `supported` at a threshold."""
        return (self.values >= threshold) & ~self.mismatched


def main() -> None:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="fit the threshold again and replace the package's")
    options = parser.parse_args()
    print(describe_machine())
    weights = load_weights()
    scores = score_claims(read_wice(options.data), weights)
    report_wice(scores, weights, options.seed)
    if options.write:
        threshold = best_threshold(scores, np.ones(len(scores.labels), bool))
        path = Path(str(resources.files("citewire_verify").joinpath("weights.json")))
        raw: dict[str, Any] = json.loads(path.read_text("utf-8"))
        raw["supported"] = threshold
        raw["supported_fitted_on"] = f"WiCE's development part, {len(scores.labels)} claims"
        path.write_text(json.dumps(raw, indent=2) + "\n", "utf-8")
        print(f"written: {path.name}, {threshold}")


def read_wice(data: Path) -> list[Claim]:
    """The claims of WiCE's development part, each with the pages that it cites."""
    lines = (data / "claims-wice" / "dev.jsonl").read_text("utf-8").splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [Claim(row["claim"], "\n".join(row["evidence"]), row["label"] == "supported") for row in rows]


def score_claims(claims: list[Claim], weights: Weights) -> Scores:
    """Scores each claim with its page."""
    values: list[float] = []
    mismatched: list[bool] = []
    times: list[float] = []
    for claim in claims:
        started = time.thread_time()
        comparison = compare(tokenise_sentence(claim.text), PassageIndex(Passage(claim.page)))
        values.append(weights.score(comparison)[0])
        times.append(1000 * (time.thread_time() - started))
        mismatched.append(bool(comparison.mismatches))
    labels = np.array([claim.supported for claim in claims])
    length = float(np.mean([len(claim.page) for claim in claims]))
    return Scores(labels, np.array(values), np.array(mismatched), np.array(times), length)


def report_wice(scores: Scores, weights: Weights, seed: int) -> None:
    """Prints the balanced accuracy of `supported`, shipped and by nested cross-validation, and the time per claim."""
    labels, verdicts = scores.labels, scores.verdicts(weights.supported)
    print(f"\n## WiCE, development part: {len(labels)} claims\n")
    low, high = bootstrap(labels, [verdicts], seed)
    print(f"Shipped verdict, fitted on them: balanced accuracy {balanced_accuracy(labels, verdicts):.3f}", end=", ")
    print(f"95 % interval {low:.3f}–{high:.3f}")
    right = verdicts[labels].mean(), (~verdicts[~labels]).mean()
    print(f"{right[0]:.3f} of the supported claims, {right[1]:.3f} of the others right")
    nested, thresholds = cross_validate(scores)
    low, high = bootstrap(labels, nested, seed)
    mean = np.mean([balanced_accuracy(labels, verdicts) for verdicts in nested])
    print(f"Cross-validated, on claims that the threshold wasn't found on: {mean:.3f}, {low:.3f}–{high:.3f}", end=" ")
    print(f"(thresholds {np.quantile(thresholds, 0.05):.2f}–{np.quantile(thresholds, 0.95):.2f})")
    print(f"Published: {PUBLISHED}")
    print(f"Processor time of a claim with its page of {scores.characters:.0f} characters, ms: ", end="")
    quantiles = (f"p{q} {np.percentile(scores.milliseconds, q):.1f}" for q in (50, 95))
    print(", ".join(quantiles), f"mean {scores.milliseconds.mean():.1f}")


def best_threshold(scores: Scores, inside: np.ndarray) -> float:
    """The threshold with the best balanced accuracy on some of the claims."""
    accuracies = [balanced_accuracy(scores.labels[inside], scores.verdicts(t)[inside]) for t in CANDIDATES]
    return float(CANDIDATES[int(np.argmax(accuracies))])


def cross_validate(scores: Scores) -> tuple[list[np.ndarray], list[float]]:
    """Verdicts on each claim, for each split, by a threshold fitted without its fold; and the thresholds."""
    results: list[np.ndarray] = []
    thresholds: list[float] = []
    for split in range(SPLITS):
        folds = np.random.default_rng(split).permutation(len(scores.labels)) % FOLDS
        verdicts = np.zeros(len(scores.labels), bool)
        for fold in range(FOLDS):
            thresholds.append(best_threshold(scores, folds != fold))
            verdicts[folds == fold] = scores.verdicts(thresholds[-1])[folds == fold]
        results.append(verdicts)
    return results, thresholds


def balanced_accuracy(labels: np.ndarray, verdicts: np.ndarray) -> float:
    """Mean of the shares of correct verdicts for each label."""
    return float((verdicts[labels].mean() + (~verdicts[~labels]).mean()) / 2)


def bootstrap(labels: np.ndarray, verdicts: list[np.ndarray], seed: int) -> tuple[float, float]:
    """The 95 % interval of the mean balanced accuracy of verdicts, by resampling claims."""
    draw = np.random.default_rng(seed)
    values: list[float] = []
    for _ in range(RESAMPLES):
        picked = draw.integers(0, len(labels), len(labels))
        values.append(float(np.mean([balanced_accuracy(labels[picked], split[picked]) for split in verdicts])))
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


if __name__ == "__main__":
    main()
