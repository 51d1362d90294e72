"""The effect of lower precisions: SciFact's nDCG@10 by exact search, and the speed on the same abstracts."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.embedder_systems import HOME, System, Way, worker
from benchmarks.tables import format_table
from citewire_embedder.providers.model_directory import BUILT_IN, find_model, read_directory
from citewire_embedder.providers.openvino_session import available_cpus

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "retrieval-scifact"
SLICE = 256
TOP = 100

Qrels = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents, queries, and the documents that answer each query."""

    documents: dict[str, str]
    queries: dict[str, str]
    qrels: Qrels


@dataclass(slots=True)
class Answers:
    """The results of one precision so far."""

    vectors: list[NDArray[np.float32]]
    seconds: list[float]


def measure_quality(precisions: Sequence[str]) -> int:
    """Prints the table of precisions; returns the exit code."""
    if not DATA.is_dir():
        print(f"SciFact in BEIR's form is needed in {DATA}", file=sys.stderr)
        return 1
    collection = read_collection(DATA)
    texts = list(collection.documents.values())
    model = read_directory(find_model(BUILT_IN).path).path
    with contextlib.ExitStack() as stack:
        way = Way(available_cpus())
        systems: dict[str, System] = {
            name: stack.enter_context(worker(name, model, HOME / "unused", way)) for name in precisions
        }
        results = {name: Answers([], []) for name in systems}
        for at in range(0, len(texts), SLICE):  # in turns, slice by slice, so that ratios hold on a noisy machine
            for name, system in systems.items():
                start = time.perf_counter()
                results[name].vectors.append(system.vectors(texts[at : at + SLICE]))
                results[name].seconds.append(time.perf_counter() - start)
            print(f"{min(at + SLICE, len(texts))} of {len(texts)} abstracts", file=sys.stderr, flush=True)
        queries = {name: system.vectors(list(collection.queries.values())) for name, system in systems.items()}
    base = results[precisions[0]]
    rows: list[list[object]] = []
    for name, result in results.items():
        vectors, reference = np.concatenate(result.vectors), np.concatenate(base.vectors)
        ndcg, recall = score(collection, vectors, queries[name])
        speed = float(np.median(np.array(base.seconds) / np.array(result.seconds)))
        cosines = (vectors * reference).sum(axis=1)
        rows.append([name, speed, f"{ndcg:.4f}", f"{recall:.4f}", f"{cosines.mean():.5f}", f"{cosines.min():.5f}"])
    print(f"SciFact, {len(texts)} abstracts, {len(collection.queries)} claims\n")
    print(format_table(["precision", "× fp32", "nDCG@10", "recall@100", "mean cosine", "least cosine"], rows))
    return 0


def read_collection(folder: Path) -> Collection:
    """Reads a BEIR collection's documents and its test queries."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    documents: dict[str, str] = {row["_id"]: f"{row['title']} {row['text']}" for row in rows}
    qrels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    return Collection(documents, {row["_id"]: row["text"] for row in asked if row["_id"] in qrels}, qrels)


def score(collection: Collection, documents: NDArray[np.float32], queries: NDArray[np.float32]) -> tuple[float, float]:
    """Returns the means of nDCG@10 and recall@100 over all queries, by exact search."""
    names = list(collection.documents)
    best: list[list[int]] = np.argsort(-(queries @ documents.T), axis=1)[:, :TOP].tolist()
    ndcgs: list[float] = []
    recalls: list[float] = []
    for query, places in zip(collection.queries, best, strict=True):
        grades = collection.qrels[query]
        gains = [grades.get(names[place], 0) for place in places]
        ndcgs.append(_dcg(gains[:10]) / _dcg(sorted(grades.values(), reverse=True)[:10]))
        recalls.append(sum(gain > 0 for gain in gains) / sum(grade > 0 for grade in grades.values()))
    return float(np.mean(ndcgs)), float(np.mean(recalls))


def _dcg(gains: Sequence[int]) -> float:
    return float(sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains)))
