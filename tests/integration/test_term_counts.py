"""The statistics of lexical search stay what they would be if they were counted anew, whatever happens to documents."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest

from citewire_retriever.ingest.chunks import Chunk
from citewire_retriever.ingest.ports import Publication
from citewire_retriever.lexical import weigh_chunk
from citewire_retriever.model import Space
from corpus_rows import CorpusRows, NewDocument
from ingest_world import ACME, World

if TYPE_CHECKING:
    from conftest import Database

WORDS = ("measles", "garden", "water", "spring", "city", "children", "книга", "日本語")
COLLECTIONS = ("", "One", "Two")
Counts = dict[tuple[str, int, int], int]


def kept(database: Database) -> Counts:
    """The counts as they are, zeros aside."""
    with psycopg.connect(database.owner_dsn) as connection:
        rows = connection.execute(
            "SELECT org_id, term, collection_id, chunks FROM corpus.term_counts WHERE chunks <> 0"
        )
        return {(org, term, collection): chunks for org, term, collection, chunks in rows}


def counted_anew(database: Database) -> Counts:
    """The counts of what is live, made from the chunks' texts."""
    counts: Counter[tuple[str, int, int]] = Counter()
    with psycopg.connect(database.owner_dsn) as connection:
        for org, collection, text in connection.execute(
            "SELECT d.org_id, coalesce(d.collection_id, 0), c.text FROM corpus.documents d JOIN corpus.chunks c"
            " ON c.org_id = d.org_id AND c.document_id = d.document_id AND c.version = d.live_version"
        ):
            counts.update((org, term, collection) for term in (0, *weigh_chunk(text)))
    return dict(counts)


def test_counts_equal_fresh_ones_after_random_changes_at_once(database: Database) -> None:
    failures: list[BaseException] = []

    def guarded(seed: int) -> None:
        try:
            _change_at_random(database, seed)
        except BaseException as exc:  # noqa: BLE001 # a thread's failure is the test's
            failures.append(exc)

    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    counts = kept(database)
    assert counts == counted_anew(database)
    assert len(counts) > 10
    assert min(counts.values()) > 0


def _change_at_random(database: Database, seed: int) -> None:
    """Puts, replaces, moves and deletes documents of two organisations, which other threads do as well."""
    choose = random.Random(seed)
    mine: list[tuple[str, int, int]] = []

    def texts() -> list[str]:
        return [" ".join(choose.choices(WORDS, k=choose.randint(1, 6))) for _ in range(choose.randint(1, 4))]

    with CorpusRows(database.owner_dsn, dimensions=2) as corpus:
        for _ in range(60):
            action = choose.choice(("put", "put", "replace", "move", "delete"))
            if action == "put" or not mine:
                made = texts()
                org = choose.choice(("acme", "other"))
                document = NewDocument(
                    org, np.ones((len(made), 2), np.float32), texts=made, collection=choose.choice(COLLECTIONS)
                )
                mine.append((org, corpus.add(document)[0], 1))
                continue
            place = choose.randrange(len(mine))
            org, document_id, version = mine[place]
            if action == "delete":
                corpus.run("DELETE FROM corpus.documents WHERE org_id = %s AND document_id = %s", (org, document_id))
                del mine[place]
            elif action == "move":
                corpus.run(
                    "UPDATE corpus.documents SET collection_id = (SELECT collection_id FROM corpus.collections"
                    " WHERE org_id = %s AND name = %s) WHERE org_id = %s AND document_id = %s",
                    (org, choose.choice(COLLECTIONS), org, document_id),
                )
            else:
                made = texts()
                corpus.add_version(
                    org, document_id, version + 1, np.ones((len(made), 2), np.float32), texts=made, with_vectors=False
                )
                corpus.publish(org, document_id, version + 1, chunks=len(made), tokens=len(made))
                corpus.one("SELECT corpus.drop_vectors(%s, %s, %s)", (org, document_id, version))
                mine[place] = (org, document_id, version + 1)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_deleted_document_leaves_nothing_counted(database: Database, collection: str) -> None:
    with CorpusRows(database.owner_dsn, dimensions=2) as corpus:
        corpus.add(NewDocument("acme", np.ones((1, 2), np.float32), texts=["garden"], collection=collection))
        assert set(kept(database).values()) == {1}
        corpus.run("DELETE FROM corpus.documents")
        assert kept(database) == {}


async def test_ingest_stores_terms_and_publishing_counts_them(database: Database) -> None:
    async with World.open(database) as world:
        table = await world.worker.ensure_space(Space("m", "r", 2))
        document_id = None
        for version, text in enumerate(("gardens in spring", "water"), start=1):
            document_id = await world.upload("a.txt", "x", tenant=ACME, document_id=document_id)
            job = await world.worker.claim("ingest", worker="w", lease_seconds=60, served=())
            assert job is not None
            await world.worker.begin(job)
            await world.worker.stage(job, table, [_chunk(text)], np.ones((1, 2), np.float32), 1)
            if version == 1:
                assert kept(database) == {}  # staged is not live
            await world.worker.publish(job, Publication(None, "text/plain", None, 1, 1, table, keep_seconds=60))
            # Title and section are found too.
            expected = {0, *weigh_chunk(f"Title > Section\n{text}")}
            assert kept(database) == {("acme", term, 0): 1 for term in expected}
        cursor = await world.owner.execute("SELECT version FROM corpus.lexical")
        assert [row["version"] for row in await cursor.fetchall()] == [2]


def _chunk(text: str) -> Chunk:
    digest = hashlib.sha256(text.encode()).digest()
    return Chunk(0, text, 1, digest, "", None, None, None, None, 0, len(text), "Title > Section")
