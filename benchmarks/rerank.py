"""The value of late interaction over the embedding model's token vectors as a reranker: nDCG@10 with and without it.

SciFact's claims and XQuAD's English questions: all texts are ranked by the embedding model, and the best 40 are scored
again by MaxSim and by the reranker's closeness, which also considers passages, each alone and added to the cosines; and
the time of one reranker call with 40 texts. Run it with `python -m benchmarks.rerank [--queries 300]`; the data
is expected beside the repository. The value of reranking after a hybrid search, on the services' chunks,
is measured by `citewire eval SET --mode hybrid --mode hybrid+rerank`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import describe_machine, format_table
from citewire_embedder.providers.base import Precision, Purpose
from citewire_embedder.providers.closeness import closeness, max_sim
from citewire_embedder.providers.late_interaction import LateInteraction
from citewire_embedder.providers.local import LocalModel
from citewire_embedder.providers.model_directory import BUILT_IN, find_model, read_directory
from citewire_embedder.providers.openvino_session import available_cpus

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = {"SciFact": "retrieval-scifact", "XQuAD en": "retrieval-xquad/en"}
CANDIDATES = 40
BATCH = 16
WEIGHTS = (0.5, 1.0, 2.0)
"""Weights relative to the cosine of the whole texts."""
CALLS = 20


@dataclass(frozen=True, slots=True)
class Collection:
    """Texts, queries, and the grades of texts for each query."""

    titles: Mapping[str, str]
    texts: Mapping[str, str]
    """The texts below their titles."""
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """For each query: the indexes of its best texts, their cosines, their MaxSim, and their closeness."""

    places: NDArray[np.int64]
    cosines: NDArray[np.float32]
    max_sims: NDArray[np.float32]
    closenesses: NDArray[np.float32]


async def main() -> int:
    """Prints both tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=300, help="queries of each set (default 300)")
    parser.add_argument("--texts", choices=SETS, help="one set only")
    parser.add_argument("--precision", choices=list(Precision), default=Precision.FP32, help="of the reranker")
    arguments = parser.parse_args()
    queries, only = int(arguments.queries), str(arguments.texts or "")
    sets = {name: folder for name, folder in SETS.items() if only in ("", name)}
    missing = [folder for folder in sets.values() if not (DATA / folder).is_dir()]
    if missing:
        print(f"nothing measured: {', '.join(missing)} not in {DATA}", file=sys.stderr)
        return 0
    directory = read_directory(find_model(BUILT_IN).path)
    threads = available_cpus()
    model = LocalModel(BUILT_IN, directory, precision=Precision.FP32, threads=threads)
    reranker = LateInteraction(BUILT_IN, directory, precision=Precision(arguments.precision), threads=threads)
    await model.load()
    quality: list[list[object]] = []
    speed: list[list[object]] = []
    for name, folder in sets.items():
        collection = read_collection(DATA / folder, queries)
        result = await candidates_of(collection, model, reranker)
        quality.append(quality_row(f"{name}, {len(collection.queries)} queries", collection, result))
        speed.append([name, *await call_times(collection, result, reranker)])
    await reranker.close()
    await model.close()
    print(describe_machine())
    print(f"\nnDCG@10, the best {CANDIDATES} texts in the order of a score:\n")
    headings = ["texts", "cosine"]
    for score in ("MaxSim", "closeness"):
        headings += [score, *(f"cosine + {weight:g} × {score}" for weight in WEIGHTS)]
    print(format_table(headings, quality))
    print(f"\nOne call with {CANDIDATES} texts, of {CALLS}:\n")
    print(format_table(["texts", "median ms", "longest ms", "CPU ms", "tokens"], speed))
    return 0


