"""Measures whether verdicts can be fooled: planted falsehoods by kind, honest rewordings, many languages, and WiCE.

`python -m benchmarks.verdicts` prints:

- planted: the share of false sentences, made from SQuAD's and ClapNQ's, that aren't `supported`, by way, and of
  unchanged sentences and honest rewordings that aren't;
- languages: the same for sentences in fourteen languages, by language and by kind;
- WiCE, and time: the output of `benchmarks.verdicts_wice`.

The planters' words are in the verifier's lists too, especially antonyms. With `--held` the sentences come from the half
of SQuAD's articles and ClapNQ's questions that wasn't used to find rules and constants, except for numbers.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.citations import Indices
from benchmarks.citations_data import Case, true_cases
from benchmarks.tables import describe_machine, format_table
from benchmarks.verdicts_data import PLANTED, Change
from benchmarks.verdicts_honest import HONEST
from benchmarks.verdicts_languages import read_languages
from benchmarks.verdicts_wice import read_wice, report_wice, score_claims
from citewire_verify import Passage, Verdict
from citewire_verify.passages import PassageIndex
from citewire_verify.score import Weights, compare, load_weights
from citewire_verify.tokens import tokenise_sentence

SIZE = 200
"""Maximum number of sentences of each way."""


def main() -> None:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held", action="store_true", help="use only the half that was kept for testing")
    parser.add_argument("--show", default="", help="print the missed sentences of a kind or way")
    options = parser.parse_args()
    print(describe_machine())
    weights = load_weights()
    cases = [case for case in true_cases(options.data) if case.fitting != options.held]
    report_planted(cases, weights, options.seed, options.show)
    report_languages(weights, options.show)
    report_wice(score_claims(read_wice(options.data), weights), weights, options.seed)


def report_planted(cases: list[Case], weights: Weights, seed: int, show: str) -> None:
    """Prints detections by way, and false alarms."""
    indices = Indices()

    def flagged(case: Case, sentence: str) -> bool:
        comparison = compare(tokenise_sentence(sentence), indices.of(case.passage))
        return weights.score(comparison)[1] is not Verdict.SUPPORTED

    near = [case for case in cases if not case.paraphrased]
    rows: list[list[object]] = []
    for kind, ways in [*PLANTED.items(), ("honest rewording", HONEST)]:
        every: list[bool] = []
        for way, change in ways:
            changed = changed_sentences(near, change, f"{seed} {way}")
            results = [flagged(case, sentence) for case, sentence in changed]
            every += results
            rows.append([kind, way, len(results), _share(results)])
            if show in {kind, way}:
                wrong = kind == "honest rewording"
                missed = [text for (_, text), result in zip(changed, results, strict=True) if result is wrong]
                print("\n".join(f"- {way}: {text}" for text in missed[:20]))
        rows.append([f"**{kind}**", "all", len(every), f"**{_share(every)}**"])
    rows.append(["untouched", "word for word", len(near), _share([flagged(case, case.sentence) for case in near])])
    free = [case for case in cases if case.paraphrased]
    rows.append(["untouched", "people's paraphrases", len(free), _share([flagged(c, c.sentence) for c in free])])
    print("\n## Planted: not supported\n")
    print(format_table(["kind", "way", "n", "not supported"], rows))


def changed_sentences(cases: list[Case], change: Change, seed: str) -> list[tuple[Case, str]]:
    """At most `SIZE` sentences with a change, each with its original case."""
    draw = random.Random(seed)  # no secret, a repeatable choice
    results: list[tuple[Case, str]] = []
    for case in draw.sample(cases, len(cases)):
        sentence = change(case.sentence, draw)
        if sentence is not None and sentence != case.sentence:
            results.append((case, sentence))
        if len(results) == SIZE:
            break
    return results


def report_languages(weights: Weights, show: str) -> None:
    """Prints detections by language; the passage contains all sentences of a language."""
    results: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    languages = read_languages()
    for language, sentences in languages.items():
        index = PassageIndex(Passage(" ".join(sentence for sentence, _ in sentences)))

        def flagged(sentence: str, index: PassageIndex = index) -> bool:
            return weights.score(compare(tokenise_sentence(sentence), index))[1] is not Verdict.SUPPORTED

        for sentence, changes in sentences:
            results[language]["untouched"].append(flagged(sentence))
            for kind, old, new in changes:
                changed = sentence.replace(old, new, 1)
                detected = flagged(changed)
                results[language][kind].append(detected)
                if show == "languages" and not detected:
                    print(f"- {language}, {kind}: {changed}")
    kinds = ["untouched", *(kind for kind in PLANTED if kind != "roles")]
    rows: list[list[object]] = [
        [language, *(_share(results[language][kind]) for kind in kinds)] for language in languages
    ]
    rows.append(["all", *(_share([r for by_kind in results.values() for r in by_kind[kind]]) for kind in kinds)])
    print("\n## Languages: not supported\n")
    print(format_table(["", *kinds], rows))


def _share(results: list[bool]) -> str:
    return f"{np.mean(results):.3f}" if results else "–"


if __name__ == "__main__":
    main()
