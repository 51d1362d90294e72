"""Reads data sets in BEIR form: `corpus.jsonl`, `queries.jsonl` (either may be gzipped) and `qrels/SPLIT.tsv`."""

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast


class DatasetError(Exception):
    """The folder doesn't hold a data set in BEIR form."""


@dataclass(frozen=True, slots=True)
class BeirDocument:
    """One document of the corpus."""

    eval_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class BeirDataset:
    """A data set, read whole.

    Attributes:
        name: The folder's name.
        documents: The corpus, in file order.
        queries: Query text by query id; only queries that the split judges.
        qrels: Relevance grade by query id and document id.
        fingerprint: Short hash of the corpus, so that a collection is reused only for the very same documents.
    """

    name: str
    documents: tuple[BeirDocument, ...]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    fingerprint: str

    @classmethod
    def read(cls, folder: Path, split: str) -> "BeirDataset":
        """Reads a folder.

        Raises:
            DatasetError: A file is missing or isn't of the form.
        """
        digest = hashlib.sha256()
        documents: list[BeirDocument] = []
        for row in _rows(_find(folder, "corpus.jsonl")):
            document = BeirDocument(_text(row, "_id"), str(row.get("title") or ""), _text(row, "text"))
            digest.update(json.dumps([document.eval_id, document.title, document.text]).encode())
            documents.append(document)
        qrels = _read_qrels(folder / "qrels" / f"{split}.tsv")
        queries = {
            _text(row, "_id"): _text(row, "text")
            for row in _rows(_find(folder, "queries.jsonl"))
            if _text(row, "_id") in qrels
        }
        missing = qrels.keys() - queries.keys()
        if missing:
            raise DatasetError(f"{folder}: the judgements name queries that queries.jsonl lacks: {sorted(missing)[:3]}")
        return cls(folder.resolve().name, tuple(documents), queries, qrels, digest.hexdigest()[:12])


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise DatasetError(f"{folder}: no {name} or {name}.gz; a data set in BEIR form is expected")


def _rows(path: Path) -> Iterator[dict[str, object]]:
    with path.open("rb") as raw, io.TextIOWrapper(_unpacked(path, raw), encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DatasetError(f"{path}, line {number}: not JSON ({error})") from error
            if not isinstance(row, dict):
                raise DatasetError(f"{path}, line {number}: not a JSON object")
            yield cast("dict[str, object]", row)


def _unpacked(path: Path, raw: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw


def _text(row: dict[str, object], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise DatasetError(f"a row lacks the text field {key!r}: {str(row)[:80]}")
    return value


def _read_qrels(path: Path) -> dict[str, dict[str, int]]:
    if not path.is_file():
        raise DatasetError(f"{path} is missing; --split chooses another")
    qrels: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            try:
                qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
            except (KeyError, ValueError, TypeError) as error:
                raise DatasetError(f"{path}: needs columns query-id, corpus-id, score") from error
    if not qrels:
        raise DatasetError(f"{path} holds no judgement")
    return qrels
