"""The ledger in Postgres, called with its own role: rows, money, budgets, and calls of dead processes."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from prometheus_client import REGISTRY
from psycopg.rows import dict_row

from citewire_kit.errors import CitewireError, ResourceExhausted, StartupError, Unavailable
from citewire_kit.postgres import open_pool
from citewire_kit.tenant import CallContext, Tenant, use_call_context, use_request_id, use_tenant
from citewire_ledger import CallUsage, NewCall, PostgresLedger, Price, Purpose, open_ledger
from citewire_ledger.model import NANO
from citewire_ledger.store import LedgerStore
from waiting import wait_until

if TYPE_CHECKING:
    from databases import Database

ACME = Tenant("acme", "ann", "pro", (), "key-1")
OTHER = Tenant("other", "bob", "pro")
EXCHANGE = "01938f2e-4c5a-7b10-9d3e-5f0c2a6b7e11"
PRICE = Price(Decimal(2), Decimal("0.5"), Decimal("2.5"), Decimal(10))
NEW = NewCall(Purpose.GENERATION, "p", "m", PRICE, input_tokens=1000, max_output_tokens=500)
MOST = 1500 * 2500 + 500 * 10_000
"""Nano-USD that a call reserves: 1.5 times its input at the highest input price, and all of the output."""


@asynccontextmanager
async def ledger_of(database: Database, lease_seconds: float = 30) -> AsyncGenerator[PostgresLedger]:
    dsn = database.dsn("citewire_ledger")
    async with open_ledger(dsn, process="generator", lease_seconds=lease_seconds) as ledger:
        yield ledger


def rows(database: Database, query: LiteralString = "SELECT * FROM ledger.calls ORDER BY call_id") -> list[Any]:
    with psycopg.connect(database.owner_dsn) as connection, connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query).fetchall()


def budget(database: Database, usd: Decimal | float, *, key: str = "", period: str = "day", org: str = "acme") -> None:
    with psycopg.connect(database.dsn("citewire_chat")) as connection:
        connection.execute("SELECT set_config('citewire.org_id', %s, true)", (org,))
        connection.execute("SELECT ledger.put_budget(%s, %s, %s, 'ann')", (key, period, int(usd * NANO)))


def budgets(database: Database) -> list[Any]:
    return rows(database, "SELECT * FROM ledger.budgets_now ORDER BY org_id, key_id, period")


def user_budget(database: Database, usd: float, user: str, period: str = "day") -> None:
    with psycopg.connect(database.dsn("citewire_chat")) as connection:
        connection.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        connection.execute("SELECT ledger.put_budget('', %s, %s, %s, 'ann')", (user, period, int(usd * NANO)))


async def test_a_users_budget_is_shared_by_the_users_keys_only(database: Database) -> None:
    user_budget(database, 1.5 * MOST / NANO, "ann")
    budget(database, 100)
    budget(database, 100, key="key-1")
    async with ledger_of(database) as ledger:

        async def spend(tenant: Tenant) -> None:
            with use_tenant(tenant):
                async with ledger.call(NEW) as call:
                    call.record_usage(CallUsage(1))

        with use_tenant(ACME):
            async with ledger.call(NEW) as first:
                with pytest.raises(ResourceExhausted) as refused:
                    await spend(replace(ACME, key_id="key-2"))
                await spend(replace(ACME, user_id="bob"))
                first.record_usage(CallUsage(1000, output_tokens=100))
        await spend(replace(ACME, key_id="key-2"))
    assert "the user's budget" in refused.value.message
    assert refused.value.metadata["budget"] == "user"
    spent = {(row["scope"], row["spent_nano"], row["reserved_nano"]) for row in budgets(database)}
    # In order: all three, the two of ann, and the two with her first key.
    assert spent == {("org", 3_004_000, 0), ("user", 3_002_000, 0), ("key", 3_002_000, 0)}


async def test_users_and_keys_charged_crosswise_never_deadlock(database: Database) -> None:
    users, keys = ("ann", "bob", "eve"), ("key-1", "key-2", "key-3")
    for user in users:
        user_budget(database, 100, user)
    for key in keys:
        budget(database, 100, key=key)
    open_call = (
        "SELECT ledger.open_call(gen_random_uuid(), %s, %s, '', NULL, '', 'generator', 'generation', 'p', 'm', false, "
        "10, 1000, 1000, 1000, 1000, 500, interval '-1 s')"
    )
    with psycopg.connect(database.dsn("citewire_ledger")) as connection:  # calls of dead processes
        connection.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        for user, key in itertools.product(users, keys * 3):
            connection.execute(open_call, (user, key))
    async with ledger_of(database) as ledger:

        async def work(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(15):
                with use_tenant(Tenant("acme", chance.choice(users), "pro", (), chance.choice(keys))):
                    async with ledger.call(NEW) as call:
                        call.record_usage(CallUsage(1))

        def sweep() -> int:
            with psycopg.connect(database.dsn("citewire_ledger"), autocommit=True) as connection:
                row = connection.execute("SELECT ledger.sweep(7)").fetchone()
                return 0 if row is None else int(row[0])

        sweeps = (asyncio.to_thread(sweep) for _ in range(6))
        await asyncio.gather(*sweeps, *(work(seed) for seed in range(6)))
        while await asyncio.to_thread(sweep):
            pass
    states = rows(database, "SELECT reason, count(*) AS calls FROM ledger.calls GROUP BY reason ORDER BY reason")
    assert states == [{"reason": "", "calls": 90}, {"reason": "ORPHANED", "calls": 27}]
    reserved = rows(database, "SELECT sum(reserved_nano) AS held, min(reserved_nano) AS least FROM ledger.budgets")
    assert reserved == [{"held": 0, "least": 0}]
    cost = rows(database, "SELECT sum(cost_nano) AS cost FROM ledger.calls")[0]["cost"]
    for scope in ("user", "key"):
        assert sum(row["spent_nano"] for row in budgets(database) if row["scope"] == scope) == cost


async def test_a_row_has_the_caller_the_call_and_its_cost(database: Database) -> None:
    context = CallContext("documents", EXCHANGE)
    with use_tenant(ACME), use_call_context(context), use_request_id("request-7"):
        async with ledger_of(database) as ledger:
            async with ledger.call(NEW) as call:
                (open_row,) = rows(database)
                call.record_usage(CallUsage(1000, 400, 20, finish="stop", cache_write_input_tokens=100))
            (row,) = rows(database)
    assert (open_row["state"], open_row["reserved_nano"], open_row["ended_at"]) == ("open", MOST, None)
    identity = {
        name: row[name] for name in ("org_id", "user_id", "key_id", "profile", "request_id", "process", "purpose")
    }
    assert identity == {
        "org_id": "acme",
        "user_id": "ann",
        "key_id": "key-1",
        "profile": "documents",
        "request_id": "request-7",
        "process": "generator",
        "purpose": "generation",
    }
    assert str(row["exchange_id"]) == EXCHANGE
    assert (row["state"], row["reason"], row["finish"], row["estimated"]) == ("done", "", "stop", False)
    counts = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens")
    assert [row[name] for name in counts] == [1000, 400, 100, 20]
    assert row["cost_nano"] == 500 * 2000 + 400 * 500 + 100 * 2500 + 20 * 10_000


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (Unavailable("x", reason="PROVIDER_UNAVAILABLE"), "failed", "PROVIDER_UNAVAILABLE"),
        (asyncio.CancelledError(), "cancelled", "cancelled"),
        (GeneratorExit(), "cancelled", "cancelled"),
    ],
)
async def test_failed_calls_are_settled_by_estimate(
    database: Database, error: BaseException, state: str, reason: str
) -> None:
    async def make_call(ledger: PostgresLedger) -> None:
        async with ledger.call(NEW) as call:
            call.record_progress(7)
            raise error

    with use_tenant(ACME):
        async with ledger_of(database) as ledger:
            with pytest.raises(type(error)):
                await make_call(ledger)
    (row,) = rows(database)
    assert (row["state"], row["reason"], row["estimated"]) == (state, reason, True)
    assert (row["input_tokens"], row["output_tokens"]) == (1000, 7)
    assert row["cost_nano"] == 1000 * 2000 + 7 * 10_000


def test_the_metrics_match_the_databases_costs(database: Database) -> None:
    choices = random.Random(1)
    with psycopg.connect(database.dsn("citewire_ledger")) as connection:
        for _ in range(200):
            price = Price(*(Decimal(choices.randrange(10**9)) / 10**6 for _ in range(4)))
            cached, written = choices.randrange(10**6), choices.randrange(10**6)
            spent = CallUsage(cached + written + choices.randrange(10**7), cached, choices.randrange(10**6))
            spent = replace(spent, cache_write_input_tokens=written)
            row = connection.execute(
                "SELECT ledger.cost(%s, %s, %s, %s, %s, %s, %s, %s)",
                (spent.input_tokens, cached, written, spent.output_tokens, *price.nano()),
            ).fetchone()
            assert row == (price.cost(spent),)


async def test_a_call_without_a_known_price_costs_nothing(database: Database) -> None:
    budget(database, 0)
    with use_tenant(ACME):
        async with ledger_of(database) as ledger, ledger.call(NewCall(Purpose.INGEST, "p", "m", None, 10)):
            pass
    (row,) = rows(database)
    assert (row["reserved_nano"], row["cost_nano"], row["input_price"]) == (0, 0, None)


async def test_a_call_that_may_cost_more_than_is_left_is_not_made(database: Database) -> None:
    budget(database, Decimal(2 * MOST) / NANO)
    refusals = {"scope": "org"}
    before = REGISTRY.get_sample_value("citewire_budget_refusals_total", refusals) or 0
    with use_tenant(ACME):
        async with ledger_of(database) as ledger:
            async with ledger.call(NEW) as first, ledger.call(NEW):
                (running,) = budgets(database)
                assert (running["spent_nano"], running["reserved_nano"], running["left_nano"]) == (0, 2 * MOST, 0)
                with pytest.raises(ResourceExhausted) as caught:
                    async with ledger.call(NEW):
                        pytest.fail("the call was made")
                first.record_usage(CallUsage(10, output_tokens=10))
            # The unused part of a call's reservation is available to the next one.
            async with ledger.call(NEW) as call:
                call.record_usage(CallUsage(0))
    assert caught.value.reason == "BUDGET_EXCEEDED"
    metadata = caught.value.metadata
    assert (metadata["budget"], metadata["limit_usd"], metadata["left_usd"]) == ("org", "0.0175", "0")
    assert metadata["resets_at"].endswith("T00:00:00Z")
    assert caught.value.retry_after is not None
    assert 0 < caught.value.retry_after <= 24 * 3600
    assert REGISTRY.get_sample_value("citewire_budget_refusals_total", refusals) == before + 1
    (left,) = budgets(database)
    assert left["reserved_nano"] == 0
    assert left["spent_nano"] == sum(row["cost_nano"] for row in rows(database)) == 20_000 + 100_000 + 2_000_000
    assert len(rows(database)) == 3


async def test_a_keys_budget_binds_that_key_and_the_organisations_binds_all(database: Database) -> None:
    budget(database, 1)
    budget(database, 0, key="key-1")
    budget(database, 0, org="other", period="month")
    async with ledger_of(database) as ledger:
        with use_tenant(ACME), pytest.raises(ResourceExhausted) as caught:
            async with ledger.call(NEW):
                pass
        assert caught.value.metadata["budget"] == "key"
        with use_tenant(Tenant("acme", "ann", "pro", (), "key-2")):
            async with ledger.call(NEW):
                pass
        with use_tenant(OTHER), pytest.raises(ResourceExhausted) as caught:
            async with ledger.call(NEW):
                pass
        assert caught.value.metadata["resets_at"].endswith("-01T00:00:00Z")
    spent = {(entry["org_id"], entry["key_id"]): entry["spent_nano"] for entry in budgets(database)}
    assert spent == {("acme", ""): 2_000_000, ("acme", "key-1"): 0, ("other", ""): 0}


async def test_a_new_budget_counts_past_and_running_calls(database: Database) -> None:
    with use_tenant(ACME):
        async with ledger_of(database) as ledger:
            async with ledger.call(NEW):
                pass
            async with ledger.call(NEW):
                budget(database, 5)
                budget(database, 3)
                (running,) = budgets(database)
    assert (running["limit_nano"], running["spent_nano"], running["reserved_nano"]) == (3 * NANO, 2_000_000, MOST)
    (ended,) = budgets(database)
    assert (ended["spent_nano"], ended["reserved_nano"]) == (4_000_000, 0)


async def test_a_new_period_frees_the_spent_budget_and_keeps_running_calls(database: Database) -> None:
    budget(database, Decimal(MOST + 2_000_000) / NANO)
    with use_tenant(ACME):
        async with ledger_of(database) as ledger, ledger.call(NEW):
            with psycopg.connect(database.owner_dsn) as connection:
                connection.execute(
                    "UPDATE ledger.budgets SET spent_nano = limit_nano, period_start = period_start - interval '1 day'"
                )
            (over,) = budgets(database)
            assert (over["spent_nano"], over["reserved_nano"]) == (0, MOST)
    (ended,) = budgets(database)
    assert (ended["spent_nano"], ended["reserved_nano"]) == (2_000_000, 0)


async def test_a_dead_processes_calls_are_settled_by_its_last_heartbeat(database: Database) -> None:
    budget(database, 1)
    dying = await open_pool(database.dsn("citewire_ledger"), name="dying")
    with use_tenant(ACME):
        dead = PostgresLedger(LedgerStore(dying, process="generator", lease_seconds=1))
        maintenance = asyncio.create_task(dead.maintain(0.1))
        gone = dead.call(NEW)
        call = await gone.__aenter__()
        call.record_progress(42)
        await wait_until(lambda: rows(database)[0]["output_tokens"] == 42)
        maintenance.cancel()
        async with ledger_of(database, lease_seconds=3):
            await wait_until(lambda: rows(database)[0]["state"] != "open")
            (row,) = rows(database)
            assert (row["state"], row["reason"], row["estimated"]) == ("failed", "ORPHANED", True)
            assert (row["input_tokens"], row["output_tokens"]) == (1000, 42)
            (charged,) = budgets(database)
            assert (charged["spent_nano"], charged["reserved_nano"]) == (row["cost_nano"], 0)
        # It wasn't dead, only cut off: its own numbers are better.
        call.record_usage(CallUsage(900, output_tokens=50, finish="stop"))
        await gone.__aexit__(None, None, None)
    (row,) = rows(database)
    assert (row["state"], row["reason"], row["estimated"]) == ("done", "", False)
    assert row["cost_nano"] == 900 * 2000 + 50 * 10_000
    (charged,) = budgets(database)
    assert (charged["spent_nano"], charged["reserved_nano"]) == (row["cost_nano"], 0)
    await dying.close()


async def test_a_running_calls_lease_is_prolonged(database: Database) -> None:
    with use_tenant(ACME):
        async with ledger_of(database, lease_seconds=0.6) as ledger, ledger.call(NEW) as call:
            await asyncio.sleep(1.5)
            call.record_usage(CallUsage(1, finish="stop"))
            assert rows(database)[0]["state"] == "open"
    assert rows(database)[0]["finish"] == "stop"


async def test_a_caller_that_leaves_while_its_row_is_opened_leaves_no_open_row(database: Database) -> None:
    budget(database, 1)

    async def make_call(ledger: PostgresLedger) -> None:
        async with ledger.call(NEW):
            pytest.fail("the call was made")

    with use_tenant(ACME):
        async with ledger_of(database) as ledger:
            with psycopg.connect(database.owner_dsn) as connection:
                connection.execute("SELECT 1 FROM ledger.budgets FOR UPDATE")
                making = asyncio.create_task(make_call(ledger))
                await asyncio.sleep(0.2)
                making.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await making
            await wait_until(lambda: bool(rows(database)) and rows(database)[0]["state"] != "open")
    (row,) = rows(database)
    assert (row["state"], row["input_tokens"], row["cost_nano"]) == ("cancelled", 0, 0)
    assert (budgets(database)[0]["spent_nano"], budgets(database)[0]["reserved_nano"]) == (0, 0)


async def test_without_its_database_no_call_is_made(tmp_path: object) -> None:
    with use_tenant(ACME):
        async with open_ledger(f"postgresql://x@/x?host={tmp_path}", process="generator") as ledger:
            with pytest.raises(CitewireError) as caught:
                async with ledger.call(NEW):
                    pytest.fail("the call was made")
    assert caught.value.reason == "DATABASE_UNAVAILABLE"


async def test_a_database_without_the_schema_is_an_error_at_the_start(empty_database: Database) -> None:
    with pytest.raises(StartupError, match=r'schema "ledger" does not exist: run `python -m citewire_ledger migrate`'):
        async with open_ledger(empty_database.owner_dsn, process="generator"):
            pytest.fail("it was opened")


@pytest.mark.parametrize("missing", ["role", "database"])
async def test_missing_parts_of_the_schema_are_an_error_and_not_retried(database: Database, missing: str) -> None:
    name = f"no_such_{missing}"
    dsn = database.dsn(name) if missing == "role" else database.server.dsn("citewire_ledger", name)
    with pytest.raises(StartupError, match=rf'{missing} "{name}" does not exist: run `python -m citewire_ledger'):
        async with open_ledger(dsn, process="generator"):
            pytest.fail("it was opened")


async def test_a_schema_that_disappears_later_makes_calls_wait(database: Database) -> None:
    with use_tenant(ACME):
        async with ledger_of(database) as ledger:
            with psycopg.connect(database.owner_dsn) as connection:
                connection.execute("DROP SCHEMA ledger CASCADE")
            with pytest.raises(CitewireError) as caught:
                async with ledger.call(NEW):
                    pytest.fail("the call was made")
    assert caught.value.reason == "DATABASE_UNAVAILABLE"


async def test_no_organisation_sees_anothers_calls_or_budgets(database: Database) -> None:
    budget(database, 1)
    with use_tenant(ACME):
        async with ledger_of(database) as ledger, ledger.call(NEW):
            pass
    for role in ("citewire_ledger", "citewire_chat"):
        with psycopg.connect(database.dsn(role)) as connection:
            for org, seen in (("acme", 1), ("other", 0), ("", 0)):
                connection.execute("SELECT set_config('citewire.org_id', %s, true)", (org,))
                for query in ("SELECT 1 FROM ledger.calls", "SELECT 1 FROM ledger.budgets_now"):
                    result = connection.execute(query).fetchall()
                    assert len(result) == seen
    with psycopg.connect(database.dsn("citewire_chat")) as connection, pytest.raises(psycopg.errors.RaiseException):
        connection.execute("SELECT ledger.put_budget('', 'day', 1, 'eve')")
