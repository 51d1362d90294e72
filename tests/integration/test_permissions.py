"""Permissions inside an organisation: the database against a model of the rules, and a check of each statement."""

from __future__ import annotations

import importlib.resources
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from psycopg import sql

from citewire_kit.errors import NotFound, PermissionDenied
from citewire_kit.postgres import Pool, open_pool, tenant_transaction
from citewire_kit.queries import load_queries
from citewire_kit.tenant import Tenant
from citewire_retriever.model import Changes, DocumentQuery, Scope, SearchMode, SearchQuery
from citewire_retriever.store.collections import PostgresCollections
from citewire_retriever.store.content import PostgresContent
from citewire_retriever.store.documents import PostgresDocuments
from citewire_retriever.store.filter_sql import VISIBLE
from citewire_retriever.store.search import PostgresSearch
from citewire_retriever.store.statements import fetch
from citewire_retriever.store.storage import PostgresStorage
from citewire_retriever.tuning import SearchTuning
from corpus_rows import CorpusRows, NewDocument, set_tenant
from permission_model import ModelDocument, PermissionModel
from recorded_search import recorded_search
from search_library import DIMENSIONS, SPACE, clustered
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database
    from proof_scale import ProofScale

ORG = "acme"
CALLERS = tuple(
    Tenant(ORG, user, "pro", roles, groups=groups)
    for user, roles, groups in (
        ("alice", ("editor",), ("hr",)),
        ("bob", ("member",), ("dev", "a, b")),
        ("carl", ("reader",), ("hr", "dev")),
        ("dora", ("admin",), ()),
        ("eve", (), ()),
    )
)
ADMIN = CALLERS[3]
SUBJECTS = ("everyone", "group:hr", "group:dev", "group:a, b", "user:bob", "user:eve", "user:carl")
COLLECTIONS = ("Payroll", "Code", "Wiki")
TUNINGS = (
    SearchTuning(statistics_seconds=0.01),
    SearchTuning(exact_chunks=0, exact_chunks_per_candidate=0, lexical_scan_chunks=0, statistics_seconds=30),
)


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores, over one connection."""

    pool: Pool
    documents: PostgresDocuments
    content: PostgresContent
    collections: PostgresCollections
    searches: tuple[PostgresSearch, ...]


ONCE = pytest.mark.one_postgres("the version before, whose policies ask for each row, has run on no cluster")


@pytest.fixture(params=[pytest.param(VISIBLE, id="resolved"), pytest.param(None, id="unresolved", marks=ONCE)])
async def stores(database: Database, request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    # Without it, as in pools of the previous version of the code, policies are evaluated for each row.
    pool = await open_pool(database.dsn("citewire_corpus"), max_size=1, name="test", resolved=request.param)
    storage = PostgresStorage(pool, None)
    yield Stores(
        pool,
        PostgresDocuments(pool, storage, store_seconds=10),
        PostgresContent(pool, storage, store_seconds=10),
        PostgresCollections(pool),
        tuple(PostgresSearch(pool, tuning) for tuning in TUNINGS),
    )
    await pool.close()


class Proof:
    """Makes random grants, readers, moves and deletions; after each, checks what random callers see and may do."""

    def __init__(self, stores: Stores, rows: CorpusRows, choices: random.Random) -> None:
        self.stores = stores
        self.rows = rows
        self.choices = choices
        self.model = PermissionModel()
        self.vectors = clustered(np.random.default_rng(1), 400)
        self.made = 0
        self.checked = 0

    def add(self) -> None:
        place = self.made
        self.made += 1
        owner, label = self.choices.choice(CALLERS).user_id, f"canary{place}"
        collection = self.choices.choice(("", *COLLECTIONS))
        document = NewDocument(
            ORG,
            self.vectors[place % 400 : place % 400 + 1],
            title=label,
            owner=owner,
            collection=collection,
            tags=(label,),
            texts=(f"beacon {label}",),
        )
        number, (chunk_id,) = self.rows.add(document)
        self.model.documents[number] = ModelDocument(number, chunk_id, owner, collection, label)

    async def step(self) -> None:
        while len(self.model.documents) < 25:
            self.add()
        caller = self.choices.choice(CALLERS)
        await self.choices.choice((self.grant, self.set_readers, self.move, self.delete, self.rename))(caller)
        for check in self.choices.sample((self.check_lists, self.check_search, self.check_words, self.check_each), 2):
            await check(self.choices.choice(CALLERS))
            self.checked += 1
        if self.choices.random() < 0.1:  # unused accesses are deleted, and no document loses its own
            await self.stores.documents.erased(ADMIN, (), 0)
            pairs = {(entry.collection, entry.readers) for entry in self.model.documents.values() if entry.readers}
            assert self.rows.scalar("SELECT count(*) FROM corpus.accesses") == len(pairs)

    async def grant(self, caller: Tenant) -> None:
        name = self.choices.choice(COLLECTIONS)
        picked = self.choices.sample(SUBJECTS, self.choices.choice((0, 1, 1, 2)))
        grants = {subject: self.choices.choice(("read", "write", "manage")) for subject in picked}
        access = self.model.access(caller, name)
        try:
            await self.stores.collections.set_grants(caller, name, list(grants.items()))
        except NotFound:
            assert access is None
        except PermissionDenied:
            assert access in ("read", "write")
        else:
            assert access == "manage"
            self.model.grants[name] = grants

    async def set_readers(self, caller: Tenant) -> None:
        readers = self.choices.sample(SUBJECTS, self.choices.choice((0, 1, 2)))
        reader_set = frozenset[str](() if "everyone" in readers else readers)
        document = self.choices.choice(list(self.model.documents.values()))
        changed = replace(document, readers=reader_set)
        await self._change(caller, document, changed, Changes(readers=tuple(readers)))

    async def move(self, caller: Tenant) -> None:
        target = self.choices.choice(("", *COLLECTIONS))
        document = self.choices.choice(list(self.model.documents.values()))
        changed = replace(document, collection=target)
        # To a collection that the caller may write to.
        allowed = self.model.access(caller, target) in ("write", "manage") or target == document.collection
        await self._change(caller, document, changed, Changes(collection=target), allowed=allowed)

    async def _change(
        self, caller: Tenant, document: ModelDocument, changed: ModelDocument, changes: Changes, *, allowed: bool = True
    ) -> None:
        sees, may = self.model.sees(caller, document), self.model.may_change(caller, document)
        try:
            result = await self.stores.documents.update(caller, document.document_id, changes)
        except PermissionDenied:
            assert sees
            assert (
                not may
                or not allowed
                or not self.model.sees(caller, changed)
                or _unwritable(self.model, caller, changed)
            )
        except NotFound:
            assert may
            assert self.model.access(caller, changed.collection) is None
        else:
            assert (result is not None) == sees
            if result is not None:
                assert may
                assert allowed
                self.model.documents[document.document_id] = changed

    async def delete(self, caller: Tenant) -> None:
        document = self.choices.choice(list(self.model.documents.values()))
        sees, may = self.model.sees(caller, document), self.model.may_change(caller, document)
        try:
            deleted = await self.stores.documents.delete(caller, document.document_id)
        except PermissionDenied:
            assert sees
            assert not may
        else:
            assert deleted == sees
            if deleted:
                assert may
                del self.model.documents[document.document_id]

    async def rename(self, caller: Tenant) -> None:
        name = self.choices.choice(COLLECTIONS)
        access = self.model.access(caller, name)
        try:
            await self.stores.collections.update(caller, name, None, False)
        except NotFound:
            assert access is None
        except PermissionDenied:
            assert access in ("read", "write")
        else:
            assert access == "manage"

    async def check_lists(self, caller: Tenant) -> None:
        visible = self.model.visible(caller)
        listed = await self.stores.documents.find(caller, DocumentQuery(), None, 1000)
        assert {document.document_id for document in listed} == visible.keys()
        collections = {
            entry.name: entry.documents for entry in await self.stores.collections.page(caller, "", None, 99)
        }
        names = {name for name in COLLECTIONS if self.model.access(caller, name)}
        assert collections == {
            name: sum(document.collection == name for document in visible.values()) for name in names
        }
        search = self.stores.searches[0]
        snapshot = await search.count(caller, Scope(), 10**6, list_items=True)
        assert snapshot.counts.items == len(visible)
        assert {item.document_id for item in snapshot.items} == visible.keys()
        labels = await search.values(caller, Scope(), ["ca", "Pa", "Co", "Wi"])
        assert {value for field, value in labels if field == "tags"} == {entry.label for entry in visible.values()}
        assert {value for field, value in labels if field == "collection"} == names

    async def check_search(self, caller: Tenant) -> None:
        visible = self.model.visible(caller)
        vector, top_k = self.vectors[self.choices.randrange(400)].tobytes(), self.choices.choice((3, 60))
        for search in self.stores.searches:
            for mode in (SearchMode.DENSE, SearchMode.HYBRID):
                for exact in (False, True):
                    query = SearchQuery(
                        Scope(), vector, SPACE, text="beacon", mode=mode, top_k=top_k, exact=exact, recent=5
                    )
                    seen = await search.search(caller, query)
                    ranked = {entry.document_id for entry in seen.ranked}
                    assert len(ranked) == min(top_k, len(visible))
                    assert ranked | {entry.document_id for entry in seen.lexical} <= visible.keys()
                    assert {entry.document_id for entry in seen.recent} <= visible.keys()

    async def check_words(self, caller: Tenant) -> None:
        visible = self.model.visible(caller)
        for search in self.stores.searches:
            query = SearchQuery(Scope(), text="beacon canary", mode=SearchMode.LEXICAL, top_k=100)
            seen = await search.search(caller, query)
            scored = {entry.document_id for entry in seen.lexical}
            # A word that is only in hidden documents has no weight, even for callers who see the documents.
            assert scored <= visible.keys()
        async with tenant_transaction(self.stores.pool, caller) as connection:
            cursor = await connection.execute("SELECT coalesce(sum(chunks), 0) FROM corpus.term_counts WHERE term = 0")
            row = await cursor.fetchone()
        others = sum(entry.owner != caller.user_id for entry in visible.values())
        assert row is not None
        assert others <= row[0] <= len(visible)

    async def check_each(self, caller: Tenant) -> None:
        visible = self.model.visible(caller)
        search = self.stores.searches[0]
        every = list(self.model.documents.values())
        chunks = await search.chunks(caller, [entry.chunk_id for entry in every])
        assert set(chunks) == {entry.chunk_id for entry in visible.values()}
        await search.search(caller, SearchQuery(Scope(), self.vectors[0].tobytes(), SPACE))  # loads the space's table
        vectors = await search.vectors(caller, SPACE, [entry.chunk_id for entry in every])
        assert set(vectors) == set(chunks)
        for entry in self.choices.sample(every, 5):
            sees = entry.document_id in visible
            read = await self.stores.documents.get(caller, entry.document_id)
            assert (read is not None) == sees
            if read is not None:
                assert (read.document.access == 2) == self.model.may_change(caller, entry)
                assert set(read.document.readers) == entry.readers
            assert (await self.stores.content.find_original(caller, entry.document_id, None) is not None) == sees


def _unwritable(model: PermissionModel, caller: Tenant, document: ModelDocument) -> bool:
    return model.access(caller, document.collection) not in ("write", "manage")


async def test_callers_see_and_do_what_the_model_allows(database: Database, stores: Stores, proof: ProofScale) -> None:
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as rows:
        run = Proof(stores, rows, proof.random())
        for name in COLLECTIONS:
            await stores.collections.create(ADMIN, name, enrich=False)
        steps = proof.pick(scaled_down=50, full=5000)
        for _ in range(steps):
            await run.step()
        assert run.checked == 2 * steps


async def test_an_unrestricted_search_plans_no_sub_select_of_the_policies(database: Database) -> None:
    """With them, the planner read all chunks of an organisation to find ten, and searches took 50 % longer."""
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as rows:
        for vector in clustered(np.random.default_rng(1), 200):
            rows.add(NewDocument(ORG, vector[None]))
        rows.run("ANALYZE")
    plan = await _plan_of_ranking(database, CALLERS[0])
    assert "SubPlan" not in plan
    assert "chunks_pkey" in plan
    assert "documents_pkey" in plan


@pytest.mark.one_postgres("it reads one server's count of functions that were called")
async def test_an_unrestricted_search_calls_no_function_of_the_policies(database: Database) -> None:
    """They took a tenth of the server's time; hidden documents still need them."""
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as rows:
        rows.add(NewDocument("other", clustered(np.random.default_rng(1), 1), texts=("beacon",)))
        rows.run("ALTER ROLE citewire_corpus SET track_functions = 'pl'")
        try:
            for hidden in (False, True):
                if hidden:
                    rows.run("SELECT corpus.intern_access('other', NULL, '{group:hr}')")
                await _search_once(database, replace(CALLERS[0], org_id="other"))
                called = {name for (name,) in rows.all("SELECT funcname FROM pg_stat_user_functions WHERE calls > 0")}
                assert (called & {"visible_setting", "sees_document", "sees_access"} != set()) == hidden
                assert "sees_owned" not in called  # it would run for each document: the policy avoids it
        finally:
            rows.run("ALTER ROLE citewire_corpus RESET track_functions")


