"""Inserts published documents directly into schema corpus, for tests and benchmarks of search without an ingest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from citewire_retriever.lexical import weigh_chunk
from citewire_retriever.store.vectors import sparse_vector

Vectors = NDArray[np.float32]
MODEL, REVISION = "test-model", "r1"
COUNT_ACCESSES = b"""
    INSERT INTO corpus.access_counts (org_id, access_id, documents, chunks)
    SELECT org_id, coalesce(access_id, collection_id, 0), count(*), sum(live_chunks)
    FROM corpus.documents WHERE live_version IS NOT NULL GROUP BY 1, 2
    ON CONFLICT (org_id, access_id) DO UPDATE SET documents = excluded.documents, chunks = excluded.chunks
"""
"""The counts that the triggers would have made, for documents inserted without them."""


CHECK_BACKFILL = (
    b"INSERT INTO corpus.backfill_checks (org_id) VALUES (%s) ON CONFLICT (org_id) DO UPDATE SET next_at = now()"
)
"""Done for an organisation with a new space by a trigger on one Postgres, and by the stores on a cluster."""


def is_spread(connection: psycopg.Connection[Any]) -> bool:
    """Whether the database is distributed over nodes."""
    row = connection.execute("SELECT to_regprocedure('citewire.set_local(text[], text[])') IS NOT NULL").fetchone()
    return row is not None and bool(row[0])


def set_tenant(connection: psycopg.Connection[Any], org: str, **caller: str) -> None:
    """Sets the tenant of a transaction like the kit, also in a distributed database.

    Args:
        connection: In the transaction.
        org: The organisation.
        caller: Further fields of the caller: `user_id`, `role`, `groups`.
    """
    given = {f"citewire.{key}": value for key, value in {"org_id": org, **caller}.items()}
    if is_spread(connection):
        connection.execute("SELECT citewire.set_local(%s::text[], %s::text[])", (list(given), list(given.values())))
    else:
        for name, value in given.items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to insert; `vectors` has a row per chunk."""

    org: str
    vectors: Vectors
    title: str = "Title"
    owner: str = "user"
    type: str = "file"
    file_name: str = "file.txt"
    url: str = ""
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    collection: str = ""
    live: bool = True
    tokens: int = 10
    """Tokens of each chunk."""
    texts: Sequence[str] = ()
    """The chunks' texts, if lexical search should find them."""
    created_at: datetime | None = None


