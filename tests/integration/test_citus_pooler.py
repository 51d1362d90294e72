"""PgBouncer in transaction mode before a cluster's coordinator: all callers of a role share one connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from citewire_kit.errors import Unavailable
from citewire_kit.postgres import Pool, guard_of, open_pool, tenant_transaction
from citewire_retriever.ingest.model import Published
from fake_embedding import FakeModel
from ingest_harness import ACME, OTHER, WINDOW, IngestHarness, embedder_address, running_worker, worker_settings
from pgbouncer import PooledDatabase, pgbouncer, prepare_nothing
from tests.integration.test_citus_cluster import fill, search
from tests.integration.test_citus_ingest import publish
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

pytestmark = pytest.mark.system(program="pgbouncer", package="pgbouncer")


@dataclass(frozen=True, slots=True)
class Pooled:
    """A database that services reach through the pooler, and the owner directly."""

    database: Database
    pooled: PooledDatabase

    def dsn(self, role: str) -> str:
        """Returns a role's connection string."""
        return (self.database if role == "postgres" else self.pooled).dsn(role)


@asynccontextmanager
async def used_pool(dsn: str, direct_dsn: str | None = None) -> AsyncGenerator[Pool]:
    """A pool that has connected and so knows whether there are nodes."""
    pool = await open_pool(dsn, direct_dsn=direct_dsn, max_size=1, name="test")
    try:
        async with tenant_transaction(pool, ACME):
            pass
        yield pool
    finally:
        await pool.close()


async def test_parallel_searches_find_the_same_with_and_without_it(
    citus_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(citus_database.owner_dsn)
    direct = await search(citus_database.dsn("citewire_corpus"))
    assert any(direct.values())
    prepare_nothing(monkeypatch)
    with pgbouncer(citus_database) as pooled:
        dsn = pooled.dsn("citewire_corpus")
        assert await asyncio.gather(search(dsn), search(dsn), search(dsn)) == [direct, direct, direct]


async def test_documents_are_uploaded_claimed_and_published(
    citus_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_nothing(monkeypatch)
    with pgbouncer(citus_database) as pooled:
        async with IngestHarness.open(Pooled(citus_database, pooled)) as harness:
            uploads = [
                harness.upload(f"{number}.txt", "text", tenant=tenant)
                for number in range(3)
                for tenant in (ACME, OTHER)
            ]
            assert len(set(await asyncio.gather(*uploads))) == 6
            assert [await publish(harness) for _ in uploads] == [Published.LIVE] * 6
            orgs = await harness.rows("SELECT org_id, count(*) AS n FROM corpus.vectors_1 GROUP BY 1 ORDER BY 1")
            assert [(row["org_id"], row["n"]) for row in orgs] == [("acme", 9), ("other", 9)]


async def test_probing_nodes_leaves_no_limit_behind(citus_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pooler's one connection serves the probe and everybody else."""
    prepare_nothing(monkeypatch)
    with pgbouncer(citus_database) as pooled:
        async with used_pool(pooled.dsn("citewire_corpus")) as pool:
            guard = guard_of(pool)
            assert guard is not None
            await guard.require_all()
            answer = await guard._ask("acme")  # pyright: ignore[reportPrivateUsage] # what a suspicion leads to
            assert answer[1] is True
            async with tenant_transaction(pool, ACME, statement_seconds=7) as connection:
                await connection.execute("COMMIT")
                shown = await connection.execute("SHOW statement_timeout")
                assert await shown.fetchone() == ("0",)


async def test_nodes_are_probed_past_it(citus_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_nothing(monkeypatch)
    with pgbouncer(citus_database) as pooled:
        dsn = pooled.dsn("citewire_corpus")
        async with used_pool(dsn, direct_dsn="postgresql://citewire_corpus@127.0.0.1:1/nothing") as pool:
            guard = guard_of(pool)
            assert guard is not None
            with pytest.raises(Unavailable):
                await guard.require_all()
        async with used_pool(dsn, direct_dsn=citus_database.dsn("citewire_corpus")) as pool:
            guard = guard_of(pool)
            assert guard is not None
            await guard.require_all()


async def test_listeners_are_not_notified_and_harm_nobody(
    citus_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notifications need a dedicated connection: behind the pooler, a worker finds jobs by polling."""
    prepare_nothing(monkeypatch)
    with pgbouncer(citus_database) as pooled:
        async with IngestHarness.open(Pooled(citus_database, pooled)) as harness:
            async with aclosing(harness.worker.wake_ups()) as wake_ups:
                listening = asyncio.ensure_future(anext(wake_ups))
                await harness.upload("a.txt", "text")
                assert await harness.worker.claim("ingest", worker="test", lease_seconds=60) is not None
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
            await harness.upload("b.txt", "text", tenant=OTHER)
            assert await publish(harness) is Published.LIVE


async def test_a_worker_listens_past_it(citus_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_nothing(monkeypatch)
    model = FakeModel(window=WINDOW)
    with pgbouncer(citus_database) as pooled:
        database = Pooled(citus_database, pooled)
        direct_dsn = citus_database.dsn("citewire_worker")
        async with IngestHarness.open(database) as harness, embedder_address(model) as embedder:
            settings = worker_settings(database, embedder, poll_seconds=300, direct_dsn=direct_dsn)
            async with running_worker(settings):

                async def is_listening() -> bool:
                    listeners = "SELECT 1 FROM pg_stat_activity WHERE query ~ '^LISTEN' AND usename = 'citewire_worker'"
                    return await harness.rows(listeners) != []

                await wait_until(is_listening, 20)
                await asyncio.sleep(1)  # from now on, the worker looks for work only if it is notified
                await harness.upload("a.txt", "text")

                async def is_live() -> bool:
                    return await harness.rows("SELECT 1 FROM corpus.documents WHERE live_version IS NOT NULL") != []

                await wait_until(is_live, 20)
