"""The measured constants of the extractive provider, read from `weights.json`.

They were fitted by `python -m benchmarks.extractive_threshold --write` on SQuAD 2.0 (validation set, 18 articles) with
all-MiniLM-L6-v2's similarities: logistic regressions, cross-validated by article. The threshold is the score below
which a tenth of the answerable questions fall. `docs/explanation/generator.md` has the distributions and what they
mean; the file itself holds the figures of the fit that made it.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import cast


@dataclass(frozen=True, slots=True)
class Linear:
    """A weighted sum of features."""

    weights: tuple[float, ...]
    bias: float

    def score(self, features: tuple[float, ...]) -> float:
        """Returns the sum: a log-odds."""
        return self.bias + sum(w * f for w, f in zip(self.weights, features, strict=True))


@dataclass(frozen=True, slots=True)
class Weights:
    """All constants."""

    unit: Linear
    """Log-odds that a unit contains the answer, over `scoring.UNIT_FEATURES`."""
    unit_margin: float
    """Another unit is quoted if its score is at most this much below the best one's."""
    answer: Linear
    """Log-odds that the passages answer, over `scoring.ANSWER_FEATURES`."""
    answer_threshold: float
    answer_lexical: Linear
    """The same if no similarity is known, with a weight of 0 for it."""
    answer_lexical_threshold: float


@cache
def load_weights() -> Weights:
    """Reads the package's constants."""
    raw = json.loads(resources.files("citewire_generator.extraction").joinpath("weights.json").read_text("utf-8"))
    return parse_weights(cast("dict[str, object]", raw))


def parse_weights(raw: dict[str, object]) -> Weights:
    """Reads constants from the JSON's form."""
    return Weights(
        unit=parse_linear(raw["unit"]),
        unit_margin=_number(raw["unit_margin"]),
        answer=parse_linear(raw["answer"]),
        answer_threshold=_number(raw["answer_threshold"]),
        answer_lexical=parse_linear(raw["answer_lexical"]),
        answer_lexical_threshold=_number(raw["answer_lexical_threshold"]),
    )


def parse_linear(raw: object) -> Linear:
    """Reads a weighted sum from the JSON's form."""
    fields = cast("dict[str, object]", raw)
    weights = cast("dict[str, object]", fields["weights"])
    return Linear(tuple(_number(value) for value in weights.values()), _number(fields["bias"]))


def _number(raw: object) -> float:
    if not isinstance(raw, int | float):
        raise TypeError(f"weights.json has {raw!r} instead of a number")
    return float(raw)
