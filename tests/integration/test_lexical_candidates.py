"""A search by terms finds the same as a scan: the same chunks, scores and order."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from psycopg import sql

from citewire_kit.migrate import migrate
from citewire_kit.postgres import Pool, open_pool
from citewire_kit.tenant import Tenant
from citewire_retriever.filters import Operator, comparison
from citewire_retriever.model import Scope, SearchMode, SearchQuery
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.tuning import SearchTuning
from corpus_rows import CorpusRows, NewDocument, set_tenant
from proof_scale import ProofScale

if TYPE_CHECKING:
    from databases import Database

BY_SCAN, BY_TERMS = SearchTuning(lexical_scan_chunks=10**9), SearchTuning(lexical_scan_chunks=0)
TENANT = Tenant("acme", "user", "pro")
SCOPES = {
    "whole": Scope(),
    "collection": Scope(collection="Half"),
    "few": Scope(filter=comparison("filter", "metadata.place", Operator.LT, 3)),
}


def words(random: np.random.Generator, count: int) -> str:
    """Draws words as often as in natural language, by their rank."""
    ranks = np.minimum(random.zipf(1.3, count), 3000)
    return " ".join(f"w{rank}x" for rank in ranks)


def fill_texts(rows: CorpusRows, org: str, seed: int, documents: int) -> None:
    random = np.random.default_rng(seed)
    for place in range(documents):
        texts = [words(random, int(random.integers(5, 60))) for _ in range(int(random.integers(1, 6)))]
        rows.add(
            NewDocument(
                org,
                np.ones((len(texts), 2), np.float32),
                texts=texts,
                collection="Half" if place % 2 else "",
                metadata={"place": place % 100},
                live=place % 17 != 0,
            ),
            with_vectors=False,
        )


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    with CorpusRows(database.owner_dsn, dimensions=2) as rows:
        fill_texts(rows, "acme", 1, 400)
        fill_texts(rows, "other", 2, 100)
    pool = await open_pool(database.dsn("citewire_corpus"), name="test")
    yield pool
    await pool.close()


async def test_both_find_the_same(pool: Pool, proof: ProofScale) -> None:
    random = np.random.default_rng(3)
    by_scan, by_terms = PostgresSearch(pool, BY_SCAN), PostgresSearch(pool, BY_TERMS)
    rounds, found_any = proof.pick(scaled_down=4, full=10), 0
    for (name, scope), by_document, top_k in itertools.product(SCOPES.items(), (False, True), (1, 10, 100)):
        for _ in range(rounds):
            text = words(random, int(random.integers(1, 15)))
            query = SearchQuery(scope, mode=SearchMode.LEXICAL, text=text, top_k=top_k, by_document=by_document)
            scanned, looked_up = await by_scan.search(TENANT, query), await by_terms.search(TENANT, query)
            assert [(candidate.chunk_id, candidate.lexical_score) for candidate in looked_up.lexical] == [
                (candidate.chunk_id, candidate.lexical_score) for candidate in scanned.lexical
            ], (name, by_document, text)
            exact = await by_terms.search(TENANT, replace(query, exact=True))
            assert exact.lexical == scanned.lexical
            found_any += bool(looked_up.lexical)
    assert found_any > 10 * rounds
    for text in ("", "?", "unheard of", "w1x " * 300):
        query = SearchQuery(Scope(), mode=SearchMode.LEXICAL, text=text)
        scanned = await by_scan.search(TENANT, query)
        assert (await by_terms.search(TENANT, query)).lexical == scanned.lexical


async def test_the_function_gives_nothing_without_a_tenant_and_nothing_of_others(
    pool: Pool, database: Database
) -> None:
    del pool
    asked = "SELECT count(*) FROM corpus.lexical_matches(%s::integer[], '{1:1}/1000000000'::sparsevec, 0)"
    with psycopg.connect(database.owner_dsn) as owner:
        terms = owner.execute("SELECT array_agg(DISTINCT term) FROM corpus.term_counts WHERE term > 0").fetchone()
        counts = dict(owner.execute("SELECT org_id, count(*) FROM corpus.lexical GROUP BY org_id").fetchall())
    assert terms is not None
    with psycopg.connect(database.dsn("citewire_corpus")) as connection:
        assert connection.execute(asked, (terms[0],)).fetchone() == (0,)
        for org, count in {**counts, "nobody": 0}.items():
            set_tenant(connection, org)
            assert connection.execute(asked, (terms[0],)).fetchone() == (count,)
    with psycopg.connect(database.dsn("citewire_worker")) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(asked, (terms[0],))


async def test_an_owner_that_is_bound_by_policies_uses_the_index(empty_database: Database) -> None:
    """In production the owner isn't a superuser; only its own policy lets the plan use the index."""
    with psycopg.connect(empty_database.owner_dsn, autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector")
        admin.execute("DROP ROLE IF EXISTS lexical_owner")
        admin.execute("CREATE ROLE lexical_owner LOGIN NOSUPERUSER CREATEROLE NOBYPASSRLS")
        admin.execute(
            sql.SQL("GRANT CREATE ON DATABASE {} TO lexical_owner").format(sql.Identifier(empty_database.name))
        )
    await migrate(empty_database.dsn("lexical_owner"), schema="corpus", package="citewire_retriever")
    with psycopg.connect(empty_database.dsn("lexical_owner")) as owner:
        owner.execute("SELECT set_config('citewire.org_id', 'acme', false)")
        owner.execute("SET enable_seqscan = off")
        owner.execute("DROP INDEX corpus.lexical_by_document")
        owner.execute("ALTER TABLE corpus.lexical DROP CONSTRAINT lexical_pkey")
        plan = owner.execute(
            "EXPLAIN SELECT l.chunk_id FROM corpus.lexical l"
            " WHERE l.org_id = 'acme' AND corpus.term_keys(l.org_id, l.terms) && '{1,2}'::bigint[]"
        ).fetchall()
    text = "\n".join(row[0] for row in plan)
    assert "Bitmap Index Scan on lexical_by_term" in text
    with psycopg.connect(empty_database.owner_dsn, autocommit=True) as admin:
        admin.execute("DROP OWNED BY lexical_owner CASCADE")
        admin.execute("DROP ROLE lexical_owner")
