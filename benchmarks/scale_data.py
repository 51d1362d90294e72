"""The large search benchmark's database: 200,000 chunks of 100 tenants of skewed size, in an embedded Postgres.

It is loaded with COPY, with the statistics that the triggers would have counted, and can be kept in a
folder, so that only the first run takes minutes. Measurements taken during loading are kept with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import psycopg

from benchmarks.scale_texts import MixedDocument, Source, draw_source, load_source, mix
from benchmarks.search_data import DIMENSIONS, SPACE
from citewire_kit.migrate import migrate
from citewire_retriever.filters import Operator, comparison
from citewire_retriever.lexical import weigh_chunk
from citewire_retriever.model import Scope
from citewire_retriever.store.vectors import sparse_vector
from corpus_rows import COUNT_ACCESSES
from embedded_postgres import EmbeddedPostgres, start_embedded_postgres

DATABASE: Final = "scale"
TENANTS: Final = 100
PER_DOCUMENT: Final = 8
SHARES: Final = {"1 %": 1, "10 %": 10, "50 %": 50}
JUDGED: Final = ("org1", "org7")
"""Tenants with the judged library: the largest, with 33,000 other chunks, and one with little else."""
_BY_TERM: Final = (
    "CREATE INDEX lexical_by_term ON corpus.lexical USING gin (corpus.term_keys(org_id, terms)) WITH (fastupdate = off)"
)
_VERSION: Final = "1"
_SPAN: Final = 1_000_000
_SERVER: Final = {
    "shared_buffers": "3GB",
    "effective_cache_size": "6GB",
    "maintenance_work_mem": "1GB",
    "max_wal_size": "8GB",
}


@dataclass(frozen=True, slots=True)
class ScaleData:
    """The server and its content."""

    server: EmbeddedPostgres
    sizes: dict[str, int]
    """Chunks of each organisation, largest first."""
    source: Source
    loading: dict[str, float]
    """Measurements taken during loading: seconds and bytes by name."""

    def dsn(self, role: str) -> str:
        """The connection string of a role."""
        return self.server.dsn(role, DATABASE)


def filters() -> dict[str, dict[str, Scope]]:
    """Scopes by kind and share: `collection` follows subjects, so all chunks near the question may be outside."""
    return {
        "collection (one subject)": {name: Scope(collection=f"share{share}") for name, share in SHARES.items()},
        "tag": {
            name: Scope(filter=comparison("filter", "tags", Operator.CONTAINS, f"share{share}"))
            for name, share in SHARES.items()
        },
        "metadata": {
            name: Scope(filter=comparison("filter", "metadata.place", Operator.LT, share))
            for name, share in SHARES.items()
        },
    }


@contextlib.contextmanager
def loaded(chunks: int, keep: Path | None, *, drawn: bool = False) -> Generator[ScaleData]:
    """Starts the server with about `chunks` chunks; loads them unless `keep` already contains them.

    `drawn` uses random vectors instead of embedding the data sets' texts, which takes minutes if they aren't cached.
    """
    source = draw_source() if drawn else load_source()
    shares = np.array([1 / rank for rank in range(1, TENANTS + 1)])
    sizes = {f"org{rank}": int(size) for rank, size in enumerate(shares / shares.sum() * chunks, start=1)}
    note = keep / f"loaded-{chunks}{'-drawn' if drawn else ''}-{_VERSION}.json" if keep else None
    with start_embedded_postgres(settings=_SERVER, keep=keep) as server:
        if note and note.exists():
            loading = json.loads(note.read_text(encoding="utf-8"))
            _migrate(server)
        else:
            server.drop_database(DATABASE)
            server.create_database(DATABASE)
            _migrate(server)
            loading = _load(server.dsn(database=DATABASE), sizes, source)
            if note:
                note.write_text(json.dumps(loading), encoding="utf-8")
        yield ScaleData(server, sizes, source, loading)


def _migrate(server: EmbeddedPostgres) -> None:
    asyncio.run(migrate(server.dsn(database=DATABASE), schema="corpus", package="citewire_retriever"))


def documents_of(org: str, size: int, source: Source) -> Iterator[MixedDocument]:
    """The documents of one organisation, always the same ones."""
    number = int(org.removeprefix("org"))
    random = np.random.default_rng(number)
    if org in JUDGED and size >= len(source.judged.texts):
        for place, text in enumerate(source.judged.texts):
            yield MixedDocument((text,), source.judged.vectors[place : place + 1], place / len(source.judged.texts))
        yield from mix(source.general, size - len(source.judged.texts), PER_DOCUMENT, random)
    else:
        yield from mix(source.science if number % 2 else source.general, size, PER_DOCUMENT, random)


def _load(dsn: str, sizes: dict[str, int], source: Source) -> dict[str, float]:
    measured: dict[str, float] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "SELECT corpus.ensure_space(%s, %s, %s)", (SPACE.model, SPACE.revision, DIMENSIONS)
        ).fetchone()
        assert row is not None
        vectors = f"corpus.vectors_{row[0]}"
        graph = f"{vectors}_by_likeness"
        definition = connection.execute("SELECT pg_get_indexdef(%s::regclass)", (graph,)).fetchone()
        assert definition is not None
        connection.execute(f"DROP INDEX {graph}".encode())
        connection.execute("DROP INDEX corpus.lexical_by_term")
        connection.execute("CREATE TABLE bench_words (org_id text, chunk_id bigint, words tsvector)")
        begun = time.perf_counter()
        for org, size in sizes.items():
            _Loader(connection, org, int(row[0]), vectors).load(documents_of(org, size, source))
            print(f"  loaded {org}: {size:,} chunks, {time.perf_counter() - begun:.0f} s", flush=True)
        connection.execute(COUNT_ACCESSES)
        connection.execute("SET maintenance_work_mem = '2GB'")
        begun = time.perf_counter()
        connection.execute(str(definition[0]).replace(" ON ONLY ", " ON ").encode())
        measured["graph build, s"] = time.perf_counter() - begun
        begun = time.perf_counter()
        connection.execute(_BY_TERM)
        measured["index by term, s"] = time.perf_counter() - begun
        connection.execute(
            "INSERT INTO bench_words SELECT org_id, chunk_id, to_tsvector('english', text) FROM corpus.chunks"
        )
        connection.execute("CREATE INDEX bench_words_gin ON bench_words USING gin (words)")
        connection.execute("CREATE INDEX ON bench_words (org_id, chunk_id)")
        connection.execute("VACUUM ANALYZE")
    return measured


@dataclass(slots=True)
class _Loader:
    """Stores one organisation's documents."""

    connection: psycopg.Connection
    org: str
    space_id: int
    vectors: str
    counts: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])

    def load(self, documents: Iterator[MixedDocument]) -> None:
        number = int(self.org.removeprefix("org"))
        first = number * _SPAN
        random = np.random.default_rng(10_000 + number)
        rows: list[tuple[object, ...]] = []
        chunks: list[tuple[object, ...]] = []
        terms: list[tuple[object, ...]] = []
        points: list[tuple[object, ...]] = []
        chunk_id = first
        for place, made in enumerate(documents, start=first):
            share = _share(made.subject)
            collection = number * 1000 + share if share else None
            drawn = [float(value) for value in random.random(2) * 100]
            tags = [f"share{most}" for most in SHARES.values() if drawn[0] < most]
            size = len(made.texts)
            metadata = json.dumps({"place": int(drawn[1])})
            row = (self.org, place, collection, "user", "file", f"Document {place}", True, tags, metadata, 1)
            rows.append((*row, size, 180 * size))
            for index, (text, vector) in enumerate(zip(made.texts, made.vectors, strict=True)):
                key = (self.org, chunk_id, place, 1)
                digest = hashlib.sha256(text.encode()).digest()
                chunks.append((*key, index, text, 180, digest, 0, len(text)))
                weights = weigh_chunk(text)
                self.counts.update((term, collection or 0) for term in (0, *weights))
                terms.append((*key, sparse_vector(weights).to_text()))
                points.append((*key, "[" + ",".join(f"{value:.5g}" for value in vector) + "]"))
                chunk_id += 1
        self._write(number, rows, chunks, terms, points)

    def _write(
        self,
        number: int,
        rows: list[tuple[object, ...]],
        chunks: list[tuple[object, ...]],
        terms: list[tuple[object, ...]],
        points: list[tuple[object, ...]],
    ) -> None:
        with self.connection.transaction():
            self.connection.execute("SET LOCAL session_replication_role = replica")
            self.connection.execute(
                "INSERT INTO corpus.org_spaces (org_id, live_space_id) VALUES (%s, %s)", (self.org, self.space_id)
            )
            named = [(self.org, number * 1000 + share, f"share{share}") for share in SHARES.values()]
            self._copy("collections (org_id, collection_id, name)", named)
            self._copy(
                "documents (org_id, document_id, collection_id, owner, type, title, title_given, tags, metadata,"
                " live_version, live_chunks, live_tokens)",
                rows,
            )
            self.connection.execute(
                "INSERT INTO corpus.versions (org_id, document_id, version, status, size_bytes, sha256)"
                " SELECT org_id, document_id, 1, 'ready', 1, sha256('x') FROM corpus.documents WHERE org_id = %s",
                (self.org,),
            )
            ids = "(org_id, chunk_id, document_id, version"
            self._copy(f"chunks {ids}, chunk_index, text, token_count, content_hash, char_start, char_end)", chunks)
            self._copy(f"lexical {ids}, terms)", terms)
            self._copy(f"{self.vectors.removeprefix('corpus.')} {ids}, embedding)", points)
            rows = [(self.org, term, collection, count) for (term, collection), count in self.counts.items()]
            self._copy("term_counts (org_id, term, collection_id, chunks)", rows)

    def _copy(self, target: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self.connection.cursor().copy(f"COPY corpus.{target} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)


def _share(subject: float) -> int:
    """The collection of a document: one for the first hundredth of subjects, one for the next tenth, one for a half."""
    if subject < 0.01:
        return 1
    if subject < 0.11:
        return 10
    return 50 if subject < 0.61 else 0
