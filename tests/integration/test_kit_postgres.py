"""The pool and the tenant's transaction on a real server, which also is killed and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import psycopg
import pytest

from citewire_kit import deadline
from citewire_kit.errors import DeadlineExceeded, StartupError, Unavailable
from citewire_kit.postgres import (
    Connection,
    Pool,
    autocommit_connection,
    open_pool,
    tenant_batch,
    tenant_statement,
    tenant_transaction,
    transaction,
)
from citewire_kit.tenant import Tenant
from embedded_postgres import start_embedded_postgres

if TYPE_CHECKING:
    from databases import Database

ACME = Tenant("acme", "ann", "pro")
OTHER = Tenant("other", "bob", "pro")
WHO = "SELECT current_setting('citewire.org_id', true), current_setting('citewire.user_id', true)"


@pytest.fixture
async def pool(empty_database: Database) -> AsyncGenerator[Pool]:
    pool = await open_pool(empty_database.owner_dsn, max_size=1, name="test")
    yield pool
    await pool.close()


async def fetch_row(pool: Pool, query: str, tenant: Tenant | None = None) -> tuple[object, ...] | None:
    context = transaction(pool) if tenant is None else tenant_transaction(pool, tenant)
    async with context as connection:
        return await (await connection.execute(query.encode())).fetchone()


async def test_the_tenant_is_set_for_the_transaction_only(pool: Pool) -> None:
    for _ in range(10):  # beyond psycopg's threshold for prepared statements
        assert await fetch_row(pool, WHO, ACME) == ("acme", "ann")
        assert await fetch_row(pool, WHO) in [("", ""), (None, None)]  # the same connection: the pool has only one
        assert await fetch_row(pool, WHO, OTHER) == ("other", "bob")


async def test_an_odd_tenant_cannot_break_out_of_its_literal(pool: Pool) -> None:
    odd = Tenant("o'; DROP SCHEMA public; --\\", "u", "pro")
    assert await fetch_row(pool, WHO, odd) == ("o'; DROP SCHEMA public; --\\", "u")
    for org_id in ("$VALUE$", "', true); SELECT $$", "組織\n\\'"):
        assert await fetch_row(pool, WHO, Tenant(org_id, "$VALUE$", "pro")) == (org_id, "$VALUE$")
    with pytest.raises(psycopg.DataError):  # it would end the text before the next value
        await fetch_row(pool, WHO, Tenant("acme\0", "ann", "pro"))
    assert await fetch_row(pool, WHO, ACME) == ("acme", "ann")


async def test_plans_are_custom_unless_asked_and_statements_limited(pool: Pool) -> None:
    query = "SELECT current_setting('plan_cache_mode'), current_setting('statement_timeout')"
    assert await fetch_row(pool, query, ACME) == ("force_custom_plan", "30s")
    async with tenant_transaction(pool, ACME, plan_once=True) as connection:
        assert await (await connection.execute(query)).fetchone() == ("force_generic_plan", "30s")
    with deadline.budget(4.0):
        row = await fetch_row(pool, "SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'", ACME)
    assert row is not None
    assert isinstance(row[0], int)
    assert 3000 < row[0] <= 4000


async def test_the_block_commits_or_rolls_back_as_a_whole(pool: Pool) -> None:
    async with transaction(pool) as connection:
        await connection.execute("CREATE TABLE things (id int)")
    with pytest.raises(ValueError, match="changed my mind"):
        await _insert_and_fail(pool)
    assert await fetch_row(pool, "SELECT count(*) FROM things") == (0,)
    async with tenant_transaction(pool, ACME) as connection:
        await connection.execute("INSERT INTO things VALUES (1)")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await _fail_in_savepoint(connection)
    assert await fetch_row(pool, "SELECT count(*) FROM things") == (1,)


async def _insert_and_fail(pool: Pool) -> None:
    async with tenant_transaction(pool, ACME) as connection:
        await connection.execute("INSERT INTO things VALUES (1)")
        raise ValueError("changed my mind")


async def _fail_in_savepoint(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("INSERT INTO things VALUES (2)")
        await connection.execute("SELECT 1 / 0")


async def test_a_slow_statement_ends_at_the_deadline(pool: Pool) -> None:
    started = asyncio.get_running_loop().time()
    with deadline.budget(0.3), pytest.raises(DeadlineExceeded):
        await fetch_row(pool, "SELECT pg_sleep(30)", ACME)
    assert asyncio.get_running_loop().time() - started < 2
    assert await fetch_row(pool, "SELECT 1") == (1,)


async def test_a_batch_cancelled_anywhere_leaves_no_pipeline_to_others(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy loop psycopg yields after each step, even between entering pipeline mode and recording that."""
    monkeypatch.setattr("psycopg.waiting.MAX_BUSY_TIME", 0)

    async def batch() -> None:
        async with tenant_batch(pool, ACME) as opened:
            await opened.connection.execute(WHO.encode())
            await opened.finish()

    for steps in range(40):
        running = asyncio.create_task(batch())
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert await fetch_row(pool, WHO, OTHER) == ("other", "bob"), steps


