"""Question sets for the extractive provider's threshold: passages as from a search, and the right answers.

Each set's passages are split into chunks and embedded with all-MiniLM-L6-v2, the services' default. A question's
passages are its most similar chunks, or the best by similarity and words, fused almost as in the retriever.
Vectors are cached in `.citewire-bench/`.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from citewire_embedder.models import open_model
from citewire_embedder.providers.base import Purpose
from citewire_embedder.settings import EmbedderSettings
from citewire_generator.extraction.scoring import Source
from citewire_retriever.lexical import count_question, weigh_chunk
from citewire_retriever.service.fusion import DENSE_WEIGHT
from citewire_verify.text.sentences import split_units

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Names = NDArray[np.str_]
CACHE = Path(__file__).resolve().parent.parent / ".citewire-bench"
CHUNK = 1000
"""Maximum code points in a chunk, to fit into the model's window of 256 tokens."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document."""

    text: str
    article: str
    """Its article, also used as the title."""
    paragraph: int
    start: int
    """Its start in its paragraph."""


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """A question with its known answers."""

    text: str
    article: str
    paragraph: int
    answerable: bool
    spans: tuple[tuple[int, str], ...]
    """The positions of answers in its paragraph, with the answers."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A set with the similarities of its questions to its chunks."""

    name: str
    chunks: tuple[Chunk, ...]
    asked: tuple[GoldQuestion, ...]
    similarities: NDArray[np.float32]
    """Shape (questions, chunks)."""
    shares: NDArray[np.float32]
    """Share of each question's words, weighted by rarity, that each chunk contains; the same shape."""

    def passages(
        self, question: int, count: int, *, without: Callable[[Chunk], bool] | None = None, hybrid: bool = True
    ) -> list[int]:
        """Returns the indexes of the best chunks, best first, by hybrid search or by similarity alone."""
        scores = self.similarities[question]
        if hybrid:
            scores = DENSE_WEIGHT / 2 * scores + (1 - DENSE_WEIGHT) * self.shares[question]
        order = np.argsort(-scores, kind="stable")
        result = (int(index) for index in order if without is None or not without(self.chunks[int(index)]))
        return [index for index, _ in zip(result, range(count), strict=False)]

    def sources(self, question: int, passages: Sequence[int], *, similarity: bool = True) -> list[Source]:
        """Converts chunks to the units that are scored."""
        values = self.similarities[question]
        return [
            Source(
                self.chunks[index].text,
                self.chunks[index].article.replace("_", " "),
                float(np.clip(values[index], 0, 1)) if similarity else None,
            )
            for index in passages
        ]

    def holds_answer(self, question: int, chunk: int) -> bool:
        """Whether a chunk contains an answer to an answerable question."""
        return any(True for _ in self.spans_in(question, chunk))

    def spans_in(self, question: int, chunk: int) -> list[tuple[int, int]]:
        """Returns the positions of a question's answers in a chunk's text."""
        asked, piece = self.asked[question], self.chunks[chunk]
        if not asked.answerable or piece.paragraph != asked.paragraph:
            return []
        end = piece.start + len(piece.text)
        return [
            (start - piece.start, start - piece.start + len(answer))
            for start, answer in asked.spans
            if piece.start <= start and start + len(answer) <= end
        ]


def load_sets(data: Path, limit: int | None, seed: int) -> dict[str, QuestionSet]:
    """Loads SQuAD 2.0, ClapNQ and XQuAD; at most `limit` questions of each, drawn with `seed`."""
    loaders = {
        "squad": _squad(data / "qa-squad2" / "squad2-dev-half-a.json.gz"),
        "clapnq": _clapnq(data / "qa-clapnq"),
        "xquad-es": _xquad(data / "retrieval-xquad" / "es"),
    }
    sets: dict[str, QuestionSet] = {}
    for name, (chunks, asked) in loaders.items():
        if limit is not None and len(asked) > limit:
            sample = np.random.default_rng(seed).permutation(len(asked))[:limit]
            asked = [asked[int(index)] for index in sorted(sample)]
        titled = [f"{chunk.article.replace('_', ' ')}\n{chunk.text}" for chunk in chunks]
        vectors = embed(titled + [entry.text for entry in asked])
        similarities = vectors[len(chunks) :] @ vectors[: len(chunks)].T
        shares = _shares(titled, [element.text for element in asked])
        sets[name] = QuestionSet(name, tuple(chunks), tuple(asked), similarities, shares)
    return sets