async def _search_once(database: Database, caller: Tenant) -> None:
    """Searches over a new connection, and waits until the server has counted the called functions."""
    pool = await open_pool(database.dsn("citewire_corpus"), max_size=1, name="once", resolved=VISIBLE)
    query = SearchQuery(Scope(), clustered(np.random.default_rng(2), 1)[0].tobytes(), SPACE, text="beacon")
    for mode in (SearchMode.DENSE, SearchMode.HYBRID, SearchMode.LEXICAL):
        await PostgresSearch(pool, SearchTuning()).search(caller, replace(query, mode=mode))
    await pool.close()
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        left = b"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'once'"
        await wait_until(lambda: connection.execute(left).fetchone() == (True,))


async def test_a_scan_uses_an_index_for_what_its_caller_may_see(database: Database) -> None:
    """Under a policy the planner used none, and evaluated the policy for all documents of the organisation."""
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as rows:
        for place, vector in enumerate(clustered(np.random.default_rng(1), 400)):
            number, _ = rows.add(NewDocument(ORG, vector[None], owner="somebody"))
            readers = ["group:hr"] if place % 100 == 0 else ["group:nobody"]
            access_id = rows.scalar("SELECT corpus.intern_access(%s, NULL, %s)", (ORG, readers))
            rows.run(
                "UPDATE corpus.documents SET access_id = %s WHERE org_id = %s AND document_id = %s",
                (access_id, ORG, number),
            )
        rows.run("ANALYZE")
    plan = await _plan_of_ranking(database, CALLERS[0])
    conditions = re.findall(r"documents_by_access\S* .*\n\s+Index Cond: (.*)", plan)
    assert any("access_id" in condition for condition in conditions), plan