async def test_a_cancelled_transaction_gives_its_connection_back(pool: Pool) -> None:
    running = asyncio.create_task(fetch_row(pool, "SELECT pg_sleep(30)", ACME))
    await asyncio.sleep(0.3)  # so that it reaches the server; the test passes either way
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(5):
        assert await fetch_row(pool, "SELECT 1", ACME) == (1,)


async def test_no_free_connection_in_time_is_unavailable(empty_database: Database) -> None:
    pool = await open_pool(empty_database.owner_dsn, max_size=1, name="test", checkout_seconds=0.2)
    try:
        async with transaction(pool):
            with pytest.raises(Unavailable) as raised:
                await fetch_row(pool, "SELECT 1")
        assert raised.value.reason == "DATABASE_UNAVAILABLE"
        assert raised.value.retry_after == 1.0
    finally:
        await pool.close()


async def test_a_caller_gets_the_missing_connection_as_reason_and_not_its_own_deadline(
    empty_database: Database,
) -> None:
    pool = await open_pool(empty_database.owner_dsn, max_size=1, name="test")
    try:
        async with transaction(pool):
            for seconds in (1.0, 0.2):
                with deadline.budget(seconds):
                    with pytest.raises(Unavailable):
                        await fetch_row(pool, "SELECT 1")
                    left = deadline.remaining()
                    assert left is not None
                    assert left > 0
    finally:
        await pool.close()


async def test_a_malformed_dsn_is_refused_without_its_password() -> None:
    with pytest.raises(StartupError) as raised:
        await open_pool("host=localhost password=hunter2 nonsense", name="test")
    assert "hunter2" not in str(raised.value)


async def test_a_killed_server_is_unavailable_and_found_again() -> None:
    with start_embedded_postgres(in_memory=True) as server:
        pool = await open_pool(server.dsn(), min_size=4, max_size=4, name="test", checkout_seconds=2)
        try:
            await pool.wait()
            server.kill()
            with pytest.raises(Unavailable) as raised:
                await fetch_row(pool, "SELECT 1", ACME)
            assert raised.value.reason == "DATABASE_UNAVAILABLE"
            assert "socket" not in raised.value.message
            await asyncio.to_thread(server.start)
            # No call after the restart may get a dead connection, not even the second and third.
            async with asyncio.timeout(20):
                await _until_back(pool)
            for answer in await asyncio.gather(*(fetch_row(pool, "SELECT 1", ACME) for _ in range(8))):
                assert answer == (1,)
        finally:
            await pool.close()


async def test_a_restart_between_two_calls_is_not_noticed() -> None:
    with start_embedded_postgres(in_memory=True) as server:
        pool = await open_pool(server.dsn(), min_size=4, max_size=4, name="test")
        try:
            await pool.wait()
            server.kill()
            await asyncio.to_thread(server.start)
            async with asyncio.timeout(20):
                for answer in await asyncio.gather(*(fetch_row(pool, "SELECT 1", ACME) for _ in range(8))):
                    assert answer == (1,)
        finally:
            await pool.close()


async def _until_back(pool: Pool) -> None:
    while True:
        try:
            await fetch_row(pool, "SELECT 1", ACME)
        except Unavailable:
            continue  # each attempt waits for a connection
        return


async def test_a_read_only_session_is_closed_and_the_next_can_write(pool: Pool) -> None:
    """As after a failover or a switch to another database: a new connection reaches the writable one."""
    async with transaction(pool) as connection:
        await connection.execute("CREATE TABLE things (id int)")
    async with autocommit_connection(pool) as connection:
        await connection.execute("SET default_transaction_read_only = on")
        refused = connection.info.backend_pid
    with pytest.raises(Unavailable) as raised:
        await _insert(pool)
    assert raised.value.reason == "DATABASE_UNAVAILABLE"
    assert await _insert(pool) != refused
    assert await fetch_row(pool, "SELECT count(*) FROM things") == (1,)


