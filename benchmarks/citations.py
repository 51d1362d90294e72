"""Measures verified citations: quotes at their offsets, planted false claims, false alarms, time.

`python -m benchmarks.citations` prints:

- quotes: answers replayed as a language model's (ClapNQ's long answers with markers, several packings, in random
  deltas) and extractive ones (SQuAD 2.0): every quote must be found verbatim at its offsets;
- claims: the share of sentences with a changed number, name or negation that aren't `supported`, compared with the
  false alarms on unchanged ones, separately for nearly verbatim (SQuAD, part of ClapNQ) and paraphrased ones (ClapNQ);
- time per sentence, with and without reading its passage.

`--write` refits the package's constants on half of SQuAD's articles and of ClapNQ's questions; the report covers the
other half.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from citewire.generator.v1 import generator_pb2 as pb

from benchmarks.citations_data import (
    Case,
    clapnq_answers,
    detokenise,
    elsewhere_cases,
    false_cases,
    sentences_of,
    some,
    squad_paragraphs,
    squad_questions,
    true_cases,
)
from benchmarks.extractive_threshold import fit
from benchmarks.tables import describe_machine, format_table
from citewire_generator.converters import generate_from_proto
from citewire_generator.model import FinishReason, ModelInfo, Suggestions, Usage
from citewire_generator.providers.base import ChatProvider, ChatTask, Delta, End
from citewire_generator.providers.extractive import Extractive
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_verify import Passage as CitedPassage
from citewire_verify import Verdict
from citewire_verify.passages import PassageIndex
from citewire_verify.score import BEST_FIRST, FEATURES, Weights, compare, load_weights, parse_weights
from citewire_verify.tokens import tokenise_sentence

PLANTED = 500
"""False claims of each kind."""
ROUNDS = 4
"""Number of random changes per true sentence."""
KINDS = (("number", False), ("name", False), ("subject", False), ("negation", False), ("number", True), ("name", True))
PENALTY = 0.03
"""Penalty of the fit: strong, so that scores are graded even if names or numbers alone separate true from false."""
SPARED = 0.015
"""Share of the paraphrased, untouched sentences of the fit whose scores don't count for the threshold."""
WRONG = 0.6
"""The threshold of `unsupported`, as a share of the score that all but `SPARED` of them reach."""


_VERDICTS = {
    pb.VERDICT_SUPPORTED: Verdict.SUPPORTED,
    pb.VERDICT_PARTIAL: Verdict.PARTIAL,
    pb.VERDICT_UNSUPPORTED: Verdict.UNSUPPORTED,
}


class Replay(ChatProvider):
    """A model that replays a given text in deltas of random length."""

    def __init__(self) -> None:
        self.answer = ""
        self.draw = random.Random(1)  # no secret, a repeatable choice

    @property
    def name(self) -> str:
        """`replay`."""
        return "replay"

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """One."""
        return (ModelInfo("replay", "replay"),)

    async def stream(self, task: ChatTask) -> AsyncGenerator[Delta | End, None]:
        """Streams the answer."""
        del task
        at = 0
        while at < len(self.answer):
            size = self.draw.choice((1, 2, 3, 5, 8, 40))
            yield Delta((self.answer[at : at + size],))
            at += size
        yield End(FinishReason.STOP, Usage())

    async def suggest(self, request: pb.SuggestQuestionsRequest, model: str) -> Suggestions:
        """Makes no suggestions."""
        del request, model
        return Suggestions(())


@dataclass(slots=True)
class Tally:
    """The observations in a set of answers."""

    answers: int = 0
    citations: int = 0
    wrong: int = 0
    empty: int = 0
    uncited: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])


def main() -> None:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="fit again and replace the package's constants")
    options = parser.parse_args()
    print(describe_machine())
    true = true_cases(options.data)
    if options.write:
        derived = derive(true, options.data, options.seed)
        path = Path(str(resources.files("citewire_verify").joinpath("weights.json")))
        path.write_text(json.dumps(derived, indent=2) + "\n", "utf-8")
        print(f"written: {path.name}")
        weights = parse_weights(derived)
    else:
        weights = load_weights()
    report_claims(true, options.data, weights, options.seed)
    report_time(true, weights)
    asyncio.run(report_quotes(options.data, options.seed))