async def _plan_of_ranking(database: Database, caller: Tenant) -> str:
    query = SearchQuery(Scope(), clustered(np.random.default_rng(2), 1)[0].tobytes(), SPACE)
    async with recorded_search(database.dsn("citewire_corpus")) as search:
        ranking = next(sent for sent in await search.sent(caller, query) if sent.ranks)
    pool = await open_pool(database.dsn("citewire_corpus"), max_size=1, name="test", resolved=VISIBLE)
    async with tenant_transaction(pool, caller) as connection:
        plan = await fetch(connection, f"EXPLAIN {ranking.text()}".encode(), ranking.values)
    await pool.close()
    return "\n".join(line for (line,) in plan)


SEES_NOTHING_OF_CONTENT = {
    ("search", "visible_size"): "asks a row only for its partition",
    ("search", "lacks_vectors"): "a condition on rows of documents",
    ("spaces", "filled"): "joined with documents by `fill`",
}


@pytest.mark.parametrize(
    "name",
    sorted(
        entry.name.removesuffix(".sql")
        for entry in (importlib.resources.files("citewire_retriever.store") / "sql").iterdir()
    ),
)
def test_every_statement_over_vectors_or_terms_joins_documents(name: str) -> None:
    """For speed, these tables have no access policy: statements over them must go through that of the documents."""
    for query, text in load_queries("citewire_retriever.store", f"sql/{name}.sql").items():
        bare = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
        sources = bare.count("{vectors}") + bare.count("corpus.lexical")
        joins = bare.count("corpus.documents d") + bare.count("{sources}")
        if (name, query) not in SEES_NOTHING_OF_CONTENT:
            assert joins >= sources, f"{name}.sql: {query}"


