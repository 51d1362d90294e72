"""Derives the extractive provider's constants: the weights that rank units, and the not-found threshold.

`python -m benchmarks.extractive_threshold` prints the distributions and the results of the package's constants;
`--write` refits them on SQuAD 2.0 and replaces the package's `weights.json`. ClapNQ and XQuAD (Spanish) are only
reported and not used for fitting.

There are three kinds of questions, each with the chunks from a search (5 from a hybrid one in the report; in the fit
1–12 at random, from a hybrid or a dense one):

- answerable: the chunk with the answer is among them (questions where the search missed it are left out and counted);
- removed: the same questions, with all chunks of the answer's article removed from the corpus;
- adversarial: written to look answerable from the paragraph, but not answered there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.extractive_data import Chunk, Floats, Ints, Names, QuestionSet, load_sets
from benchmarks.tables import describe_machine, format_table
from citewire_generator.extraction.questions import read_question
from citewire_generator.extraction.scoring import (
    ANSWER_FEATURES,
    UNIT_FEATURES,
    Candidate,
    Scored,
    answer_features,
    answer_score,
    rank,
    score_units,
)
from citewire_generator.extraction.weights import Linear, Weights, load_weights, parse_weights

FALSE_NOT_FOUND = 0.10
"""Share of the answerable questions that may be answered with the not-found sentence."""
REFUSED = 0.08
"""Share that the threshold rejects here, including those that the search missed; other libraries may differ."""
FOLDS = 6
FIT_PASSAGES = (1, 3, 5, 5, 8, 12)
POSITIVE = ("answerable", "missed")
QUOTES = 3
"""Maximum number of quoted units; the extractive provider's `MAX_QUOTES`."""
QUOTED = 0.95
"""Share of the answerable questions for which the margin is wide enough to quote a unit with the answer."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question with scored passages."""

    kind: str
    article: str
    question: int
    passages: tuple[int, ...]
    scored: Scored


