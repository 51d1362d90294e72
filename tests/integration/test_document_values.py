"""The table of a library's labels: its counts stay correct through every change, and prefixes are looked up."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import psycopg

from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.model import Scope
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning
from corpus_rows import CorpusRows, NewDocument, set_tenant

if TYPE_CHECKING:
    from databases import Database

VECTORS = np.eye(3, dtype=np.float32)[:1]
KINDS = ("restaurant", "Restaurants", "recipe", "", "x" * 200)
TAGS = ("AI", "rust", "été", "食")


def labels(kind: str, tags: list[str]) -> dict[str, object]:
    return {"metadata": {"entity_type": kind, "category": ["no", "text"]} if kind else {}, "tags": tags}


def stored_values(database: Database) -> Counter[tuple[str, str, str, str]]:
    with psycopg.connect(database.owner_dsn) as connection:
        return Counter(
            {
                (org, owner, field, value): documents
                for org, owner, field, value, documents in connection.execute(
                    "SELECT org_id, owner, field, value, documents FROM corpus.document_values"
                )
            }
        )


def fresh_values(database: Database) -> Counter[tuple[str, str, str, str]]:
    values: Counter[tuple[str, str, str, str]] = Counter()
    with psycopg.connect(database.owner_dsn) as connection:
        for org, owner, type_, tags, metadata in connection.execute(
            "SELECT org_id, owner, type, tags, metadata FROM corpus.documents WHERE live_version IS NOT NULL"
        ):
            values[org, owner, "type", type_] += 1
            values.update((org, owner, "tags", tag) for tag in set(tags))
            kind = metadata.get("entity_type")
            if isinstance(kind, str) and 1 <= len(kind) <= 128:
                values[org, owner, "entity_type", kind] += 1
    return values


def test_labels_are_counted_with_every_change(database: Database) -> None:
    chance = random.Random(3)
    with CorpusRows(database.owner_dsn, dimensions=3) as rows:
        documents: list[int] = []
        for number in range(60):
            fields = labels(chance.choice(KINDS), chance.choices(TAGS, k=2))
            org, owner = chance.choice(("acme", "other")), chance.choice(("user", "bob"))
            document_id, _ = rows.add(NewDocument(org, VECTORS, owner=owner, live=number % 5 > 0, **fields))  # type: ignore[arg-type] # fields of two types
            documents.append(document_id)
        assert stored_values(database) == fresh_values(database)
        for document_id in documents[::2]:
            fields = labels(chance.choice(KINDS), chance.choices(TAGS, k=2))
            rows.run(
                "UPDATE corpus.documents SET tags = %s, metadata = %s::jsonb WHERE document_id = %s",
                (fields["tags"], json.dumps(fields["metadata"]), document_id),
            )
        rows.run("UPDATE corpus.documents SET live_version = NULL WHERE document_id = %s", (documents[1],))
        rows.run("UPDATE corpus.documents SET owner = 'eve', type = 'article' WHERE document_id = %s", (documents[2],))
        rows.run("DELETE FROM corpus.documents WHERE document_id = ANY(%s)", (documents[30:40],))
        assert stored_values(database) == fresh_values(database)
        rows.run("DELETE FROM corpus.documents")
        assert not stored_values(database)


async def test_labels_are_found_by_their_beginnings_and_by_owner(database: Database) -> None:
    with CorpusRows(database.owner_dsn, dimensions=3) as rows:
        rows.add(NewDocument("acme", VECTORS, collection="Elan", **labels("restaurant", ["été", "rust"])))  # type: ignore[arg-type] # fields of two types
        rows.add(NewDocument("acme", VECTORS, owner="bob", **labels("Restaurants", ["reste"])))  # type: ignore[arg-type] # fields of two types
        rows.add(NewDocument("other", VECTORS, **labels("resort", ["食"])))  # type: ignore[arg-type] # fields of two types
    pool = await open_pool(database.dsn("citewire_corpus"), max_size=2, name="test")
    try:
        store = PostgresSearch(pool, SearchTuning())
        everything = await store.values(Tenant("acme", "user", "pro"), Scope(), ["re", "Re", "et", "El", "食"])
        assert set(everything) == {
            ("entity_type", "restaurant"), ("entity_type", "Restaurants"), ("tags", "reste"), ("tags", "été"),
            ("collection", "Elan"),
        }  # fmt: skip
        own = await store.values(Tenant("acme", "bob", "pro"), Scope(own=True), ["re", "Re", "et", "El"])
        assert set(own) == {("entity_type", "Restaurants"), ("tags", "reste")}
        assert await store.values(Tenant("acme", "user", "pro"), Scope(), []) == []
    finally:
        await pool.close()


def test_labels_are_looked_up_by_their_index(database: Database) -> None:
    with psycopg.connect(database.owner_dsn) as connection:
        connection.execute(
            "INSERT INTO corpus.document_values (org_id, owner, field, value, documents)"
            " SELECT 'acme', 'user', 'tags', md5(n::text), 1 FROM generate_series(1, 20000) AS n"
        )
        connection.execute("ANALYZE corpus.document_values")
    with psycopg.connect(database.dsn("citewire_corpus")) as connection:
        set_tenant(connection, "acme")
        plan = "\n".join(
            row[0]
            for row in connection.execute(
                "EXPLAIN SELECT field, value FROM corpus.document_values"
                " WHERE org_id = 'acme' AND initials = ANY(ARRAY['ab', 'AB']) GROUP BY field, value"
            )
        )
    assert "document_values_by_initials" in plan
