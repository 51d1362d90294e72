"""Ids of documents and chunks don't reveal how much other organisations store."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from databases import Database

FIRST, LAST = 2**52, 2**53 - 1
"""The range of ids: above those of earlier versions, and exact in JSON."""
DRAWN = 4000


def draw(database: Database, role: str, sequence: str, count: int) -> list[int]:
    """Draws ids like a row's default."""
    with psycopg.connect(database.dsn(role), autocommit=True) as connection:
        taken = connection.execute(
            "SELECT corpus.hidden_id(%s::regclass) FROM generate_series(1, %s)", (sequence, count)
        )
        return [int(row[0]) for row in taken.fetchall()]


def test_two_ids_do_not_reveal_what_came_between(database: Database) -> None:
    """The attack: save a document, wait, save another; the ids' difference would be the number of others' documents."""
    guessed = 0
    for others in (1, 5, 25, 125):
        (before,) = draw(database, "citewire_corpus", "corpus.document_ids", 1)
        draw(database, "citewire_corpus", "corpus.document_ids", others)
        (after,) = draw(database, "citewire_corpus", "corpus.document_ids", 1)
        guessed += abs(after - before) <= 2 * others
    assert guessed == 0


def test_ids_are_unique_exact_and_unordered(database: Database) -> None:
    for sequence in ("corpus.document_ids", "corpus.chunk_ids"):
        ids = draw(database, "citewire_worker", sequence, DRAWN)
        assert len(set(ids)) == DRAWN
        assert FIRST <= min(ids) <= max(ids) <= LAST
        assert float(max(ids)) == max(ids)
        rising = sum(later > earlier for earlier, later in itertools.pairwise(ids))
        assert 0.45 < rising / DRAWN < 0.55
        # Neither half of an id counts up by itself.
        for part in ([number >> 26 for number in ids], [number & (2**26 - 1) for number in ids]):
            steps = {later - earlier for earlier, later in itertools.pairwise(part)}
            assert len(steps) > 0.99 * DRAWN


def test_two_sequences_have_different_permutations(database: Database) -> None:
    documents = draw(database, "citewire_corpus", "corpus.document_ids", 100)
    chunks = draw(database, "citewire_corpus", "corpus.chunk_ids", 100)
    assert not set(documents) & set(chunks)


def test_new_rows_use_them_and_old_rows_keep_their_ids(database: Database) -> None:
    insert = (
        "INSERT INTO corpus.documents (org_id, owner, type, title, title_given{})"
        " VALUES ('acme', 'ana', 'file', 't', true{}) RETURNING document_id"
    )
    with psycopg.connect(database.dsn("postgres"), autocommit=True) as connection:
        earlier = connection.execute(
            insert.format(", document_id", ", nextval('corpus.document_ids')").encode()
        ).fetchone()
        later = connection.execute(insert.format("", "").encode()).fetchone()
        count = connection.execute(b"SELECT count(*) FROM corpus.documents").fetchone()
    assert earlier is not None
    assert later is not None
    assert earlier[0] < FIRST <= later[0] <= LAST
    assert count == (2,)
