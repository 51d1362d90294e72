"""How well the extractive provider detects that a library has no answer, compared with five simple heuristics.

`python -m benchmarks.not_found [--url http://127.0.0.1:8080] [--sets squad clapnq xquad-es] [--mode hybrid]` asks a
running server. Each set is one library: its paragraphs are stored as documents in its own collection (once; they
stay there), and each question is a `POST /v1/search` whose five best chunks are judged by the extractive provider's
own code. There are three kinds of questions:

- answerable: all of them, even if the search misses the paragraph with the answer;
- removed: the same questions, with the answer's article filtered out of the library;
- adversarial: written to look answerable from the library, but not answered there.

For each judge: ROC-AUC of answerable against the others with a bootstrap over articles (95 %), and the recall of "not
found" at which a tenth of the answerable questions are rejected. Then the results of the built-in threshold.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.extractive_data import Floats, Names
from benchmarks.not_found_data import SETS, Library, Question, read_library
from benchmarks.tables import describe_machine, format_table
from citewire_generator.extraction.questions import read_question
from citewire_generator.extraction.scoring import Source, answerable, rank, score_units
from citewire_generator.extraction.weights import load_weights

PASSAGES = 5
CANDIDATES = 10
"""Number of results requested: the heuristics need the best cosine even if words ranked it lower."""
FALSE_NOT_FOUND = 0.10
THRESHOLD = 0.5
"""The extractive provider's own judge."""
RESAMPLES = 500
JUDGES = (
    "extractive provider",
    "top cosine",
    "top BM25",
    "cosine margin, first to second",
    "idf coverage of the question",
    "best sentence, F1 of words",
)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question with each judge's score; higher means that there is an answer."""

    kind: str
    article: str
    retrieved: bool
    """Whether a passage is from the paragraph with the answer."""
    scores: tuple[float, ...]


def main() -> int:
    """Measures, and prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--key", default="", help="API key, if the server requires one")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--mode", choices=("hybrid", "dense", "lexical"), default="hybrid")
    parser.add_argument("--limit", type=int, help="questions of each set, spread evenly over it (default: all)")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    options = parser.parse_args()
    print(describe_machine())
    for name in options.sets:
        library = read_library(name, options.data)
        if library is None:
            print(f"{name}: nothing measured, its files are not in {options.data}", file=sys.stderr)
            continue
        judged = asyncio.run(_ask(library, options.url, options.key, options.mode, options.limit))
        report(library, judged, options.mode)
    return 0


async def _ask(library: Library, url: str, key: str, mode: str, limit: int | None) -> list[JudgedQuestion]:
    """Stores the library and asks all questions, two at a time."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    step = max(1, len(library.asked) // limit) if limit else 1
    waiting = iter(library.asked[::step])
    judged: list[JudgedQuestion] = []
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=120, trust_env=False) as http:
        await _store(http, library)

        async def work() -> None:
            for asked in waiting:
                kind = "answerable" if asked.answerable else "adversarial"
                judged.append(await _ask_and_judge(http, library, asked, kind, mode))
                if asked.answerable:
                    judged.append(await _ask_and_judge(http, library, asked, "removed", mode))

        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(work())
    return judged


async def _store(http: httpx.AsyncClient, library: Library) -> None:
    """Stores the paragraphs unless they are stored already, and waits until all can be searched."""
    if await _stored(http, library) < len(library.paragraphs):
        for article, text in library.paragraphs:
            body = {"type": "article", "title": article, "content": text, "collection": library.collection}
            key = hashlib.sha256("\n".join((library.collection, article, text)).encode()).hexdigest()
            response = await http.post("/v1/documents", json=body, headers={"Idempotency-Key": key})
            response.raise_for_status()
    while (ready := await _stored(http, library)) < len(library.paragraphs):
        print(f"{library.name}: {ready} of {len(library.paragraphs)} paragraphs can be searched", flush=True)
        await asyncio.sleep(5)


async def _stored(http: httpx.AsyncClient, library: Library) -> int:
    query = {"collection": library.collection, "status": "ready", "page_size": 1000}
    response = await http.get("/v1/documents", params=query)
    response.raise_for_status()
    return len(response.json()["documents"])


async def _ask_and_judge(
    http: httpx.AsyncClient, library: Library, asked: Question, kind: str, mode: str
) -> JudgedQuestion:
    body: dict[str, Any] = {
        "query": asked.text,
        "top_k": CANDIDATES,
        "mode": mode,
        "collection": library.collection,
    }
    if kind == "removed":
        body["filter"] = {"not": {"field": "title", "op": "eq", "value": asked.article}}
    response = await http.post("/v1/search", json=body)
    response.raise_for_status()
    results: list[dict[str, Any]] = response.json()["results"]
    inside = [result for result in results[:PASSAGES] if result["content"].strip() in asked.paragraph]
    return JudgedQuestion(kind, asked.article, asked.answerable and bool(inside), judge(asked.text, results))


