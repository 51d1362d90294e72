"""The statistics of lexical search always equal a fresh count, whatever happens to documents."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from citewire.common.v1.place_pb2 import Place

from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.model import Job, LeaseLostError, Publication
from citewire_retriever.lexical import weigh_chunk
from citewire_retriever.model import Space
from corpus_rows import CorpusRows, NewDocument
from ingest_harness import ACME, IngestHarness

if TYPE_CHECKING:
    from databases import Database

WORDS = ("measles", "garden", "water", "spring", "city", "children", "книга", "日本語")
COLLECTIONS = ("", "One", "Two")
Counts = dict[tuple[str, int, int], int]


def stored_counts(database: Database) -> Counts:
    """Returns the stored counts without zeros."""
    with psycopg.connect(database.owner_dsn) as connection:
        rows = connection.execute(
            "SELECT org_id, term, collection_id, chunks FROM corpus.term_counts WHERE chunks <> 0"
        )
        return {(org, term, collection): chunks for org, term, collection, chunks in rows}


def fresh_counts(database: Database) -> Counts:
    """Counts the terms of live chunks from their texts."""
    counts: Counter[tuple[str, int, int]] = Counter()
    with psycopg.connect(database.owner_dsn) as connection:
        for org, collection, text in connection.execute(
            "SELECT d.org_id, coalesce(d.collection_id, 0), c.text FROM corpus.documents d JOIN corpus.chunks c"
            " ON c.org_id = d.org_id AND c.document_id = d.document_id AND c.version = d.live_version"
        ):
            counts.update((org, term, collection) for term in (0, *weigh_chunk(text)))
    return dict(counts)


@pytest.mark.parametrize("first_seed", range(3))
def test_counts_equal_fresh_ones_after_random_parallel_changes(database: Database, first_seed: int) -> None:
    failures: list[BaseException] = []

    def guarded(seed: int) -> None:
        try:
            _change_at_random(database, seed)
        except BaseException as exc:  # noqa: BLE001 # a thread's failure is the test's
            failures.append(exc)

    threads = [threading.Thread(target=guarded, args=(3 * first_seed + number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    counts = stored_counts(database)
    assert counts == fresh_counts(database)
    assert len(counts) > 10
    assert min(counts.values()) > 0


@dataclass(slots=True)
class _OwnDocument:
    """A document that only one thread changes."""

    org: str
    document_id: int
    live: int = 1
    staged: int | None = None
    """A version whose ingest failed before it was published."""


def _change_at_random(database: Database, seed: int) -> None:
    """Changes documents of two organisations in every possible way, in parallel to other threads."""
    choose = random.Random(seed)
    own_documents: list[_OwnDocument] = []
    with CorpusRows(database.owner_dsn, dimensions=2) as corpus:
        actions: dict[str, Callable[[CorpusRows, random.Random, _OwnDocument], None]] = {
            "replace": _replace,
            "stage and fail": _stage,
            "retry": _retry,
            "publish and roll back": _roll_back,
            "forget the failed": _forget,
            "move": _move,
        }
        for _ in range(60):
            action = choose.choice(("put", "put", "put", "delete", *actions))
            if action == "put" or not own_documents:
                made = _texts(choose)
                org = choose.choice(("acme", "other"))
                vectors = np.ones((len(made), 2), np.float32)
                document = NewDocument(org, vectors, texts=made, collection=choose.choice(COLLECTIONS))
                own_documents.append(_OwnDocument(org, corpus.add(document)[0]))
            elif action == "delete":
                gone = own_documents.pop(choose.randrange(len(own_documents)))
                corpus.run(
                    "DELETE FROM corpus.documents WHERE org_id = %s AND document_id = %s", (gone.org, gone.document_id)
                )
            else:
                actions[action](corpus, choose, choose.choice(own_documents))


def _texts(choose: random.Random) -> list[str]:
    return [" ".join(choose.choices(WORDS, k=choose.randint(1, 6))) for _ in range(choose.randint(1, 4))]


def _replace(corpus: CorpusRows, choose: random.Random, own: _OwnDocument) -> None:
    _stage(corpus, choose, own)
    _publish(corpus, own)


def _stage(corpus: CorpusRows, choose: random.Random, own: _OwnDocument) -> None:
    """Stages chunks and terms of a new version, after removing those of an earlier attempt."""
    _forget(corpus, choose, own)
    made = _texts(choose)
    own.staged = own.live + 1
    vectors = np.ones((len(made), 2), np.float32)
    corpus.add_version(own.org, own.document_id, own.staged, vectors, texts=made, with_vectors=False)


def _retry(corpus: CorpusRows, choose: random.Random, own: _OwnDocument) -> None:
    """Stages and publishes a failed version after all."""
    if own.staged is not None:
        _replace(corpus, choose, own)


def _roll_back(corpus: CorpusRows, choose: random.Random, own: _OwnDocument) -> None:
    if own.staged is not None:
        corpus.run("BEGIN")
        corpus.publish(own.org, own.document_id, own.staged, chunks=1, tokens=1)
        corpus.run("ROLLBACK")
    corpus.run("BEGIN")
    corpus.run("DELETE FROM corpus.documents WHERE org_id = %s AND document_id = %s", (own.org, own.document_id))
    corpus.run("ROLLBACK" if choose.random() < 0.9 else "ABORT")


def _forget(corpus: CorpusRows, choose: random.Random, own: _OwnDocument) -> None:
    del choose
    if own.staged is not None:
        corpus.run(
            "DELETE FROM corpus.versions WHERE org_id = %s AND document_id = %s AND version = %s",
            (own.org, own.document_id, own.staged),
        )
        own.staged = None


def _move(corpus: CorpusRows, choose: random.Random, own: _OwnDocument) -> None:
    corpus.run(
        "UPDATE corpus.documents SET collection_id = (SELECT collection_id FROM corpus.collections"
        " WHERE org_id = %s AND name = %s) WHERE org_id = %s AND document_id = %s",
        (own.org, choose.choice(COLLECTIONS), own.org, own.document_id),
    )


def _publish(corpus: CorpusRows, own: _OwnDocument) -> None:
    """Publishes the new version; the previous one loses its terms, or keeps them until it is swept."""
    assert own.staged is not None
    before, own.live, own.staged = own.live, own.staged, None
    corpus.publish(own.org, own.document_id, own.live, chunks=1, tokens=1)
    corpus.scalar("SELECT corpus.drop_vectors(%s, %s, %s)", (own.org, own.document_id, before))


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_deleted_document_leaves_nothing_counted(database: Database, collection: str) -> None:
    with CorpusRows(database.owner_dsn, dimensions=2) as corpus:
        corpus.add(NewDocument("acme", np.ones((1, 2), np.float32), texts=["garden"], collection=collection))
        assert set(stored_counts(database).values()) == {1}
        corpus.run("DELETE FROM corpus.documents")
        assert stored_counts(database) == {}


async def test_failed_and_repeated_attempts_are_counted_once(database: Database) -> None:
    """One worker stages and fails, another stages and loses its claim, a third publishes; then the second tries to."""
    async with IngestHarness.open(database) as harness:
        table = await harness.worker.ensure_space(Space("m", "r", 2))
        ones = np.ones((1, 2), np.float32)
        publication = Publication(None, "text/plain", None, 1, 1, table, keep_seconds=60)
        await harness.upload("a.txt", "x", tenant=ACME)
        lost: Job | None = None
        for text in ("garden", "water"):
            job = await harness.worker.claim("ingest", worker="w", lease_seconds=0)
            assert job is not None
            await harness.worker.begin(job)
            await harness.worker.clear(job)
            await harness.worker.stage(job, table, [_chunk(text)], ones, 1)
            if lost is None:
                await harness.worker.retry(job, delay_seconds=0)
            else:
                assert await harness.worker.requeue_expired() == 1
            assert stored_counts(database) == {}
            lost = job
        job = await harness.worker.claim("ingest", worker="v", lease_seconds=60)
        assert job is not None
        assert lost is not None
        await harness.worker.begin(job)
        await harness.worker.clear(job)
        await harness.worker.stage(job, table, [_chunk("city children")], ones, 1)
        await harness.worker.publish(job, publication)
        with pytest.raises(LeaseLostError):
            await harness.worker.publish(lost, publication)
        counts = stored_counts(database)
        assert counts == {("acme", term, 0): 1 for term in (0, *weigh_chunk("Title > Section\ncity children"))}
        with psycopg.connect(database.owner_dsn) as connection:
            assert connection.execute("SELECT count(*) FROM corpus.lexical").fetchone() == (1,)


async def test_ingest_stores_terms_and_publishing_counts_them(database: Database) -> None:
    async with IngestHarness.open(database) as harness:
        table = await harness.worker.ensure_space(Space("m", "r", 2))
        document_id = None
        for version, text in enumerate(("gardens in spring", "water"), start=1):
            document_id = await harness.upload("a.txt", "x", tenant=ACME, document_id=document_id)
            job = await harness.worker.claim("ingest", worker="w", lease_seconds=60)
            assert job is not None
            await harness.worker.begin(job)
            await harness.worker.stage(job, table, [_chunk(text)], np.ones((1, 2), np.float32), 1)
            if version == 1:
                assert stored_counts(database) == {}  # staged is not live
            await harness.worker.publish(job, Publication(None, "text/plain", None, 1, 1, table, keep_seconds=60))
            # Title and section are found too.
            expected = {0, *weigh_chunk(f"Title > Section\n{text}")}
            assert stored_counts(database) == {("acme", term, 0): 1 for term in expected}
        cursor = await harness.owner.execute("SELECT version FROM corpus.lexical")
        assert [row["version"] for row in await cursor.fetchall()] == [2]


def _chunk(text: str) -> Chunk:
    digest = hashlib.sha256(text.encode()).digest()
    header = "Title > Section"
    return Chunk(0, text, 1, digest, "", Place(), 0, len(text), verbatim=True, header=header)
