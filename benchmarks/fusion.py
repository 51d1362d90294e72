"""The value of fusion: hybrid search minus its better leg, on each set and on their mixture.

nDCG@10 by document, as in `citewire eval`; for company filings the share of questions with a gold page among
the first five chunks, over all filings and within the right one. The legs are computed in memory, as the store would
(`fusion_ways`); the order is the service's own. The interval comes from a paired bootstrap over questions. The mixture
has the questions of all sets; its better leg is determined separately.

`--together` puts all sets except the filings into one multilingual library. Near-duplicates stay.

Usage: python -m benchmarks.fusion [--sets NAME …] [--questions N] [--together] [--precision bf16]; the data is expected
beside the repository, and embedded the first time (minutes; half an hour for the filings).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.fusion_data import DATA, SETS, Passage, Question, QuestionSet, load
from benchmarks.fusion_ways import MODES, Legs, Library
from benchmarks.tables import describe_machine, format_table
from citewire_embedder.providers.base import Precision

FILINGS = "FinanceBench"
WITHIN = f"{FILINGS}, in the filing"
FIRST = 5
RESAMPLES = 10_000

Scores = Mapping[str, NDArray[np.float64]]
"""By mode, a value per question."""


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="default: all")
    parser.add_argument(
        "--questions", type=int, default=10_000, help="most questions of each set, spread evenly over it"
    )
    parser.add_argument("--together", action="store_true", help="also all sets but the filings in one library")
    parser.add_argument("--precision", choices=list(Precision), default=Precision.FP32, help="of the embedding model")
    options = parser.parse_args()
    if not DATA.is_dir():
        print(f"nothing measured: {DATA} isn't there", file=sys.stderr)
        return 0
    print(describe_machine(), flush=True)
    sets = [_cut(load(name, Precision(options.precision)), options.questions) for name in options.sets]
    results: dict[str, Scores] = {}
    for number, texts in enumerate(sets):
        filings = options.sets[number] == FILINGS
        library = Library(texts, by_document=not filings)
        results[options.sets[number]] = _measure(library, texts, within=False)
        if filings:
            results[WITHIN] = _measure(library, texts, within=True)
    results["all of these"] = _pooled(list(results.values()))
    if options.together:
        joined = _joined([texts for texts, name in zip(sets, options.sets, strict=True) if name != FILINGS])
        results["in one library"] = _measure(Library(joined, by_document=True), joined, within=False)
    headings = ["set", "n", *MODES, "hybrid − the better leg", "95 %"]
    print(format_table(headings, [[name, *_row(scores)] for name, scores in results.items()]))
    return 0


def _measure(library: Library, asked: QuestionSet, *, within: bool) -> Scores:
    values: dict[str, list[float]] = {mode: [] for mode in MODES}
    for question, vector in zip(asked.questions, asked.asked, strict=True):
        scope = sorted({document for document, _ in question.grades}) if within else None
        legs = library.find_legs(question.text, vector, scope)
        for mode in MODES:
            values[mode].append(_score(library, legs, mode, question))
    return {mode: np.array(numbers) for mode, numbers in values.items()}


def _score(library: Library, legs: Legs, mode: str, question: Question) -> float:
    """nDCG@10 for documents; for chunks, whether one of the first five is on a gold page."""
    order = legs.rank(mode)
    if not legs.by_document:
        pages = ((library.passages[place].document, library.passages[place].page) for place in order[:FIRST])
        return float(any(question.grades.get(page, 0) > 0 for page in pages))
    gains = [question.grades.get((document, 0), 0) for document in order[:10]]
    return _dcg(gains) / _dcg(sorted(question.grades.values(), reverse=True)[:10])


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))


def _row(scores: Scores) -> list[object]:
    better = max(("dense", "lexical"), key=lambda mode: scores[mode].mean())
    differences = scores["hybrid"] - scores[better]
    rng = np.random.default_rng(20_261_122)
    means = [differences[rng.integers(0, len(differences), len(differences))].mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, (2.5, 97.5))
    figures = [f"{scores[mode].mean():.4f}" for mode in MODES]
    return [len(differences), *figures, f"{differences.mean():+.4f}", f"{low:+.4f} to {high:+.4f}"]


def _pooled(results: Sequence[Scores]) -> Scores:
    return {mode: np.concatenate([scores[mode] for scores in results]) for mode in MODES}


def _joined(sets: Sequence[QuestionSet]) -> QuestionSet:
    """Merges several libraries; documents are numbered consecutively."""
    passages = [passage for number, texts in enumerate(sets) for passage in _moved(texts, number)]
    questions = [
        replace(question, grades={(document + _shift(number), page): grade for (document, page), grade in grades})
        for number, texts in enumerate(sets)
        for question in texts.questions
        for grades in (question.grades.items(),)
    ]
    vectors = np.concatenate([texts.vectors for texts in sets])
    return QuestionSet("all", passages, questions, vectors, np.concatenate([texts.asked for texts in sets]))


def _moved(texts: QuestionSet, number: int) -> list[Passage]:
    return [passage.moved(_shift(number)) for passage in texts.passages]


def _shift(number: int) -> int:
    return number * 1_000_000


def _cut(asked: QuestionSet, most: int) -> QuestionSet:
    """A sample of at most this many questions, spread evenly over the set, as neighbours are about the same text."""
    places = np.arange(len(asked.questions))[:: max(1, len(asked.questions) // most)][:most]
    return replace(asked, questions=[asked.questions[place] for place in places], asked=asked.asked[places])


if __name__ == "__main__":
    raise SystemExit(main())