def _shares(texts: Sequence[str], questions: Sequence[str]) -> NDArray[np.float32]:
    """BM25 of the retriever's terms, divided by the score of a text with all the question's words many times."""
    holding: dict[int, list[tuple[int, float]]] = {}
    for place, text in enumerate(texts):
        for term, weight in weigh_chunk(text).items():
            holding.setdefault(term, []).append((place, weight))
    shares = np.zeros((len(questions), len(texts)), np.float32)
    for number, question in enumerate(questions):
        ideal = 0.0
        for term, count in count_question(question).items():
            result = holding.get(term, [])
            rarity = count * math.log1p((len(texts) - len(result) + 0.5) / (len(result) + 0.5))
            ideal += rarity
            for place, weight in result:
                shares[number, place] += rarity * weight
        shares[number] /= ideal or 1.0
    return shares


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embeds texts with the built-in model and caches the vectors."""
    digest = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:16]
    path = CACHE / f"minilm-{digest}.npy"
    if not path.exists():
        CACHE.mkdir(exist_ok=True)
        np.save(path, asyncio.run(_embed(texts)))
    return np.load(path)


async def _embed(texts: Sequence[str]) -> NDArray[np.float32]:
    model = open_model(EmbedderSettings(port=0, metrics_port=0, auth="off"))
    try:
        await model.load()
        vectors = np.zeros((len(texts), model.info.space.dimensions), np.float32)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(order), 8):
            batch = order[start : start + 8]
            vectors[batch] = await model.embed(await model.tokenise([texts[index] for index in batch], Purpose.QUERY))
            if start % 800 == 0:
                print(f"embedding: {start} of {len(texts)}", flush=True)
        return vectors
    finally:
        await model.close()


def _cut(text: str, article: str, paragraph: int) -> list[Chunk]:
    """Splits a paragraph at ends of sentences; a short one stays whole."""
    if len(text) <= CHUNK:
        return [Chunk(text, article, paragraph, 0)]
    chunks: list[Chunk] = []
    start = end = 0
    for unit in split_units(text):
        if unit.end - start > CHUNK and end > start:
            chunks.append(Chunk(text[start:end], article, paragraph, start))
            start = unit.start
        end = unit.end
    return [*chunks, Chunk(text[start:], article, paragraph, start)]


def _squad(path: Path) -> tuple[list[Chunk], list[GoldQuestion]]:
    raw: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    chunks: list[Chunk] = []
    asked: list[GoldQuestion] = []
    number = 0
    for article in raw["data"]:
        for paragraph in article["paragraphs"]:
            chunks += _cut(paragraph["context"], article["title"], number)
            for qa in paragraph["qas"]:
                spans = tuple((answer["answer_start"], answer["text"]) for answer in qa["answers"])
                asked.append(GoldQuestion(qa["question"], article["title"], number, not qa["is_impossible"], spans))
            number += 1
    return chunks, asked


def _clapnq(folder: Path) -> tuple[list[Chunk], list[GoldQuestion]]:
    chunks: list[Chunk] = []
    asked: list[GoldQuestion] = []
    number = 0
    for name in ("answerable", "unanswerable"):
        lines = gzip.decompress((folder / f"clapnq_dev_{name}_a.jsonl.gz").read_bytes()).decode().splitlines()
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            passage = row["passages"][0]
            chunks += _cut(passage["text"], passage["title"], number)
            gold: set[str] = {element for output in row["output"] for element in output.get("selected_sentences", ())}
            spans = tuple((passage["text"].find(entry), entry) for entry in sorted(gold) if entry in passage["text"])
            asked.append(GoldQuestion(row["input"], passage["title"], number, name == "answerable", spans))
            number += 1
    return chunks, asked


def _xquad(folder: Path) -> tuple[list[Chunk], list[GoldQuestion]]:
    corpus = [json.loads(line) for line in gzip.decompress((folder / "corpus.jsonl.gz").read_bytes()).splitlines()]
    queries = [json.loads(line) for line in gzip.decompress((folder / "queries.jsonl.gz").read_bytes()).splitlines()]
    numbers = {row["_id"]: index for index, row in enumerate(corpus)}
    chunks = [chunk for index, row in enumerate(corpus) for chunk in _cut(row["text"], row["title"], index)]
    gold: dict[str, int] = {}
    for table in (folder / "qrels").glob("*.tsv"):
        for line in table.read_text("utf-8").splitlines()[1:]:
            query, document, _ = line.split("\t")
            gold[query] = numbers[document]
    # The set gives only the paragraph, so the whole paragraph counts as the answer.
    asked = [
        GoldQuestion(
            row["text"], corpus[gold[row["_id"]]]["title"], gold[row["_id"]], answerable=True, spans=((0, ""),)
        )
        for row in queries
    ]
    return chunks, asked
