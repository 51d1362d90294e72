"""Tenants of skewed size with vectors like those of embeddings, in an embedded Postgres, for the search benchmark."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import psycopg

from citewire_kit.migrate import migrate
from citewire_retriever.model import Space
from corpus_rows import COUNT_ACCESSES, MODEL, REVISION, CorpusRows, Vectors
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres

DIMENSIONS = 384
SPACE = Space(MODEL, REVISION, DIMENSIONS)
TENANTS = 60
CHUNKS_PER_DOCUMENT = 20
TAGS = 7
_DATABASE = "bench"
_LATENT = 48
_TEXT = "A chunk of about the usual length, so that rows are as wide as they are in life. " * 9


@dataclass(frozen=True, slots=True)
class Data:
    """The server and its content."""

    server: EmbeddedPostgres
    sizes: dict[str, int]
    """Chunks of each organisation, largest first."""

    def dsn(self, role: str) -> str:
        """Connection string of a role."""
        return self.server.dsn(role, _DATABASE)


@contextlib.contextmanager
def loaded(chunks: int) -> Generator[Data]:
    """Starts a server and stores about `chunks` chunks, always the same ones.

    Sizes of organisations are proportional to 1/rank^1.1. Vectors are points around 400 centres in 48 dimensions,
    mapped to 384 with some noise: neighbourhoods are as clear and as crowded as a text model's.
    """
    settings = {"shared_buffers": "512MB", "maintenance_work_mem": "1GB", "max_wal_size": "8GB"}
    with start_embedded_postgres(settings=settings) as server:
        server.create_database(_DATABASE)
        asyncio.run(migrate(server.dsn(database=_DATABASE), schema="corpus", package="citewire_retriever"))
        shares = np.array([1 / rank**1.1 for rank in range(1, TENANTS + 1)])
        sizes = {f"org{rank}": int(size) for rank, size in enumerate(shares / shares.sum() * chunks)}
        data = Data(server, sizes)
        with CorpusRows(data.dsn("postgres"), dimensions=DIMENSIONS) as rows:
            with rows.bulk():
                for number, (org, size) in enumerate(sizes.items()):
                    _put(data.dsn("postgres"), rows.space_id, number, org, size)
            rows.run("VACUUM ANALYZE")
        yield data


def sample(number: int, count: int, *, noise: float = 0.3) -> Vectors:
    """Vectors drawn from the same space as the chunks'."""
    shape = np.random.default_rng(1)
    basis = shape.normal(size=(_LATENT, DIMENSIONS))
    centres = shape.normal(size=(400, _LATENT))
    random = np.random.default_rng(1000 + number)
    points = 0.8 * centres[random.integers(0, len(centres), count)] + random.normal(size=(count, _LATENT))
    vectors = points @ basis + noise * np.sqrt(_LATENT) * random.normal(size=(count, DIMENSIONS))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _put(dsn: str, space_id: int, number: int, org: str, size: int) -> None:
    """Stores one organisation's documents and chunks with COPY."""
    documents = -(-size // CHUNKS_PER_DOCUMENT)
    first_document, first_chunk = number * 1_000_000 + 1, number * 10_000_000 + 1
    with psycopg.connect(dsn) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "INSERT INTO corpus.documents (org_id, document_id, owner, type, title, title_given, live_version,"
            " live_chunks, live_tokens, tags)"
            " SELECT %s, %s + n, 'user', 'file', 'Document ' || n, true, 1, least(%s, %s - n * %s), 3600,"
            " ARRAY['tag' || n %% %s] FROM generate_series(0, %s - 1) n",
            (org, first_document, CHUNKS_PER_DOCUMENT, size, CHUNKS_PER_DOCUMENT, TAGS, documents),
        )
        connection.execute(
            "INSERT INTO corpus.versions (org_id, document_id, version, status, size_bytes, sha256)"
            " SELECT org_id, document_id, 1, 'ready', 1, sha256('x') FROM corpus.documents WHERE org_id = %s",
            (org,),
        )
        connection.execute("INSERT INTO corpus.org_spaces (org_id, live_space_id) VALUES (%s, %s)", (org, space_id))
        connection.execute(
            "INSERT INTO corpus.chunks (org_id, chunk_id, document_id, version, chunk_index, text, token_count,"
            " content_hash, char_start, char_end)"
            " SELECT %s, %s + n, %s + n / %s, 1, n %% %s, %s || n, 180, sha256('x'), 0, 700"
            " FROM generate_series(0, %s - 1) n",
            (org, first_chunk, first_document, CHUNKS_PER_DOCUMENT, CHUNKS_PER_DOCUMENT, _TEXT, size),
        )
        with connection.cursor().copy(
            f"COPY corpus.vectors_{space_id} (org_id, chunk_id, document_id, version, embedding) FROM STDIN".encode()
        ) as copy:
            for index, vector in enumerate(sample(number, size)):
                document_id = first_document + index // CHUNKS_PER_DOCUMENT
                copy.write_row((org, first_chunk + index, document_id, 1, literal(vector)))
        connection.execute(COUNT_ACCESSES)


def literal(vector: Vectors) -> str:
    """A vector in pgvector's format."""
    return "[" + ",".join(f"{value:.5g}" for value in vector) + "]"
