"""The sets for measuring fusion, as libraries: chunks from ingest, their vectors and terms, and gold units.

A unit is a judged document or page of a filing. Vectors are cached by text in `.citewire-bench/`.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from citewire_embedder.models import open_model
from citewire_embedder.providers.base import Precision, Purpose
from citewire_embedder.providers.local import LocalModel
from citewire_embedder.settings import EmbedderSettings
from citewire_retriever.headings import headings_of, named
from citewire_retriever.ingest.chunker import chunk
from citewire_retriever.ingest.chunks import embedding_input
from citewire_retriever.ingest.parsers import parse
from citewire_retriever.ingest.settings import WorkerSettings
from citewire_retriever.lexical import count_question, weigh_chunk

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
CACHE: Final = Path(__file__).resolve().parent.parent / ".citewire-bench" / "fusion"
_BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk."""

    document: int
    page: int
    """From 1; 0 if the format has no pages."""
    text: str
    """The embedded text, including title and headings."""
    body: str
    """Only its text."""
    tokens: int
    """Tokens of only its text."""

    @property
    def headings(self) -> str:
        """The headings between the title and its text."""
        return headings_of(self.text.removesuffix(self.body).removesuffix("\n"))

    def moved(self, documents: int) -> Passage:
        """A copy with a shifted document number, for a library placed after another one."""
        return replace(self, document=self.document + documents)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the grade of each unit: (document, page), page 0 for a whole document."""

    text: str
    grades: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A set as a library of one collection."""

    name: str
    passages: Sequence[Passage]
    questions: Sequence[Question]
    vectors: NDArray[np.float32]
    """Vectors of the passages, shape (passages, dimensions)."""
    asked: NDArray[np.float32]
    """Vectors of the questions, shape (questions, dimensions)."""


class LexicalIndex:
    """BM25 as in the store: the terms' weights in chunks, and their rarity in the collection."""

    def __init__(self, texts: Iterable[str], headings: Iterable[str] = ()) -> None:
        """Takes the texts below their headers, and the headings in these; none if no text has any."""
        holding: dict[int, list[tuple[int, float]]] = {}
        self._size = 0
        for place, (text, above) in enumerate(zip(texts, chain(headings, repeat("")), strict=False)):
            self._size += 1
            for term, weight in weigh_chunk(text, above).items():
                holding.setdefault(term, []).append((place, weight))
        self._rows = {
            term: (np.array([place for place, _ in row]), np.array([weight for _, weight in row]))
            for term, row in holding.items()
        }

    def scores(self, question: str) -> tuple[NDArray[np.float64], float]:
        """Returns the score of each text, and that of a text with many repetitions of all the question's words."""
        scores = np.zeros(self._size)
        ideal = 0.0
        for term, count in count_question(question).items():
            places, weights = self._rows.get(term, (np.zeros(0, int), np.zeros(0)))
            rarity = count * math.log1p((self._size - len(places) + 0.5) / (len(places) + 0.5))
            ideal += rarity
            scores[places] += rarity * weights
        return scores, ideal


def load(name: str, precision: Precision = Precision.FP32) -> QuestionSet:
    """Loads a set of `SETS`, split by the current ingest; embedding texts without cached vectors takes minutes."""
    return asyncio.run(_embed(name, precision))


def embed_questions(texts: Sequence[str], precision: Precision) -> NDArray[np.float32]:
    """Embeds questions: shape (texts, dimensions)."""
    return asyncio.run(_embed_questions(texts, precision))


async def _embed_questions(texts: Sequence[str], precision: Precision) -> NDArray[np.float32]:
    model = open_model(EmbedderSettings(port=0, metrics_port=0, auth="off", precision=precision))
    try:
        await model.load()
        return await _vectors(model, precision, texts, Purpose.QUERY)
    finally:
        await model.close()


async def _embed(name: str, precision: Precision) -> QuestionSet:
    model = open_model(EmbedderSettings(port=0, metrics_port=0, auth="off", precision=precision))
    try:
        await model.load()
        documents, questions = read_set(name)
        passages: list[Passage] = []
        for number, (file_name, title, content) in enumerate(documents):
            passages += await _cut(model, number, file_name, title, content)
        print(f"{name}: {len(passages)} chunks, {len(questions)} questions", flush=True)
        vectors = await _vectors(model, precision, [passage.text for passage in passages], Purpose.DOCUMENT)
        asked = await _vectors(model, precision, [question.text for question in questions], Purpose.QUERY)
        return QuestionSet(name, passages, questions, vectors, asked)
    finally:
        await model.close()


async def _cut(model: LocalModel, number: int, file_name: str, title: str, content: bytes | Path) -> list[Passage]:
    settings = WorkerSettings(port=0, metrics_port=0, auth="off", dsn=SecretStr("postgresql://unused"))
    if isinstance(content, bytes):
        parsed = parse(content, file_name, "text/plain")
    else:
        parsed = parse(await asyncio.to_thread(content.read_bytes), file_name)

    async def count(texts: Sequence[str]) -> list[int]:
        return await model.count_tokens(texts)

    window = model.info.max_input_tokens - model.info.extra_tokens
    name = named(title or parsed.title or file_name, file_name)
    chunks = await chunk(parsed, name, settings.rules(window), count)
    return [
        Passage(number, chunk.place.page, embedding_input(chunk.header, chunk.text), chunk.text, chunk.token_count)
        for chunk in chunks
    ]


