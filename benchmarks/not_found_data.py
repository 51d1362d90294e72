"""Question sets as libraries: complete paragraphs, with answerable and unanswerable questions."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETS = ("squad", "clapnq", "xquad-es")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the paragraph that it was written for."""

    text: str
    article: str
    paragraph: str
    answerable: bool


@dataclass(frozen=True, slots=True)
class Library:
    """A set: all stored paragraphs and all questions."""

    name: str
    paragraphs: tuple[tuple[str, str], ...]
    """Article and text."""
    asked: tuple[Question, ...]

    @property
    def collection(self) -> str:
        """The collection of its paragraphs."""
        return f"bench-{self.name}"


def read_library(name: str, data: Path) -> Library | None:
    """Reads a set of `SETS`; None if its files aren't there."""
    readers = {
        "squad": lambda: _squad(data / "qa-squad2" / "squad2-dev-half-a.json.gz"),
        "clapnq": lambda: _clapnq(data / "qa-clapnq"),
        "xquad-es": lambda: _xquad(data / "retrieval-xquad" / "es"),
    }
    try:
        asked, stored = readers[name]()
    except FileNotFoundError:
        return None
    paragraphs = dict.fromkeys([*((entry.article, entry.paragraph) for entry in asked), *stored])
    return Library(name, tuple(paragraphs), tuple(asked))


def _squad(path: Path) -> tuple[list[Question], list[tuple[str, str]]]:
    raw: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    asked: list[Question] = []
    stored: list[tuple[str, str]] = []
    for article in raw["data"]:
        title = article["title"].replace("_", " ")
        for paragraph in article["paragraphs"]:
            stored.append((title, paragraph["context"]))
            asked += [
                Question(qa["question"], title, paragraph["context"], not qa["is_impossible"])
                for qa in paragraph["qas"]
            ]
    return asked, stored


def _clapnq(folder: Path) -> tuple[list[Question], list[tuple[str, str]]]:
    asked: list[Question] = []
    for name in ("answerable", "unanswerable"):
        for row in _lines(folder / f"clapnq_dev_{name}_a.jsonl.gz"):
            passage = row["passages"][0]
            asked.append(Question(row["input"], passage["title"], passage["text"], name == "answerable"))
    return asked, []


def _xquad(folder: Path) -> tuple[list[Question], list[tuple[str, str]]]:
    corpus = {row["_id"]: row for row in _lines(folder / "corpus.jsonl.gz")}
    gold: dict[str, str] = {}
    for table in sorted((folder / "qrels").glob("*.tsv")):
        for line in table.read_text("utf-8").splitlines()[1:]:
            query, document, _ = line.split("\t")
            gold[query] = document
    asked: list[Question] = []
    for row in _lines(folder / "queries.jsonl.gz"):
        result = corpus[gold[row["_id"]]]
        asked.append(Question(row["text"], result["title"] or result["_id"], result["text"], answerable=True))
    return asked, [(row["title"] or row["_id"], row["text"]) for row in corpus.values()]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines() if line]