def judge(text: str, results: Sequence[dict[str, Any]]) -> tuple[float, ...]:
    """Scores a question's passages with each of `JUDGES`; higher means that there is an answer."""
    if not results:
        return (0.0,) * len(JUDGES)
    question = read_question(text)
    sources = [Source(result["content"], result["title"], result.get("similarity")) for result in results[:PASSAGES]]
    scored = score_units(question, sources)
    ranked = rank(scored, load_weights().unit)
    ours = answerable(scored, ranked[0][1], load_weights()) if ranked else 0.0
    cosines = sorted((result.get("similarity") or 0.0 for result in results), reverse=True)
    words = set(_WORD.findall(text.casefold()))
    best = 0.0
    for candidate in scored.candidates:
        unit = scored.sources[candidate.source].text[candidate.unit.start : candidate.unit.end]
        unit_words = set(_WORD.findall(unit.casefold()))
        best = max(best, 2 * len(words & unit_words) / (len(words) + len(unit_words) or 1))
    return (
        ours,
        cosines[0],
        max(result.get("lexical_score") or 0.0 for result in results),
        cosines[0] - (cosines[1] if len(cosines) > 1 else 0.0),
        max((candidate.features[2] for candidate in scored.candidates), default=0.0),
        best,
    )


def report(library: Library, judged: Sequence[JudgedQuestion], mode: str) -> None:
    """Prints the results on a set."""
    kinds: Names = np.array([entry.kind for entry in judged])
    articles: Names = np.array([entry.article for entry in judged])
    scores: Floats = np.array([element.scores for element in judged])
    positive = kinds == "answerable"
    retrieved = float(np.mean([entry.retrieved for entry in judged if entry.kind == "answerable"]))
    print(f"\n## {library.name}: {len(library.paragraphs)} paragraphs, {int(positive.sum())} answerable, mode {mode}")
    print(f"the answer's paragraph is among the first {PASSAGES}: {retrieved:.3f}")
    for kind in ("removed", "adversarial"):
        if not np.any(kinds == kind):
            continue
        rows: list[list[object]] = []
        for number, name in enumerate(JUDGES):
            own = scores[:, number]
            if not own.any():
                continue  # a dense search has no lexical scores
            low, high = resampled(own, kinds, articles, kind)
            rows.append([name, f"{area(own[positive], own[kinds == kind]):.3f}", f"{low:.3f}-{high:.3f}",
                         f"{recall(own[positive], own[kinds == kind]):.3f}"])  # fmt: skip
        print(f"\n{kind} ({int(np.sum(kinds == kind))} questions)")
        print(format_table(["judge", "ROC-AUC", "95 %", "recall at 10 % false not-found"], rows))
    ours: Floats = scores[:, 0]
    refused: dict[str, float] = {}
    for kind in sorted({entry.kind for entry in judged}):
        refused[kind] = round(float((ours[kinds == kind] < THRESHOLD).mean()), 3)
    print(f"\nnot found at the built-in threshold: {refused}")


def area(positive: Floats, negative: Floats) -> float:
    """ROC-AUC; ties count half."""
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.mean() / (2 * len(negative)))


def recall(positive: Floats, negative: Floats) -> float:
    """Share of the negatives below the score that a tenth of the positives are below."""
    return float(np.mean(negative < np.quantile(positive, FALSE_NOT_FOUND)))


def resampled(scores: Floats, kinds: Names, articles: Names, kind: str) -> tuple[float, float]:
    """The 95 % interval of the ROC-AUC over resampled articles: questions about one article aren't independent."""
    random = np.random.default_rng(1)
    groups: list[tuple[Floats, Floats]] = []
    for name in sorted({str(article) for article in articles}):
        own = articles == name
        groups.append((scores[own & (kinds == "answerable")], scores[own & (kinds == kind)]))
    areas: list[float] = []
    for _ in range(RESAMPLES):
        drawn = [groups[int(index)] for index in random.integers(0, len(groups), len(groups))]
        positive: Floats = np.concatenate([part for part, _ in drawn])
        negative: Floats = np.concatenate([part for _, part in drawn])
        if len(positive) and len(negative):
            areas.append(area(positive, negative))
    return float(np.quantile(areas, 0.025)), float(np.quantile(areas, 0.975))


if __name__ == "__main__":
    sys.exit(main())
