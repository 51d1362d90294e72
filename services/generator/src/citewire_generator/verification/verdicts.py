"""From what a passage says to a score and a verdict.

The score is a logistic regression over `matching.FEATURES`; its constants and the two thresholds are in `weights.json`,
fitted by `python -m benchmarks.citations --write`. A name, number or denial that isn't as in the passage keeps a
sentence from being supported, whatever its score.
"""

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import cast

from citewire_generator.model import Verdict
from citewire_generator.text.weights import Linear, parse_linear
from citewire_generator.verification.claims import Claim
from citewire_generator.verification.matching import FEATURES, Evidence, missing_share
from citewire_generator.verification.words import WordKind

MAX_MISMATCHES = 8
RANKS = {Verdict.SUPPORTED: 0, Verdict.PARTIAL: 1, Verdict.UNSUPPORTED: 2}
"""Verdicts, best first."""


@dataclass(frozen=True, slots=True)
class SupportWeights:
    """The constants."""

    support: Linear
    """Log-odds that a passage supports a sentence, over `matching.FEATURES`."""
    supported: float
    """Score from which a sentence without a mismatch is supported."""
    unsupported: float
    """Score below which a sentence is unsupported."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A score and what follows from it."""

    support: float
    verdict: Verdict


@cache
def load_support_weights() -> SupportWeights:
    """Reads the constants that ship with the package."""
    raw = json.loads(resources.files("citewire_generator.verification").joinpath("weights.json").read_text("utf-8"))
    return parse_support_weights(cast("dict[str, object]", raw))


def parse_support_weights(raw: dict[str, object]) -> SupportWeights:
    """Reads constants from the JSON's form."""
    return SupportWeights(
        support=parse_linear(raw["support"]),
        supported=float(cast("float", raw["supported"])),
        unsupported=float(cast("float", raw["unsupported"])),
    )


def judge(evidence: Evidence, weights: SupportWeights) -> Judged:
    """Judges a sentence by one passage."""
    support = _sigmoid(weights.support.score(evidence.features))
    return Judged(support, _verdict(support, weights, flawed=bool(evidence.mismatches), turned=_is_turned(evidence)))


def judge_together(claim: Claim, evidences: list[Evidence], weights: SupportWeights) -> Verdict:
    """Judges a sentence by all passages that it cites: what one of them lacks, another may have."""
    alone = [judge(evidence, weights).verdict for evidence in evidences]
    if len(alone) == 1 or Verdict.SUPPORTED in alone:
        return Verdict.SUPPORTED if Verdict.SUPPORTED in alone else alone[0]
    united = _unite(claim, evidences)
    support = _sigmoid(weights.support.score(united.features))
    together = _verdict(support, weights, flawed=bool(united.mismatches), turned=_is_turned(united))
    return min(together, *alone, key=lambda verdict: RANKS[verdict])


def _unite(claim: Claim, evidences: list[Evidence]) -> Evidence:
    """What several passages say together."""
    covered: dict[int, float] = {}
    for evidence in evidences:
        for place, sure in evidence.covered.items():
            covered[place] = max(covered.get(place, 0.0), sure)
    united = Evidence(covered=covered)
    for place, written in evidences[0].missing.items():
        if all(place in evidence.missing for evidence in evidences):
            united.missing[place] = written
    # What is otherwise in one passage is a contradiction unless another has the words and doesn't contradict.
    for evidence in evidences:
        for place, written in evidence.replaced.items():
            if not any(place in other.covered and place not in other.replaced for other in evidences):
                united.replaced[place] = written
    best = max(evidences, key=lambda evidence: evidence.features[0])
    united.turned = list(best.turned)
    share = min(sum(claim.weights[place] * sure for place, sure in covered.items()) / (claim.total or 1.0), 1.0)
    near = [any(pair) for pair in zip(*(evidence.near for evidence in evidences), strict=True)]
    values = {name: max(evidence.features[number] for evidence in evidences) for number, name in enumerate(FEATURES)}
    values |= {name: max(values[name], share) for name in ("cover", "cover_two", "cover_all")}
    values["pairs"] = sum(near) / len(near) if near else share
    values["names"] = missing_share(claim, united, WordKind.NAME)
    values["numbers"] = missing_share(claim, united, WordKind.NUMBER)
    values["replaced"] = float(bool(united.replaced))
    for name in ("denied", "opposite"):
        values[name] = best.features[FEATURES.index(name)]
    united.features = tuple(values[name] for name in FEATURES)
    return united


def _is_turned(evidence: Evidence) -> bool:
    return bool(evidence.turned or evidence.replaced)


def _verdict(support: float, weights: SupportWeights, *, flawed: bool, turned: bool) -> Verdict:
    if turned or support < weights.unsupported:
        return Verdict.UNSUPPORTED
    return Verdict.PARTIAL if flawed or support < weights.supported else Verdict.SUPPORTED


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-max(min(value, 30.0), -30.0)))
