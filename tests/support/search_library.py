"""The data for tests of vector search, and numpy's exact answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

from citewire_retriever.model import Scope, SearchQuery, Space
from corpus_rows import MODEL, REVISION, CorpusRows, NewDocument, Vectors

DIMENSIONS = 32
SPACE = Space(MODEL, REVISION, DIMENSIONS)


def partition_mate(org: str, dsn: str) -> str:
    """The name of another organisation whose vectors share a partition, or a shard, with those of `org`."""
    with psycopg.connect(dsn) as connection:
        spread = connection.execute("SELECT count(*) FROM pg_extension WHERE extname = 'citus'").fetchone()
        if spread is not None and spread[0]:
            row = connection.execute(
                "SELECT 'mate' || n FROM generate_series(1, 1000) n"
                " WHERE get_shard_id_for_distribution_column('corpus.vectors_1', 'mate' || n)"
                "     = get_shard_id_for_distribution_column('corpus.vectors_1', %s::text) LIMIT 1",
                (org,),
            ).fetchone()
            assert row is not None
            return str(row[0])
        row = connection.execute(
            "SELECT 'mate' || n FROM generate_series(1, 1000) n, (SELECT 'corpus.vectors_1'::regclass AS parent) p"
            " WHERE EXISTS (SELECT FROM generate_series(0, 63) r"
            "  WHERE satisfies_hash_partition(p.parent, 64, r, 'mate' || n)"
            "  AND satisfies_hash_partition(p.parent, 64, r, %s::text)) LIMIT 1",
            (org,),
        ).fetchone()
    assert row is not None
    return str(row[0])


@dataclass(frozen=True, slots=True)
class Library:
    """The inserted data, for numpy's search."""

    vectors: Vectors
    """A row per chunk, of length 1."""
    chunk_ids: NDArray[np.int64]
    document_ids: NDArray[np.int64]

    def nearest(self, query: Vectors, top_k: int, keep: NDArray[np.bool_] | None = None) -> list[int]:
        """The exact answer among the rows to keep."""
        scores = self.vectors @ query
        if keep is not None:
            scores = np.where(keep, scores, -np.inf)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [int(self.chunk_ids[index]) for index in order if scores[index] > -np.inf]


def clustered(random: np.random.Generator, count: int) -> Vectors:
    """Vectors distributed like embeddings: around some centres, in fewer dimensions than they have."""
    basis = np.random.default_rng(0).normal(size=(8, DIMENSIONS))
    centres = np.random.default_rng(1).normal(size=(40, 8))
    points = centres[random.integers(0, len(centres), count)] + 0.5 * random.normal(size=(count, 8))
    vectors = points @ basis + 0.1 * random.normal(size=(count, DIMENSIONS))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def fill(rows: CorpusRows, org: str, vectors: Vectors, *, each: int, **fields: Any) -> Library:  # noqa: ANN401 # any type is intended
    """Inserts documents of `each` chunks; every third one has the tag `third`."""
    chunk_ids: list[int] = []
    document_ids: list[int] = []
    for number, start in enumerate(range(0, len(vectors), each)):
        part = vectors[start : start + each]
        tags = ["third"] if number % 3 == 0 else []
        document_id, chunks = rows.add(NewDocument(org, part, tags=tags, **fields))
        chunk_ids += chunks
        document_ids += [document_id] * len(chunks)
    return Library(vectors, np.array(chunk_ids), np.array(document_ids))


def query(vector: Vectors, **fields: Any) -> SearchQuery:  # noqa: ANN401 # any type is intended
    values: dict[str, Any] = {"scope": Scope(), "space": SPACE, **fields}
    return SearchQuery(vector=vector.astype("<f4").tobytes(), **values)