def derive(true: list[Case], data: Path, seed: int) -> dict[str, Any]:
    """Fits the constants on the fitting half."""
    rows: list[tuple[float, ...]] = []
    labels: list[float] = []
    shares: list[float] = []
    indices = Indices()
    sets: list[tuple[float, list[Case]]] = [(1.0, [case for case in true if case.paraphrased])]
    sets.append((1.0, [case for case in true if not case.paraphrased]))
    sets += [(0.0, false_cases(true, change, taken=taken, seed=seed)) for change, taken in KINDS]
    sets.append((0.0, elsewhere_cases(true, data, seed)))
    for label, cases in sets:
        picked = list(some([case for case in cases if case.fitting], 1500, seed))
        count = 2 if label else len(KINDS) + 1
        for case in picked:
            rows.append(compare(tokenise_sentence(case.sentence), indices.of(case.passage)).features)
            labels.append(label)
            shares.append(1 / count / len(picked))
    features, targets, weight = np.array(rows), np.array(labels), np.array(shares) * len(rows)
    linear = fit(features, targets, weight, PENALTY)
    raw: dict[str, Any] = {
        "fitted_on": f"half of SQuAD 2.0's articles and of ClapNQ's questions, {len(rows)} sentences, seed {seed}",
        "support": {
            "weights": {name: round(value, 4) for name, value in zip(FEATURES, linear.weights, strict=True)},
            "bias": round(linear.bias, 4),
        },
        # Fitted on claims with whole pages by `benchmarks.verdicts_wice --write`, which must be run after this.
        "supported": load_weights().supported,
        "unsupported": 0.5,
    }
    weights = parse_weights(raw)
    spared: list[float] = []
    for case in (case for case in true if case.paraphrased and case.fitting):
        comparison = compare(tokenise_sentence(case.sentence), indices.of(case.passage))
        if not comparison.mismatches:
            spared.append(weights.score(comparison)[0])
    raw["unsupported"] = round(WRONG * float(np.quantile(spared, SPARED)), 3)
    return raw


def cited(passage: pb.Passage) -> CitedPassage:
    """A passage as the verifier reads it."""
    return CitedPassage(
        passage.text, "\n".join((passage.title, passage.section, passage.file_name, passage.place_label))
    )


class Indices:
    """Passages that have been read, each only once."""

    def __init__(self) -> None:
        self._known: dict[str, PassageIndex] = {}

    def of(self, passage: pb.Passage) -> PassageIndex:
        """Returns the passage after reading it."""
        if passage.text not in self._known:
            self._known[passage.text] = PassageIndex(cited(passage))
        return self._known[passage.text]


def report_claims(true: list[Case], data: Path, weights: Weights, seed: int) -> None:
    """Prints false alarms and detections on the half that wasn't used for fitting."""
    indices = Indices()
    held = [case for case in true if not case.fitting]
    print(f"\n## Claims: {len(held)} sentences that nothing was fitted on, and false ones made from them\n")
    sets = [("untouched: not supported (false alarms)", held)]
    for change, taken in KINDS:
        what = "name at the sentence's start" if change == "subject" else change
        label = f"{what} changed" + (" for another one of the passage" if taken else "")
        sets.append((f"{label}: not supported", plant_falsehoods(held, change, taken=taken, seed=seed)))
    sets.append(("another paragraph of the article cited: not supported", elsewhere_cases(held, data, seed)))
    rows: list[list[object]] = []
    for label, cases in sets:
        row: list[object] = [label]
        every: list[bool] = []
        for group in (_squad, _near, _paraphrased):
            picked = list(some([case for case in cases if group(case)], PLANTED, seed))
            verdicts = [
                weights.score(compare(tokenise_sentence(case.sentence), indices.of(case.passage)))[1] for case in picked
            ]
            flagged = [verdict is not Verdict.SUPPORTED for verdict in verdicts]
            every += flagged
            row += [f"{np.mean(flagged):.3f}" if picked else "–", len(picked)]
        rows.append([*row, f"{np.mean(every):.3f}", len(every)])
    headings = ["", "SQuAD", "n", "ClapNQ, word for word", "n", "ClapNQ, paraphrased", "n", "all", "n"]
    print(format_table(headings, rows))


def plant_falsehoods(true: list[Case], change: str, *, taken: bool, seed: int) -> list[Case]:
    """False sentences; several for a true one that has several numbers or names."""
    results: dict[tuple[str, str], Case] = {}
    for entry in range(seed, seed + ROUNDS):
        for case in false_cases(true, change, taken=taken, seed=entry):
            results.setdefault((case.group, case.sentence), case)
    return list(results.values())


def _squad(case: Case) -> bool:
    return case.source == "squad"


def _near(case: Case) -> bool:
    return case.source == "clapnq" and not case.paraphrased


def _paraphrased(case: Case) -> bool:
    return case.source == "clapnq" and case.paraphrased


def report_time(true: list[Case], weights: Weights) -> None:
    """Prints the time per sentence."""
    cases = list(some(true, 1000, 1))
    first: list[float] = []
    again: list[float] = []
    for case in cases:
        started = time.thread_time()
        index = PassageIndex(cited(case.passage))
        weights.score(compare(tokenise_sentence(case.sentence), index))
        first.append(1000 * (time.thread_time() - started))
        started = time.thread_time()
        weights.score(compare(tokenise_sentence(case.sentence), index))
        again.append(1000 * (time.thread_time() - started))
    length = _mean_length(cases)
    print(f"\n## Processor time of a sentence, ms, {len(cases)} sentences, passages of {length:.0f} characters\n")
    rows = [
        [label, *(round(float(np.quantile(values, q)), 2) for q in (0.5, 0.95, 0.99))]
        for label, values in (("first of its passage", first), ("a further one", again))
    ]
    print(format_table(["", "p50", "p95", "p99"], rows))


