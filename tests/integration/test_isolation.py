"""Other tenants' rows displace no results: 50 own chunks among 20,000 nearer foreign ones, during writes to both."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from citewire.retriever.v1.retriever_pb2 import Chunk, SearchResult

from citewire_kit.postgres import Pool, open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.filters import Operator, comparison
from citewire_retriever.model import Candidate, Scope, SearchMode, SearchQuery
from citewire_retriever.service.retrieval import RetrievalService
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.snapshots import SearchSnapshot
from citewire_retriever.tuning import SearchTuning
from corpus_rows import CorpusRows, NewDocument, Vectors
from search_library import DIMENSIONS, clustered, fill, partition_mate, query

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import ProofScale

OWN, FOREIGN, EACH = 50, 20_000, 5
TENANT = Tenant("acme", "user", "pro")
QUESTION = "Where is the beacon?"
TUNINGS = {
    "default": SearchTuning(),
    "always the indexes": SearchTuning(
        exact_chunks=0, exact_chunks_per_candidate=0, max_scan_tuples=4000, lexical_scan_chunks=0
    ),
}
SCOPES = {
    "whole": Scope(),
    "tag": Scope(filter=comparison("filter", "tags", Operator.CONTAINS, "third")),
    "collection": Scope(collection="Half"),
}


@dataclass(frozen=True, slots=True)
class OwnChunks:
    """The 50 chunks; their texts identify them, as these stay the same when a document is ingested again."""

    vectors: Vectors
    texts: tuple[str, ...]
    target: Vectors
    rounds: dict[str, int]
    """How often each of the two tenants has been written to."""

    def nearest(self, keep: str) -> list[str]:
        """Returns the ten nearest texts of a scope, by numpy."""
        scores: list[float] = (self.vectors @ self.target).tolist()
        order = sorted(range(OWN), key=lambda place: -scores[place])
        return [self.texts[place] for place in order if _in_scope(place // EACH, keep)][:10]

    def best_by_words(self, keep: str) -> list[str]:
        """Returns the ten texts of a scope that have the word most often."""
        return [self.texts[place] for place in reversed(range(OWN)) if _in_scope(place // EACH, keep)][:10]


def _in_scope(document: int, keep: str) -> bool:
    return {"whole": True, "tag": document % 3 == 0, "collection": document % 2 == 0}[keep]


@pytest.fixture
def own_chunks(database: Database) -> Iterator[OwnChunks]:
    """Adds all chunks, and keeps writing to both tenants until the test ends."""
    random = np.random.default_rng(19)
    target = clustered(random, 1)[0]
    crowd = (target + 0.15 * random.normal(size=(FOREIGN, DIMENSIONS))).astype(np.float32)
    far = (-target + 0.5 * random.normal(size=(OWN, DIMENSIONS))).astype(np.float32)
    far /= np.linalg.norm(far, axis=1, keepdims=True)
    texts = tuple(f"{'beacon ' * (place + 1)}own{place}" for place in range(OWN))
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as rows:
        mate = partition_mate("acme", rows.dsn)
        with rows.bulk(coarse=True):
            fill(rows, mate, crowd, each=2000, texts=["beacon " * 60] * 2000)
        documents: list[int] = []
        for number in range(OWN // EACH):
            part = slice(number * EACH, (number + 1) * EACH)
            document = NewDocument(
                "acme",
                far[part],
                texts=texts[part],
                tags=["third"] if number % 3 == 0 else [],
                collection="Half" if number % 2 == 0 else "",
            )
            documents.append(rows.add(document)[0])
    made = OwnChunks(far, texts, target, {"own": 0, "foreign": 0})
    with _running_writes(database, made, documents, mate, crowd):
        yield made


@pytest.fixture
async def pool(database: Database) -> Pool:
    return await open_pool(database.dsn("citewire_corpus"), name="test")


@contextmanager
def _running_writes(
    database: Database, own_chunks: OwnChunks, documents: list[int], mate: str, crowd: Vectors
) -> Generator[None]:
    """Ingests own documents again, and adds and deletes farther own ones and nearer foreign ones."""
    stop = threading.Event()
    rounds = own_chunks.rounds
    failures: list[BaseException] = []

    def guarded(name: str) -> None:
        try:
            with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as rows:
                while not stop.is_set():
                    rounds[name] += 1
                    if name == "own":
                        _ingest_again(rows, own_chunks, documents, rounds[name])
                    else:
                        _replace_foreign(rows, mate, crowd, rounds[name])
        except BaseException as exc:  # noqa: BLE001 # a thread's failure is the test's
            failures.append(exc)

    threads = [threading.Thread(target=guarded, args=(name,)) for name in rounds]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []


def _ingest_again(rows: CorpusRows, own_chunks: OwnChunks, documents: list[int], number: int) -> None:
    """Publishes a new version of one document with the same content, in one transaction as ingest does."""
    place = number % len(documents)
    part = slice(place * EACH, (place + 1) * EACH)
    version = rows.scalar(
        "SELECT max(version) FROM corpus.versions WHERE org_id = 'acme' AND document_id = %s", (documents[place],)
    )
    rows.add_version("acme", documents[place], version + 1, own_chunks.vectors[part], texts=own_chunks.texts[part])
    rows.run("BEGIN")
    rows.publish("acme", documents[place], version + 1, chunks=EACH, tokens=EACH)
    rows.scalar("SELECT corpus.drop_vectors('acme', %s, %s)", (documents[place], version))
    rows.run("COMMIT")
    rows.run(
        "DELETE FROM corpus.versions WHERE org_id = 'acme' AND document_id = %s AND version = %s",
        (documents[place], version),
    )
    # Own chunks that come and go, farther away than the 50 and without the word.
    farthest = -own_chunks.target[np.newaxis] * np.ones((3, 1), np.float32)
    passing = rows.add(NewDocument("acme", farthest, texts=["passing"] * 3))[0]
    rows.run("DELETE FROM corpus.documents WHERE org_id = 'acme' AND document_id = %s", (passing,))


def _replace_foreign(rows: CorpusRows, mate: str, crowd: Vectors, number: int) -> None:
    start = number * 20 % (len(crowd) - 20)
    made = rows.add(NewDocument(mate, crowd[start : start + 20], texts=["beacon " * 60] * 20))[0]
    if number % 2:
        rows.run("DELETE FROM corpus.documents WHERE org_id = %s AND document_id = %s", (mate, made))


def texts_of(
    given: Sequence[Candidate | SearchResult], chunks: Mapping[int, Chunk] = MappingProxyType({})
) -> list[str]:
    """Returns the results' texts; candidates' texts come from `chunks`."""
    whole = [
        candidate.chunk or chunks[candidate.chunk_id] if isinstance(candidate, Candidate) else candidate.chunk
        for candidate in given
    ]
    assert {chunk.text.partition(" ")[0] for chunk in whole} <= {"beacon"}
    return [chunk.text for chunk in whole]


def candidate_ids(snapshot: SearchSnapshot) -> list[int]:
    return [candidate.chunk_id for candidate in (*snapshot.ranked, *snapshot.lexical)]


async def test_all_ten_are_found_during_writes_to_both(
    own_chunks: OwnChunks, pool: Pool, database: Database, proof: ProofScale
) -> None:
    _check_foreign_chunks_are_nearer_and_on_the_same_graph(own_chunks, database)
    times = proof.pick(scaled_down=5, full=50)
    for tuning in TUNINGS.values():
        store = PostgresSearch(pool, tuning)
        service = RetrievalService(store)
        for keep, scope in SCOPES.items():
            nearest, by_words = own_chunks.nearest(keep), own_chunks.best_by_words(keep)
            assert len(nearest) == len(by_words) == 10
            dense = query(own_chunks.target, scope=scope)
            hybrid = replace(dense, mode=SearchMode.HYBRID, text=QUESTION)
            lexical = SearchQuery(scope, mode=SearchMode.LEXICAL, text=QUESTION)
            again, written = 0, min(own_chunks.rounds.values())
            while again < times or min(own_chunks.rounds.values()) < written + 1:
                again += 1
                _check_same_but_for_two(texts_of((await store.search(TENANT, dense)).ranked), nearest)
                both = await store.search(TENANT, hybrid, candidate_ids)
                _check_same_but_for_two(texts_of(both.ranked, both.chunks), nearest)
                assert texts_of(both.lexical, both.chunks) == by_words
                assert texts_of((await service.search(TENANT, lexical)).results) == by_words
                answer = await service.search(TENANT, hybrid)
                exact = await service.search(TENANT, replace(hybrid, exact=True))
                assert len(answer.results) == 10
                assert texts_of(answer.results) == texts_of(exact.results)
    await pool.close()
    assert min(own_chunks.rounds.values()) > 5


def _check_same_but_for_two(results: list[str], expected: list[str]) -> None:
    """Checks that these are the expected ten; half precision may swap two at the end."""
    assert len(results) == 10
    assert len(set(results) & set(expected)) >= 9
    assert results[0] == expected[0]


def _check_foreign_chunks_are_nearer_and_on_the_same_graph(own_chunks: OwnChunks, database: Database) -> None:
    with psycopg.connect(database.owner_dsn) as connection:
        rows = connection.execute(
            "SELECT v.org_id, v.tableoid::regclass::text, min(v.embedding <=> %(target)s::halfvec),"
            " max(v.embedding <=> %(target)s::halfvec) FROM corpus.vectors_1 v GROUP BY 1, 2",
            {"target": "[" + ",".join(str(value) for value in own_chunks.target) + "]"},
        ).fetchall()
    (acme,), (mate,) = ([row for row in rows if (row[0] == "acme") is mine] for mine in (True, False))
    assert acme[1] == mate[1]
    assert mate[3] < acme[2]