def read_collection(folder: Path, most: int) -> Collection:
    """Reads a collection in BEIR form, with at most this many of its test queries."""
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, text, grade = line.split("\t")
        grades.setdefault(query, {})[text] = int(grade)
    asked = {row["_id"]: row["text"] for row in _rows(folder, "queries") if row["_id"] in grades}
    # Spread evenly over the file, as neighbours are about the same text.
    sample = list(asked)[:: max(1, len(asked) // most)][:most]
    rows = _rows(folder, "corpus")
    titles = {row["_id"]: row.get("title", "") for row in rows}
    texts = {row["_id"]: f"{row.get('title', '')}\n{row['text']}".strip() for row in rows}
    return Collection(titles, texts, {query: asked[query] for query in sample}, grades)


async def candidates_of(collection: Collection, model: LocalModel, reranker: LateInteraction) -> Candidates:
    """Ranks all texts with the model, and rescores the best."""
    texts, queries = list(collection.texts.values()), list(collection.queries.values())
    documents = await _embedded(model, texts, Purpose.DOCUMENT)
    asked = await _embedded(model, queries, Purpose.QUERY)
    cosines = asked @ documents.T
    places = np.argsort(-cosines, axis=1, kind="stable")[:, :CANDIDATES]
    max_sims, closenesses = np.zeros(places.shape, np.float32), np.zeros(places.shape, np.float32)
    ranks: dict[int, list[tuple[int, int]]] = {}
    for query, row in enumerate(places.tolist()):
        for rank, place in enumerate(row):
            ranks.setdefault(place, []).append((query, rank))
    vectors = [reranker.token_vectors([text])[0] for text in await model.tokenise(queries, Purpose.QUERY)]
    tokenised = await model.tokenise([texts[place] for place in ranks], Purpose.DOCUMENT)
    titles = list(collection.titles.values())
    above = await model.tokenise([titles[place] for place in ranks], Purpose.DOCUMENT)
    for number, (text, title, at) in enumerate(zip(tokenised, above, ranks.values(), strict=True), 1):
        (document,) = reranker.token_vectors([text])
        for query, rank in at:
            max_sims[query, rank] = max_sim(vectors[query], document)
            closenesses[query, rank] = closeness(vectors[query], document, len(title.ids) - 2)
        if number % 500 == 0:
            print(f"{number} of {len(ranks)} texts scored", file=sys.stderr, flush=True)
    return Candidates(places, np.take_along_axis(cosines, places, axis=1), max_sims, closenesses)


def quality_row(name: str, collection: Collection, candidates: Candidates) -> list[object]:
    """The mean nDCG@10 of each order."""
    orders = [candidates.cosines]
    for scores in (candidates.max_sims, candidates.closenesses):
        orders += [scores, *(candidates.cosines + weight * scores for weight in WEIGHTS)]
    return [name, *(f"{_ndcg(collection, candidates.places, order):.4f}" for order in orders)]


async def call_times(collection: Collection, candidates: Candidates, reranker: LateInteraction) -> list[object]:
    """Times complete calls, as in the service."""
    texts, seconds, tokens = list(collection.texts.values()), list[float](), list[int]()
    cpu = time.process_time()
    rows: list[list[int]] = candidates.places.tolist()
    for query, row in list(zip(collection.queries.values(), rows, strict=True))[:CALLS]:
        start = time.perf_counter()
        ranking = await reranker.rerank(query, [texts[place] for place in row], 10)
        seconds.append(time.perf_counter() - start)
        tokens.append(ranking.input_tokens)
    cpu = time.process_time() - cpu
    return [float(np.median(seconds) * 1000), max(seconds) * 1000, cpu / len(seconds) * 1000, int(np.median(tokens))]


def _ndcg(collection: Collection, places: NDArray[np.int64], order: NDArray[np.floating]) -> float:
    names = list(collection.texts)
    results: list[float] = []
    for query, row, scores in zip(collection.queries, places, order, strict=True):
        grades = collection.grades[query]
        best: list[int] = row[np.argsort(-scores, kind="stable")][:10].tolist()
        ideal = sorted(grades.values(), reverse=True)[:10]
        results.append(_dcg([grades.get(names[place], 0) for place in best]) / _dcg(ideal))
    return float(np.mean(results))


def _dcg(gains: Sequence[int]) -> float:
    return float(sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains)))


async def _embedded(model: LocalModel, texts: Sequence[str], purpose: Purpose) -> NDArray[np.float32]:
    tokenised = await model.tokenise(texts, purpose)
    order = sorted(range(len(texts)), key=lambda place: len(tokenised[place].ids))
    vectors = np.empty((len(texts), model.info.space.dimensions), np.float32)
    for at in range(0, len(order), BATCH):
        places = order[at : at + BATCH]
        vectors[places] = await model.embed([tokenised[place] for place in places])
    return vectors


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    packed = folder / f"{name}.jsonl.gz"
    if packed.is_file():
        with gzip.open(packed, "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