def _mean_length(cases: Iterable[Case]) -> float:
    return float(np.mean([len(case.passage.text) for case in cases]))


async def report_quotes(data: Path, seed: int) -> None:
    """Prints whether each quote is at its stated position."""
    draw = random.Random(seed)  # no secret, a repeatable choice
    print("\n## Quotes\n")
    tallies = {
        "ClapNQ's long answers, replayed": await _replayed(data, draw),
        "extractive, SQuAD": await _quoted(data, draw),
    }
    rows: list[list[object]] = [
        [
            label,
            total.answers,
            total.citations,
            total.wrong,
            total.empty,
            total.uncited,
            *(total.verdicts[verdict] for verdict in BEST_FIRST),
        ]
        for label, total in tallies.items()
    ]
    headings = [
        "answers",
        "n",
        "citations",
        "not verbatim",
        "no quote",
        "uncited",
        "supported",
        "partial",
        "unsupported",
    ]
    print(format_table(headings, rows))
    if any(tally.wrong for tally in tallies.values()):
        raise SystemExit("a quote isn't at its offsets")


async def _replayed(data: Path, draw: random.Random) -> Tally:
    """ClapNQ's answers with a marker after each sentence, each in four packings."""
    asked = clapnq_answers(data)
    replay = Replay()
    generator = Generator(Registry([replay]))
    tally = Tally()
    for entry in asked:
        for answer in entry.answers:
            for packing in range(4):
                others = [other.passage for other in draw.sample(asked, 5) if other is not entry]
                place = 0 if packing in {0, 3} else draw.randrange(len(others) + 1)
                passages = [] if packing == 0 else list(others)
                passages.insert(place, entry.passage)
                source = packing % 2 == 1
                marker = f"[SOURCE {place + 1}]" if source else f"[ref:{place + 1}]"
                sentences = sentences_of(detokenise(answer)) or [detokenise(answer)]
                before = draw.random() < 0.3
                replay.answer = " ".join(
                    f"{sentence[:-1]} {marker}{sentence[-1]}"
                    if before and sentence[-1] == "."
                    else f"{sentence} {marker}"
                    for sentence in sentences
                )
                policy = pb.AnswerPolicy(
                    context_format=pb.CONTEXT_FORMAT_SOURCE_LABELS if source else pb.CONTEXT_FORMAT_NUMBERED,
                    marker_style=pb.MARKER_STYLE_SOURCE if source else pb.MARKER_STYLE_REF,
                    verify_citations=True,
                    flag_uncited=True,
                    # The last packing truncates the passage.
                    max_context_chars=400 if packing == 3 else 0,
                )
                await _count(generator, _request(entry.question, passages, policy), tally)
    return tally


async def _quoted(data: Path, draw: random.Random) -> Tally:
    """Answers of the extractive provider."""
    paragraphs = squad_paragraphs(data)
    questions = squad_questions(data)
    generator = Generator(Registry([Extractive()]))
    tally = Tally()
    for text, paragraph in draw.sample(questions, 600):
        passages = [paragraphs[paragraph], *draw.sample(paragraphs, 3)]
        draw.shuffle(passages)
        policy = pb.AnswerPolicy(marker_style=pb.MARKER_STYLE_REF, verify_citations=True, flag_uncited=True)
        await _count(generator, _request(text, passages, policy), tally)
    return tally


def _request(question: str, passages: Sequence[pb.Passage], policy: pb.AnswerPolicy) -> pb.GenerateRequest:
    request = pb.GenerateRequest(question=question, passages=passages, policy=policy)
    generate_from_proto(request)
    return request


async def _count(generator: Generator, request: pb.GenerateRequest, tally: Tally) -> None:
    started: pb.Started | None = None
    citations: list[pb.VerifiedCitation] = []
    text = ""
    async for event in generator.generate(request):
        if isinstance(event, pb.Started):
            started = event
        elif isinstance(event, pb.TextDelta):
            text += "".join(event.texts)
        elif isinstance(event, pb.UncitedSentence):
            tally.uncited += 1
        elif isinstance(event, pb.VerifiedCitation):
            citations.append(event)
            if event.sentence.end > len(text):
                raise SystemExit("a citation came before its sentence")
    if started is None:
        raise SystemExit("an answer without a start")
    tally.answers += bool(citations)
    for citation in citations:
        placed, span = started.citations[citation.number - 1], citation.sentence
        there = request.passages[placed.passage_index].text[citation.quote_start : citation.quote_end]
        right = there == citation.quote and citation.quote_end <= placed.chars
        tally.wrong += not (right and bool(text[span.start : span.end].strip()))
        tally.empty += not citation.quote
        tally.citations += 1
        tally.verdicts[_VERDICTS[citation.sentence_verdict]] += 1


if __name__ == "__main__":
    main()
