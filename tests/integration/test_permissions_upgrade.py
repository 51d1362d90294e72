"""A database with data from before permissions: everyone can still read the same after the upgrade."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from citewire_kit import migrate as migrations
from citewire_kit.postgres import open_pool, tenant_transaction
from citewire_kit.tenant import Tenant
from citewire_retriever.model import Changes, DocumentQuery, Scope, SearchMode, SearchQuery
from citewire_retriever.store.documents import PostgresDocuments
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.storage import PostgresStorage
from citewire_retriever.tuning import SearchTuning
from corpus_rows import CorpusRows, NewDocument
from search_library import DIMENSIONS, SPACE, clustered

if TYPE_CHECKING:
    from databases import Database

pytestmark = pytest.mark.one_postgres("it begins before a migration that no cluster is older than")
ROLES = (("owner",), ("admin",), ("editor",), ("member",), ("reader",), ())


async def test_everything_stays_readable(empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    every = migrations.read_migrations("citewire_retriever")
    before = await _migrate_before("0012", empty_database, monkeypatch)
    vectors = clustered(np.random.default_rng(1), 12)
    with CorpusRows(empty_database.owner_dsn, dimensions=DIMENSIONS) as rows:
        ids = [
            rows.add(
                NewDocument(
                    "acme" if place % 3 else "globex",
                    vectors[place][None],
                    title=f"Title {place}",
                    owner=f"user{place % 4}",
                    collection=("", "Payroll", "Wiki")[place % 2 + place % 2 * (place % 5 > 2)],
                    tags=(f"tag{place % 2}",),
                    texts=(f"beacon {place}",),
                )
            )[0]
            for place in range(12)
        ]
        words = rows.all("SELECT org_id, term, sum(chunks) FROM corpus.term_counts GROUP BY 1, 2 ORDER BY 1, 2")
        labels = rows.all("SELECT org_id, field, value, sum(documents) FROM corpus.document_values GROUP BY 1, 2, 3")
        applied = await migrations.migrate(empty_database.owner_dsn, schema="corpus", package="citewire_retriever")
        assert applied == [entry.file for entry in every[len(before) :]]
        assert rows.all("SELECT org_id, term, sum(chunks) FROM corpus.term_counts GROUP BY 1, 2 ORDER BY 1, 2") == words
        values = rows.all("SELECT org_id, field, value, sum(documents) FROM corpus.document_values GROUP BY 1, 2, 3")
        assert sorted(values) == sorted(labels)
        assert rows.scalar("SELECT sum(documents) FROM corpus.access_counts WHERE org_id = 'acme'") == 8
        assert rows.scalar("SELECT sum(chunks) FROM corpus.access_counts WHERE org_id = 'globex'") == 4

    pool = await open_pool(empty_database.dsn("citewire_corpus"), max_size=1, name="test", resolved=VISIBLE)
    documents = PostgresDocuments(pool, PostgresStorage(pool, None), store_seconds=10)
    search = PostgresSearch(pool, SearchTuning())
    acme = {number for place, number in enumerate(ids) if place % 3}
    for roles in ROLES:
        caller = Tenant("acme", "newcomer", "pro", roles)
        listed = await documents.find(caller, DocumentQuery(), None, 100)
        assert {document.document_id for document in listed} == acme, roles
        query = SearchQuery(Scope(), vectors[1].tobytes(), SPACE, text="beacon", mode=SearchMode.HYBRID, top_k=20)
        result = await search.search(caller, query)
        assert not result.hidden
        assert {entry.document_id for entry in result.ranked} == acme, roles
    # Editors can change the same as before.
    changed = await documents.update(
        Tenant("acme", "newcomer", "pro", ("editor",)), max(acme), Changes(title="New", collection="Wiki")
    )
    assert changed is not None
    assert changed.document.title == "New"
    await pool.close()


async def test_what_was_hidden_stays_hidden(empty_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier grants and readers still apply, even where nothing has been ingested yet."""
    await _migrate_before("0016", empty_database, monkeypatch)
    with CorpusRows(empty_database.owner_dsn, dimensions=DIMENSIONS) as rows:
        for org in ("acme", "globex", "initech"):
            rows.run("INSERT INTO corpus.collections (org_id, name) VALUES (%s, 'Payroll')", (org,))
        rows.run(
            "INSERT INTO corpus.collection_grants SELECT org_id, collection_id, 'group:hr', 'read'"
            " FROM corpus.collections WHERE org_id = 'acme'"
        )
        rows.run("SELECT corpus.intern_access('globex', NULL, '{group:hr}')")
        await migrations.migrate(empty_database.owner_dsn, schema="corpus", package="citewire_retriever")
        # And for an organisation that grants later.
        rows.run("SELECT corpus.intern_access('umbrella', NULL, '{group:hr}')")
    pool = await open_pool(empty_database.dsn("citewire_corpus"), max_size=1, name="test", resolved=VISIBLE)
    seen: dict[str, bool] = {}
    for org in ("acme", "globex", "initech", "umbrella"):
        async with tenant_transaction(pool, Tenant(org, "newcomer", "pro", ("editor",))) as connection:
            row = await (await connection.execute("SELECT current_setting('citewire.visible') = 'all'")).fetchone()
        assert row is not None
        seen[org] = row[0]
    await pool.close()
    assert seen == {"acme": False, "globex": False, "initech": True, "umbrella": False}


async def _migrate_before(
    number: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> list[migrations.Migration]:
    """Applies the migrations before one, and returns them."""
    before = [entry for entry in migrations.read_migrations("citewire_retriever") if entry.file < number]

    def earlier(_package: str) -> list[migrations.Migration]:
        return before

    with monkeypatch.context() as patched:
        patched.setattr(migrations, "read_migrations", earlier)
        await migrations.migrate(database.owner_dsn, schema="corpus", package="citewire_retriever")
    return before