async def _insert(pool: Pool) -> int:
    async with tenant_transaction(pool, ACME) as connection:
        await connection.execute("INSERT INTO things VALUES (1)")
        return connection.info.backend_pid


async def test_a_snapshot_does_not_see_later_commits(pool: Pool, empty_database: Database) -> None:
    async with tenant_transaction(pool, ACME, snapshot=True) as connection:
        with psycopg.connect(empty_database.owner_dsn) as other:
            other.execute("CREATE TABLE written AS SELECT 1 AS number")
        cursor = await connection.execute("SELECT count(*) FROM pg_class WHERE relname = 'written'")
        assert await cursor.fetchone() == (0,)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await connection.execute("CREATE TABLE refused ()")
    assert await fetch_row(pool, "SELECT count(*) FROM pg_class WHERE relname = 'written'") == (1,)


async def test_a_batch_is_one_read_only_transaction_of_its_tenant(pool: Pool) -> None:
    for tenant in (ACME, OTHER) * 5:  # beyond psycopg's threshold for prepared statements
        async with tenant_batch(pool, tenant) as batch:
            who = await batch.connection.execute(WHO)
            how = await batch.connection.execute(
                "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'),"
                " current_setting('plan_cache_mode'), current_setting('statement_timeout')"
            )
            await batch.finish()
            assert await who.fetchone() == (tenant.org_id, tenant.user_id)
            assert await how.fetchone() == ("repeatable read", "on", "force_custom_plan", "30s")
        assert await fetch_row(pool, WHO) in [("", ""), (None, None)]


async def test_a_failed_or_abandoned_batch_gives_its_connection_back(pool: Pool) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        await _divide_in_a_batch(pool)
    with pytest.raises(ValueError, match="changed my mind"):
        await _leave_a_batch(pool)
    with deadline.budget(0.2), pytest.raises(DeadlineExceeded):
        await _sleep_in_a_batch(pool)
    assert await fetch_row(pool, WHO, ACME) == ("acme", "ann")
    assert await fetch_row(pool, WHO) in [("", ""), (None, None)]


async def _divide_in_a_batch(pool: Pool) -> None:
    async with tenant_batch(pool, ACME) as batch:
        await batch.connection.execute("SELECT 1 / 0")
        await batch.connection.execute(WHO)
        await batch.finish()


async def _leave_a_batch(pool: Pool) -> None:
    async with tenant_batch(pool, ACME) as batch:
        await batch.connection.execute(WHO)
        raise ValueError("changed my mind")


async def _sleep_in_a_batch(pool: Pool) -> None:
    async with tenant_batch(pool, ACME) as batch:
        await batch.connection.execute("SELECT pg_sleep(5)")
        await batch.finish()


async def test_a_statement_is_a_transaction_of_its_own(pool: Pool) -> None:
    async with transaction(pool) as connection:
        await connection.execute("CREATE TABLE things (id int UNIQUE DEFERRABLE INITIALLY DEFERRED, org text)")
    insert = "INSERT INTO things SELECT 1 / %(divisor)s, current_setting('citewire.org_id') RETURNING org"
    for tenant in (ACME, OTHER) * 5:  # beyond psycopg's threshold for prepared statements
        cursor = await tenant_statement(pool, tenant, insert, {"divisor": 1})
        assert await cursor.fetchone() == (tenant.org_id,)
        assert cursor.rowcount == 1
        assert await fetch_row(pool, WHO) in [("", ""), (None, None)]
        async with transaction(pool) as connection:
            assert (await connection.execute("DELETE FROM things")).rowcount == 1
    with pytest.raises(psycopg.errors.DivisionByZero):
        await tenant_statement(pool, ACME, insert, {"divisor": 0})
    await tenant_statement(pool, ACME, insert, {"divisor": 1})
    with pytest.raises(psycopg.errors.UniqueViolation):  # found at the commit
        await tenant_statement(pool, ACME, insert, {"divisor": 1})
    assert await fetch_row(pool, "SELECT count(*) FROM things") == (1,)