class CorpusRows:
    """Writes as the owner of the database, a superuser, to whom row-level security doesn't apply."""

    def __init__(self, dsn: str, *, dimensions: int, model: str = MODEL, revision: str = REVISION) -> None:
        self.dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True)
        self.dimensions = dimensions
        self._spread = is_spread(self._connection)
        try:
            self.space_id = self.add_space(model, revision, dimensions)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self._connection.closed and not self._connection.broken:
                # As autovacuum does within a minute: until then Postgres guesses, and may plan what takes 50 times as
                # long.
                self._connection.execute("ANALYZE corpus.documents, corpus.versions, corpus.chunks, corpus.lexical")
        finally:
            self._connection.close()

    def add_space(self, model: str, revision: str, dimensions: int) -> int:
        """Registers a space and returns its id."""
        return self.scalar("SELECT corpus.ensure_space(%s, %s, %s)", (model, revision, dimensions))

    def point(self, org: str, live: int | None = None, previous: int | None = None) -> None:
        """Sets an organisation's live and previous space."""
        self.run(
            "INSERT INTO corpus.org_spaces (org_id, live_space_id, previous_space_id) VALUES (%s, %s, %s)"
            " ON CONFLICT (org_id) DO UPDATE SET live_space_id = excluded.live_space_id,"
            " previous_space_id = excluded.previous_space_id",
            (org, live or self.space_id, previous),
        )
        if self._spread:
            self._connection.execute(CHECK_BACKFILL, (org,))

    def add(self, document: NewDocument, *, with_vectors: bool = True) -> tuple[int, list[int]]:
        """Inserts a document with one version; returns its id and its chunks' ids in order."""
        self.point(document.org)
        collection_id = None
        if document.collection:
            self.run(
                "INSERT INTO corpus.collections (org_id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (document.org, document.collection),
            )
            collection_id = self.scalar(
                "SELECT collection_id FROM corpus.collections WHERE org_id = %s AND name = %s",
                (document.org, document.collection),
            )
        count = len(document.vectors)
        document_id = self.scalar(
            "INSERT INTO corpus.documents (org_id, owner, type, title, title_given, file_name, url, tags, metadata,"
            " collection_id, created_at)"
            " VALUES (%s, %s, %s, %s, true, %s, %s, %s, %s::jsonb, %s, coalesce(%s, now())) RETURNING document_id",
            (
                document.org,
                document.owner,
                document.type,
                document.title,
                document.file_name,
                document.url,
                list(document.tags),
                json.dumps(document.metadata),
                collection_id,
                document.created_at,
            ),
        )
        chunk_ids = self.add_version(
            document.org,
            document_id,
            1,
            document.vectors,
            tokens=document.tokens,
            with_vectors=with_vectors,
            texts=document.texts,
        )
        if document.live:
            self.publish(document.org, document_id, 1, chunks=count, tokens=count * document.tokens)
        return document_id, chunk_ids

    def add_version(
        self,
        org: str,
        document_id: int,
        version: int,
        vectors: Vectors,
        *,
        tokens: int = 10,
        with_vectors: bool = True,
        texts: Sequence[str] = (),
    ) -> list[int]:
        """Inserts a version's chunks and their vectors without publishing it."""
        self.run(
            "INSERT INTO corpus.versions (org_id, document_id, version, size_bytes, sha256, media_type)"
            " VALUES (%s, %s, %s, 1, %s, 'text/plain')",
            (org, document_id, version, hashlib.sha256(b"x").digest()),
        )
        # One by one, as another connection may take ids in between.
        chunk_ids = [self.scalar("SELECT nextval('corpus.chunk_ids')") for _ in vectors]
        with (
            self._connection.cursor() as cursor,
            cursor.copy(
                "COPY corpus.chunks (org_id, chunk_id, document_id, version, chunk_index, text, token_count,"
                " content_hash, section, place, char_start, char_end) FROM STDIN"
            ) as copy,
        ):
            for index, chunk_id in enumerate(chunk_ids):
                text = (
                    texts[index] if texts else f"Chunk {index} of version {version} of document {document_id} of {org}."
                )
                digest = hashlib.sha256(text.encode()).digest()
                copy.write_row(
                    (
                        org,
                        chunk_id,
                        document_id,
                        version,
                        index,
                        text,
                        tokens,
                        digest,
                        "A > B",
                        f'{{"page": {index + 1}}}',
                        0,
                        len(text),
                    )
                )
        if texts:
            self._add_terms(org, document_id, version, chunk_ids, texts)
        if with_vectors:
            self.add_vectors(org, document_id, version, chunk_ids, vectors)
        return chunk_ids

    def add_vectors(
        self,
        org: str,
        document_id: int,
        version: int,
        chunk_ids: Sequence[int],
        vectors: Vectors,
        *,
        space_id: int | None = None,
    ) -> None:
        """Inserts vectors of existing chunks."""
        statement = sql.SQL("COPY {} (org_id, chunk_id, document_id, version, embedding) FROM STDIN").format(
            sql.Identifier("corpus", f"vectors_{space_id or self.space_id}")
        )
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for chunk_id, vector in zip(chunk_ids, vectors, strict=True):
                literal = "[" + ",".join(f"{value:.6g}" for value in vector) + "]"
                copy.write_row((org, chunk_id, document_id, version, literal))

    def _add_terms(
        self, org: str, document_id: int, version: int, chunk_ids: Sequence[int], texts: Sequence[str]
    ) -> None:
        with (
            self._connection.cursor() as cursor,
            cursor.copy("COPY corpus.lexical (org_id, chunk_id, document_id, version, terms) FROM STDIN") as copy,
        ):
            for chunk_id, text in zip(chunk_ids, texts, strict=True):
                copy.write_row((org, chunk_id, document_id, version, sparse_vector(weigh_chunk(text)).to_text()))

    @contextmanager
    def bulk(self, *, coarse: bool = False) -> Generator[None]:
        """Builds the graph after the block's insertions: a build is much faster than as many insertions.

        A coarse graph is built even faster, but finds less.
        """
        index = f"corpus.vectors_{self.space_id}_by_likeness"
        row = self._connection.execute("SELECT pg_get_indexdef(%s::regclass)", (index,)).fetchone()
        assert row is not None
        self._connection.execute(f"DROP INDEX {index}".encode())
        self._connection.execute("SET session_replication_role = replica")  # the inserted rows refer to existing ones
        yield
        self._connection.execute("SET session_replication_role = origin")
        definition = str(row[0]).replace(" ON ONLY ", " ON ")
        if coarse:
            definition = definition.partition(" WITH ")[0] + " WITH (m = 6, ef_construction = 16)"
        self._connection.execute(definition.encode())
        self._connection.execute(COUNT_ACCESSES)
        self._connection.execute("ANALYZE")

    def publish(self, org: str, document_id: int, version: int, *, chunks: int, tokens: int) -> None:
        """Makes a version the live one."""
        self.run(
            "UPDATE corpus.versions SET status = 'ready', chunks = %s, tokens = %s, finished_at = now()"
            " WHERE org_id = %s AND document_id = %s AND version = %s",
            (chunks, tokens, org, document_id, version),
        )
        self.run(
            "UPDATE corpus.documents SET live_version = %s, latest_version = greatest(latest_version, %s),"
            " live_chunks = %s, live_tokens = %s WHERE org_id = %s AND document_id = %s",
            (version, version, chunks, tokens, org, document_id),
        )

    def run(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Executes a statement."""
        self._connection.execute(statement.encode(), values)

    def all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement."""
        return self._connection.execute(statement.encode(), values).fetchall()

    def scalar(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Returns the single number in a statement's single row."""
        row = self._connection.execute(statement.encode(), values).fetchone()
        assert row is not None
        return int(row[0])
