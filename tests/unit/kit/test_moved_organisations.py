"""An organisation that was moved is served by its new node, whatever happens to its previous one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, nullcontext
from typing import Any

import psycopg
import pytest

from citewire_kit.errors import Unavailable
from citewire_kit.nodes import AGAIN_SECONDS, NodeGuard, NodeUse
from databases import Database
from waiting import wait_until

FUNCTIONS = """
    CREATE SCHEMA citewire;
    CREATE TABLE places (org text PRIMARY KEY, node text NOT NULL);
    CREATE TABLE down (node text PRIMARY KEY);
    INSERT INTO places VALUES ('moves', 'first'), ('stays', 'first');
    CREATE FUNCTION citewire.node_of(text) RETURNS text
    BEGIN ATOMIC SELECT node FROM places WHERE org = $1; END;
    CREATE FUNCTION citewire.ask_node(asked text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF citewire.node_of(asked) IN (SELECT node FROM down) THEN
            RAISE EXCEPTION 'connection to the remote node failed' USING ERRCODE = 'XX000';
        END IF;
    END
    $$;
"""


@pytest.fixture
async def connection(plain_database: Database) -> AsyncIterator[psycopg.AsyncConnection]:
    async with await psycopg.AsyncConnection.connect(plain_database.owner_dsn, autocommit=True) as opened:
        await opened.execute(FUNCTIONS.encode())
        yield opened


@pytest.fixture
async def guard(plain_database: Database, connection: psycopg.AsyncConnection) -> AsyncIterator[NodeGuard]:
    async def read(statement: str, values: tuple[str, ...]) -> tuple[Any, ...] | None:
        return await (await connection.execute(statement.encode(), values)).fetchone()

    def refuse(message: str) -> Unavailable:
        return Unavailable(message, reason="DATABASE_UNAVAILABLE")

    guard = NodeGuard(
        plain_database.owner_dsn, size=20, name="pool", read=read, refusal=refuse, while_waiting=nullcontext
    )
    yield guard
    await guard.close()


async def lose_first_node(guard: NodeGuard, connection: psycopg.AsyncConnection) -> None:
    await connection.execute("UPDATE places SET node = 'second' WHERE org = 'moves'; INSERT INTO down VALUES ('first')")
    with pytest.raises(Unavailable):
        async with guard.admit("stays", 1):
            raise Unavailable("lost", reason="DATABASE_UNAVAILABLE") from psycopg.OperationalError("the node has gone")
    await wait_until(lambda: "first" in guard.away, 10)


async def test_its_running_work_is_not_interrupted(
    plain_database: Database, guard: NodeGuard, connection: psycopg.AsyncConnection
) -> None:
    uses: dict[str, NodeUse] = {}
    async with AsyncExitStack() as stack:
        for org in ("moves", "stays"):
            uses[org] = await stack.enter_async_context(guard.admit(org, 1))
            opened = await psycopg.AsyncConnection.connect(plain_database.owner_dsn, autocommit=True)
            uses[org].connection = await stack.enter_async_context(opened)
        await lose_first_node(guard, connection)
        await wait_until(lambda: uses["stays"].broken, 10)
        assert uses["moves"].connection is not None
        assert await (await uses["moves"].connection.execute("SELECT 1")).fetchone() == (1,)
    assert not uses["moves"].broken
    async with guard.admit("moves", 1) as use:
        assert use.node == "second"


async def test_none_of_its_requests_is_refused(guard: NodeGuard, connection: psycopg.AsyncConnection) -> None:
    async with guard.admit("moves", 1) as use:
        assert use.node == "first"
    await lose_first_node(guard, connection)
    await asyncio.sleep(AGAIN_SECONDS)

    async def ask() -> str:
        async with guard.admit("moves", 1) as use:
            return use.node

    assert await asyncio.gather(*(ask() for _ in range(5))) == ["second"] * 5
