"""Texts, vectors and questions of the large search benchmark: real sentences, mixed until there are enough chunks.

Windows of about 500 characters are taken from the data sets' articles and embedded once. A chunk is a window of its
document's article combined with another: their words, and a weighted sum of their vectors with some noise, which is
close to the embedding of both. So words keep the frequencies of real text, documents stay on a subject, and
neighbourhoods are as crowded as in a real library. SciFact's judged abstracts are included unchanged.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.extractive_data import embed

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
Vectors = NDArray[np.float32]
_WINDOW = 500


@dataclass(frozen=True, slots=True)
class Windows:
    """Pieces of articles; pieces of the same article are adjacent."""

    texts: tuple[str, ...]
    articles: NDArray[np.int64]
    """Number of each piece's article, ascending."""
    vectors: Vectors

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, slots=True)
class JudgedLibrary:
    """A library with judgements."""

    texts: tuple[str, ...]
    vectors: Vectors
    questions: tuple[str, ...]
    question_vectors: Vectors
    grades: tuple[dict[int, int], ...]
    """For each question, the grade of a text by its index."""


@dataclass(frozen=True, slots=True)
class Source:
    """The material from which libraries are mixed."""

    general: Windows
    """Windows that have nothing to do with the judged library."""
    science: Windows
    """Windows of the judged library's own articles."""
    judged: JudgedLibrary
    questions: tuple[str, ...]
    """Questions about the general articles."""
    question_vectors: Vectors


@dataclass(frozen=True, slots=True)
class MixedDocument:
    """A document's chunks and its subject."""

    texts: tuple[str, ...]
    vectors: Vectors
    subject: float
    """Position of its article among all, 0 to 1; close ones have similar subjects."""


def load_source() -> Source:
    """Reads the data sets beside the repository; vectors are cached in `.citewire-bench/`."""
    science_texts, judged = _scifact()
    articles, questions = _squad()
    articles += _passages()
    general_texts = [_cut(article) for article in articles]
    return Source(
        general=_windows(general_texts),
        science=_windows([_cut(text) for text in science_texts[::2]]),
        judged=judged,
        questions=tuple(questions),
        question_vectors=embed(questions),
    )


def draw_source() -> Source:
    """Draws random vectors instead of `load_source`'s: articles around subjects, in fewer dimensions."""
    random = np.random.default_rng(11)
    basis = random.normal(size=(96, 384))
    subjects = np.repeat(random.normal(size=(200, 96)), 10, axis=0)
    articles = subjects + 0.7 * random.normal(size=subjects.shape)

    def windows(each: int) -> Windows:
        numbers = np.repeat(np.arange(len(articles)), each)
        vectors = (articles[numbers] + 0.6 * random.normal(size=(len(numbers), 96))) @ basis
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return Windows(tuple(f"window {number}" for number in range(len(numbers))), numbers, vectors.astype(np.float32))

    asked, none = windows(1), np.empty((0, 384), np.float32)
    judged = JudgedLibrary((), none, (), none, ())
    return Source(windows(12), windows(12), judged, asked.texts, asked.vectors)


def mix(windows: Windows, chunks: int, per_document: int, random: np.random.Generator) -> Iterator[MixedDocument]:
    """Generates documents of `per_document` chunks (the last one may have fewer) until there are `chunks`."""
    starts = np.flatnonzero(np.r_[True, np.diff(windows.articles) > 0])
    ends = np.r_[starts[1:], len(windows)]
    made = 0
    while made < chunks:
        count = min(per_document, chunks - made)
        article = int(random.integers(len(starts)))
        own = random.integers(starts[article], ends[article], count)
        # Half of the companions are from nearby articles, half from anywhere.
        near = np.clip(own + random.integers(-40, 41, count), 0, len(windows) - 1)
        other = np.where(random.random(count) < 0.5, near, random.integers(0, len(windows), count))
        share = random.uniform(0.55, 0.8, (count, 1)).astype(np.float32)
        vectors = share * windows.vectors[own] + (1 - share) * windows.vectors[other]
        vectors += random.normal(scale=0.25 / np.sqrt(vectors.shape[1]), size=vectors.shape).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        texts = tuple(
            f"{windows.texts[first]} {windows.texts[second]}" for first, second in zip(own, other, strict=True)
        )
        yield MixedDocument(texts, vectors, article / len(starts))
        made += count


def _windows(articles: Sequence[Sequence[str]]) -> Windows:
    texts = [text for article in articles for text in article]
    numbers = [number for number, article in enumerate(articles) for _ in article]
    return Windows(tuple(texts), np.array(numbers), embed(texts))


def _cut(article: str) -> list[str]:
    """Splits at ends of sentences."""
    pieces: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", article):
        if pieces and len(pieces[-1]) + len(sentence) <= _WINDOW:
            pieces[-1] += " " + sentence
        else:
            pieces.append(sentence[: 2 * _WINDOW])
    return pieces


def _scifact() -> tuple[list[str], JudgedLibrary]:
    folder = DATA / "retrieval-scifact"
    rows = _lines(folder / "corpus.jsonl.gz")
    texts = [f"{row['title']} {row['text']}".strip() for row in rows]
    places = {row["_id"]: place for place, row in enumerate(rows)}
    grades: dict[str, dict[int, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, text, grade = line.split("\t")
        grades.setdefault(query, {})[places[text]] = int(grade)
    asked = {
        str(row["_id"]): str(row["text"])
        for row in map(json.loads, (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines())
        if row["_id"] in grades
    }
    questions = list(asked.values())
    judged = JudgedLibrary(
        tuple(texts), embed(texts), tuple(questions), embed(questions), tuple(grades[name] for name in asked)
    )
    return [row["text"] for row in rows], judged


def _squad() -> tuple[list[str], list[str]]:
    raw: dict[str, Any] = json.loads(gzip.decompress((DATA / "qa-squad2" / "squad2-dev-half-a.json.gz").read_bytes()))
    paragraphs = [paragraph for article in raw["data"] for paragraph in article["paragraphs"]]
    return [paragraph["context"] for paragraph in paragraphs], [
        paragraph["qas"][0]["question"] for paragraph in paragraphs
    ]


def _passages() -> Iterator[str]:
    for row in _lines(DATA / "retrieval-xquad" / "en" / "corpus.jsonl.gz"):
        yield row["text"]
    for name in ("answerable", "unanswerable"):
        for row in _lines(DATA / "qa-clapnq" / f"clapnq_dev_{name}_a.jsonl.gz"):
            yield row["passages"][0]["text"]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines() if line]