def main() -> None:
    """Runs the derivation."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, help="questions of each set (default: all)")
    parser.add_argument("--write", action="store_true", help="fit again and replace the package's constants")
    options = parser.parse_args()
    print(describe_machine())
    sets = load_sets(options.data, options.limit, options.seed)
    if options.write:
        derived = derive(sets["squad"], options.seed)
        path = Path(str(resources.files("citewire_generator.extraction").joinpath("weights.json")))
        path.write_text(json.dumps(derived, indent=2) + "\n", "utf-8")
        print(f"written: {path.name}")
        weights = parse_weights(derived)
    else:
        weights = load_weights()
    for questions in sets.values():
        report(questions, weights)


def derive(squad: QuestionSet, seed: int) -> dict[str, Any]:
    """Fits all constants on SQuAD, cross-validated by article."""
    cases = list(make_cases(squad, np.random.default_rng(seed)))
    answerable = [case for case in cases if case.kind == "answerable"]
    features, labels, owners = _unit_rows(squad, answerable)
    weight = np.ones(len(labels))
    articles: Names = np.array([answerable[int(owner)].article for owner in owners])
    held_out = cross_validate(features, labels, weight, articles)
    ranks = [[_first_hit(held_out[owners == entry], labels[owners == entry])] for entry in range(len(answerable))]
    print("\nUnits that hold the answer, cross-validated: among the best " + _rank_text(np.array(ranks)))
    unit = fit(features, labels, weight)
    margin = float(np.quantile(_margins(unit, features, labels, owners), QUOTED))
    derived: dict[str, Any] = {
        "fitted_on": f"SQuAD 2.0, {len(squad.asked)} questions, seed {seed}",
        "unit": _as_json(unit, UNIT_FEATURES),
        "unit_margin": round(margin, 3),
    }
    for name, unused in (("answer", ("coverage_near",)), ("answer_lexical", ("similarity", "similarity_best"))):
        rows, kinds, groups = _answer_rows(cases, unit)
        rows[:, [ANSWER_FEATURES.index(feature) for feature in unused]] = 0.0
        balance = np.where(kinds == "answerable", 1 / np.sum(kinds == "answerable"), 0.0)
        for kind in ("removed", "adversarial"):
            balance += np.where(kinds == kind, 0.5 / np.sum(kinds == kind), 0.0)
        labels = (kinds == "answerable").astype(float)
        scores = cross_validate(rows, labels, balance * len(rows) / 2, groups)
        threshold = float(np.quantile(scores[np.isin(kinds, POSITIVE)], REFUSED))
        model = fit(rows, labels, balance * len(rows) / 2)
        measured = {kind: _separation(scores, kinds, kind, threshold) for kind in ("removed", "adversarial")}
        print(f"{name}, cross-validated:", measured, "threshold", round(threshold, 3))
        derived[name] = _as_json(model, ANSWER_FEATURES)
        derived[f"{name}_threshold"] = round(threshold, 3)
        derived[f"{name}_cross_validated"] = measured
    return derived


def make_cases(questions: QuestionSet, random: np.random.Generator | None = None) -> Iterator[Case]:
    """Builds the cases of a set; the number of passages is 5, or drawn at random."""
    for index, asked in enumerate(questions.asked):
        count = int(random.choice(FIT_PASSAGES)) if random is not None else 5
        hybrid = random is None or bool(random.integers(2))
        question = read_question(asked.text)

        def case(kind: str, places: list[int], number: int = index, article: str = asked.article) -> Case:
            scored = score_units(read_question(questions.asked[number].text), questions.sources(number, places))
            return Case(kind, article, number, tuple(places), scored)

        if not question.keys:
            continue
        result = questions.passages(index, count, hybrid=hybrid)
        if not asked.answerable:
            yield case("adversarial", result)
            continue
        retrieved = any(questions.holds_answer(index, chunk) for chunk in result)
        yield case("answerable" if retrieved else "missed", result)

        def of_article(chunk: Chunk, article: str = asked.article) -> bool:
            return chunk.article == article

        yield case("removed", questions.passages(index, count, without=of_article, hybrid=hybrid))


def report(questions: QuestionSet, weights: Weights) -> None:
    """Prints the results of the constants on a set."""
    started = time.perf_counter()
    cases = list(make_cases(questions))
    seconds = time.perf_counter() - started
    print(f"\n## {questions.name}: {len(questions.asked)} questions, {len(questions.chunks)} chunks")
    print(f"scoring 5 passages: {1000 * seconds / len(cases):.1f} ms a question")
    kinds = np.array([case.kind for case in cases])
    scores = np.array([_decide(case, weights) for case in cases])
    lexical = np.array([_decide(_blind(questions, case), weights) for case in cases])
    rows: list[list[object]] = []
    for kind in ("answerable", "missed", "removed", "adversarial"):
        own = scores[kinds == kind]
        if len(own):
            deciles = [round(float(np.quantile(own, q)), 2) for q in (0.05, 0.1, 0.25, 0.5, 0.75, 0.95)]
            refused = [round(float(np.mean(entry[kinds == kind] < 0)), 3) for entry in (scores, lexical)]
            rows.append([kind, len(own), *deciles, *refused])
    headings = ["questions", "n", "5 %", "10 %", "25 %", "50 %", "75 %", "95 %", "not found", "without similarity"]
    print(format_table(headings, rows))
    for kind in ("removed", "adversarial"):
        if np.any(kinds == kind):
            print(f"answerable against {kind}:", _separation(scores, kinds, kind, 0.0))
    answerable = [case for case in cases if case.kind == "answerable"]
    if questions.name != "xquad-es":
        _report_quotes(questions, answerable, weights)


def _report_quotes(questions: QuestionSet, cases: list[Case], weights: Weights) -> None:
    """How often the quoted units contain a gold answer."""
    held = np.zeros(4)
    quoted, units, words = 0, 0, 0
    for case in cases:
        ranked = rank(case.scored, weights.unit)
        good = [_holds(questions, case, candidate) for _, candidate in ranked[:4]]
        held += [any(good[: k + 1]) for k in range(4)]
        quotable = [c for score, c in ranked[:QUOTES] if score >= ranked[0][0] - weights.unit_margin]
        units += len(quotable)
        words += sum(len(case.scored.sources[c.source].text[c.unit.start : c.unit.end].split()) for c in quotable)
        quoted += any(good[: len(quotable)])
    n = len(cases)
    print(f"a gold answer is in the best 1, 2, 3, 4 units: {', '.join(f'{value:.3f}' for value in held / n)}")
    print(f"as quoted ({units / n:.2f} units, {words / n:.0f} words on average): {quoted / n:.3f}")


def _holds(questions: QuestionSet, case: Case, candidate: Candidate) -> bool:
    spans = questions.spans_in(case.question, case.passages[candidate.source])
    return any(candidate.unit.start <= start and end <= candidate.unit.end for start, end in spans)


def _decide(case: Case, weights: Weights) -> float:
    ranked = rank(case.scored, weights.unit)
    return answer_score(case.scored, ranked[0][1], weights) if ranked else -99.0


def _blind(questions: QuestionSet, case: Case) -> Case:
    sources = questions.sources(case.question, case.passages, similarity=False)
    return Case(case.kind, case.article, case.question, case.passages, score_units(case.scored.question, sources))


def _unit_rows(questions: QuestionSet, cases: list[Case]) -> tuple[Floats, Floats, Ints]:
    features: list[tuple[float, ...]] = []
    labels: list[bool] = []
    owners: list[int] = []
    for owner, case in enumerate(cases):
        for candidate in case.scored.candidates:
            features.append(candidate.features)
            labels.append(_holds(questions, case, candidate))
            owners.append(owner)
    return np.array(features), np.array(labels, float), np.array(owners)


def _answer_rows(cases: list[Case], unit: Linear) -> tuple[Floats, Names, Names]:
    rows: list[tuple[float, ...]] = []
    kinds: list[str] = []
    groups: list[str] = []
    for case in cases:
        ranked = rank(case.scored, unit)
        if ranked:
            rows.append(answer_features(case.scored, ranked[0][1]))
            kinds.append(case.kind)
            groups.append(case.article)
    return np.array(rows), np.array(kinds), np.array(groups)


def fit(features: Floats, labels: Floats, weight: Floats, penalty: float = 1e-3) -> Linear:
    """Logistic regression by Newton's method, ridge-penalised on standardised features."""
    mean, spread = _row(features.mean(0)), _row(features.std(0) + 1e-9)
    design: Floats = np.hstack([(features - mean) / spread, np.ones((len(features), 1))])
    beta = np.zeros(design.shape[1], np.float64)
    ridge: Floats = penalty * float(weight.sum()) * np.diag([1.0] * features.shape[1] + [1e-9])
    for _ in range(50):
        probability: Floats = 1 / (1 + np.exp(-(design @ beta)))
        gradient: Floats = design.T @ (weight * (probability - labels)) + ridge @ beta
        curvature: Floats = (design.T * (weight * probability * (1 - probability))) @ design + ridge
        step = _row(np.linalg.solve(curvature, gradient))
        beta -= step
        if float(np.abs(step).max()) < 1e-8:
            break
    scaled = _row(beta[:-1] / spread)
    return Linear(tuple(float(value) for value in scaled), float(beta[-1] - scaled @ mean))