@pytest.mark.parametrize("table", ["documents", "versions", "originals", "texts", "chunks", "ingest_jobs"])
def test_the_database_itself_hides_what_a_query_forgets(database: Database, table: str) -> None:
    with CorpusRows(database.owner_dsn, dimensions=3) as rows:
        hidden, _ = rows.add(NewDocument(ORG, np.eye(3, dtype=np.float32), owner="boss", collection="Payroll"))
        rows.run("INSERT INTO corpus.originals VALUES (%s, %s, 1, 0, 'x')", (ORG, hidden))
        rows.run("INSERT INTO corpus.texts VALUES (%s, %s, 1, 0, 0, 'x')", (ORG, hidden))
        rows.run("INSERT INTO corpus.ingest_jobs (org_id, document_id, version, user_id) VALUES (%s, %s, 1, 'boss')",
                 (ORG, hidden))  # fmt: skip

        def seen(role: str, user: str, groups: str = "", database_role: str = "citewire_corpus") -> int:
            with psycopg.connect(database.dsn(database_role)) as connection:
                set_tenant(connection, ORG, user_id=user, role=role, groups=groups)
                query = sql.SQL("SELECT count(*) FROM {} WHERE document_id = %s")
                row = connection.execute(query.format(sql.Identifier("corpus", table)), (hidden,)).fetchone()
                assert row is not None
                return row[0]

        everything = seen("owner", "boss")
        assert everything > 0
        assert seen("", "") == everything, "without grants, everybody sees everything"
        rows.run(
            "INSERT INTO corpus.collection_grants (org_id, collection_id, subject, access)"
            " SELECT org_id, collection_id, 'group:hr', 'read' FROM corpus.collections"
        )
        assert seen("editor", "eve") == 0
        assert seen("", "") == 0
        assert seen("", "eve", "hr ") == 0
        assert seen("reader", "eve", "dev\nhr") == everything
        assert seen("admin", "eve") == everything
        assert seen("editor", "boss") == everything, "owners see their own documents"
        assert seen("", "", database_role="citewire_worker") == everything