async def _vectors(
    model: LocalModel, precision: Precision, texts: Sequence[str], purpose: Purpose
) -> NDArray[np.float32]:
    """The texts' vectors, from the cache if possible."""
    CACHE.mkdir(parents=True, exist_ok=True)
    vectors = np.zeros((len(texts), model.info.space.dimensions), np.float32)
    keys = [hashlib.sha256(f"{precision.value} {purpose.value} {text}".encode()).digest() for text in texts]
    with closing(sqlite3.connect(CACHE / "vectors.sqlite")) as store:
        store.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        new: list[int] = []
        for place, key in enumerate(keys):
            row = store.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
            if row is None:
                new.append(place)
            else:
                vectors[place] = np.frombuffer(row[0], np.float32)
        new.sort(key=lambda place: len(texts[place]))
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            vectors[batch] = await model.embed(await model.tokenise([texts[place] for place in batch], purpose))
            stored = [(keys[place], vectors[place].tobytes()) for place in batch]
            store.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", stored)
            store.commit()
            if start % 2000 == 0:
                print(f"embedding: {start} of {len(new)}", flush=True)
    return vectors


Document = tuple[str, str, "bytes | Path"]
"""File name, title, content."""


def read_set(name: str) -> tuple[list[Document], list[Question]]:
    """Reads a set of `SETS`: its ingested documents and its questions."""
    kind, _, part = name.partition(" ")
    if kind == "SciFact":
        return _beir(DATA / "retrieval-scifact", part or "test")
    if kind == "XQuAD":
        return _beir(DATA / "retrieval-xquad" / part, "test")
    return {"SQuAD": _squad, "ClapNQ": _clapnq, "FinanceBench": _filings}[kind]()


def _beir(folder: Path, part: str) -> tuple[list[Document], list[Question]]:
    texts = list(rows(folder / "corpus.jsonl"))
    numbers = {row["_id"]: number for number, row in enumerate(texts)}
    grades: dict[str, dict[tuple[int, int], int]] = {}
    for line in (folder / "qrels" / f"{part}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, text, grade = line.split("\t")
        grades.setdefault(query, {})[numbers[text], 0] = int(grade)
    documents: list[Document] = [("", row["title"].strip() or row["_id"], row["text"].encode()) for row in texts]
    asked = [
        Question(row["text"], grades[row["_id"]]) for row in rows(folder / "queries.jsonl") if row["_id"] in grades
    ]
    return documents, asked


def _squad() -> tuple[list[Document], list[Question]]:
    documents: list[Document] = []
    asked: list[Question] = []
    raw = gzip.decompress((DATA / "qa-squad2" / "squad2-dev-half-a.json.gz").read_bytes())
    for article in json.loads(raw)["data"]:
        for paragraph in article["paragraphs"]:
            asked += [
                Question(entry["question"], {(len(documents), 0): 1})
                for entry in paragraph["qas"]
                if not entry["is_impossible"]
            ]
            documents.append(("", article["title"].replace("_", " "), paragraph["context"].encode()))
    return documents, asked


def _clapnq() -> tuple[list[Document], list[Question]]:
    documents: list[Document] = []
    asked: list[Question] = []
    for kind in ("answerable", "unanswerable"):
        for row in rows(DATA / "qa-clapnq" / f"clapnq_dev_{kind}_a.jsonl"):
            if kind == "answerable":
                asked.append(Question(row["input"], {(len(documents), 0): 1}))
            documents.append(("", row["passages"][0]["title"], row["passages"][0]["text"].encode()))
    return documents, asked


def _filings() -> tuple[list[Document], list[Question]]:
    folder = DATA / "qa-financebench"
    names = [str(row["doc_name"]) for row in rows(folder / "documents.jsonl")]
    numbers = {name: number for number, name in enumerate(names)}
    grades: dict[str, dict[tuple[int, int], int]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, unit, grade = line.split("\t")
        name, _, page = unit.rpartition("#")
        grades.setdefault(query, {})[numbers[name], int(page) + 1] = int(grade)
    documents: list[Document] = [(f"{name}.pdf", "", folder / "pdfs" / f"{name}.pdf") for name in names]
    asked = [
        Question(row["question"], grades[row["financebench_id"]])
        for row in rows(folder / "questions.jsonl")
        if row["financebench_id"] in grades
    ]
    return documents, asked


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of lines, gzipped or not."""
    packed = path.with_name(f"{path.name}.gz")
    raw = gzip.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()
    yield from (json.loads(line) for line in raw.decode("utf-8").splitlines() if line)


SETS: Final = (
    "ClapNQ",
    "XQuAD en",
    "XQuAD es",
    "XQuAD hi",
    "XQuAD th",
    "SQuAD",
    "FinanceBench",
    "SciFact",
)