def _row(values: object) -> Floats:
    return np.asarray(values, np.float64)


def cross_validate(features: Floats, labels: Floats, weight: Floats, groups: Names) -> Floats:
    """Scores of each row, from a model that was fitted without the row's fold of groups."""
    names = sorted(set(groups.tolist()))
    scores = np.zeros(len(labels))
    for fold in range(FOLDS):
        out = np.isin(groups, names[fold::FOLDS])
        model = fit(features[~out], labels[~out], weight[~out])
        scores[out] = features[out] @ np.array(model.weights) + model.bias
    return scores


def _separation(scores: Floats, kinds: Names, kind: str, threshold: float) -> dict[str, float]:
    positive, negative = scores[np.isin(kinds, POSITIVE)], scores[kinds == kind]
    order = np.concatenate([positive, negative]).argsort().argsort() + 1
    area = (order[: len(positive)].sum() - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative))
    at_tenth = float(np.quantile(positive, FALSE_NOT_FOUND))
    return {
        "roc_auc": round(float(area), 3),
        "recall_at_10pct_false_not_found": round(float(np.mean(negative < at_tenth)), 3),
        "false_not_found": round(float(np.mean(positive < threshold)), 3),
        "recall": round(float(np.mean(negative < threshold)), 3),
    }


def _margins(unit: Linear, features: Floats, labels: Floats, owners: Ints) -> list[float]:
    """The difference between the scores of the best unit and of the best one with the answer."""
    scores = features @ np.array(unit.weights) + unit.bias
    margins: list[float] = []
    for owner in np.unique(owners):
        own, good = scores[owners == owner], labels[owners == owner] > 0
        if good.any():
            margins.append(float(own.max() - own[good].max()))
    return margins


def _first_hit(scores: Floats, labels: Floats) -> int:
    ordered = labels[np.argsort(-scores, kind="stable")]
    return int(np.argmax(ordered)) if ordered.any() else 99


def _rank_text(ranks: Floats) -> str:
    return ", ".join(f"{k}: {float(np.mean(ranks < k)):.3f}" for k in (1, 2, 3, 4))


def _as_json(model: Linear, names: tuple[str, ...]) -> dict[str, Any]:
    weights = {name: round(value, 4) for name, value in zip(names, model.weights, strict=True)}
    return {"weights": weights, "bias": round(model.bias, 4)}


if __name__ == "__main__":
    main()