def test_the_previous_version_keeps_working_without_grants(database: Database) -> None:
    """It only sets the organisation and the user, and doesn't know accesses."""
    with psycopg.connect(database.dsn("citewire_corpus")) as connection:
        set_tenant(connection, ORG, user_id="eve")
        for name in ("Old", "New"):
            connection.execute(
                "INSERT INTO corpus.collections (org_id, name) VALUES (%s, %s) ON CONFLICT (org_id, name) DO NOTHING",
                (ORG, name),
            )
        held = "SELECT collection_id FROM corpus.collections WHERE org_id = %s AND name = %s FOR KEY SHARE"
        old, new = (connection.execute(held, (ORG, name)).fetchone() for name in ("Old", "New"))
        assert old is not None
        assert new is not None
        row = connection.execute(
            "INSERT INTO corpus.documents (org_id, owner, type, title, title_given, collection_id)"
            " VALUES (%s, 'somebody else', 'file', 'T', true, %s) RETURNING document_id",
            (ORG, *old),
        ).fetchone()
        assert row is not None
        for statement, values in (
            ("UPDATE corpus.documents SET title = 'U', collection_id = %s WHERE document_id = %s", (*new, *row)),
            ("UPDATE corpus.collections SET name = 'Newer' WHERE collection_id = %s", new),
            ("DELETE FROM corpus.documents WHERE document_id = %s", row),
            ("DELETE FROM corpus.collections WHERE collection_id = %s", new),
        ):
            asked = f"{statement} AND org_id = %s"
            assert connection.execute(asked.encode(), (*values, ORG)).rowcount == 1


async def test_an_erased_user_leaves_no_name_and_grants_nothing(database: Database, stores: Stores) -> None:
    bob, eve = CALLERS[1], CALLERS[4]
    with CorpusRows(database.owner_dsn, dimensions=DIMENSIONS) as rows:
        vectors = clustered(np.random.default_rng(1), 2)
        rows.add(NewDocument(ORG, vectors[:1], title="granted", owner="dora", collection="Payroll"))
        read, _ = rows.add(NewDocument(ORG, vectors[1:], title="read", owner="dora"))
        await stores.collections.set_grants(ADMIN, "Payroll", [("user:bob", "read")])
        await stores.documents.update(ADMIN, read, Changes(readers=("user:bob", "group:zebras")))
        assert len(await stores.documents.find(bob, DocumentQuery(), None, 10)) == 2
        async with tenant_transaction(stores.pool, ADMIN) as connection:
            await connection.execute("SELECT corpus.forget_user('bob', 'erased-1')")
        for caller in (bob, eve):
            assert await stores.documents.find(caller, DocumentQuery(), None, 10) == []
        named = rows.all(
            "SELECT subject FROM corpus.collection_grants UNION ALL SELECT subject FROM corpus.access_readers"
            " UNION ALL SELECT unnest(readers) FROM corpus.accesses"
        )
        assert {name for (name,) in named} == {"user:erased-1", "group:zebras"}
        # The same readers get the same access again.
        await stores.documents.update(ADMIN, read, Changes(readers=("group:zebras", "user:erased-1")))
        assert rows.scalar("SELECT count(*) FROM corpus.accesses") == 1
