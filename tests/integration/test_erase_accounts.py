"""The gateway and the retriever together erase a user or an organisation; everything else stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import psycopg
import pytest

from gateway_process import rows, until_rows
from office import CANARY, Office, running_office

if TYPE_CHECKING:
    from databases import Database

RUNNING = "SELECT count(*) FROM chat.erasures WHERE state = 'running'"


@pytest.fixture
async def office(database: Database) -> AsyncIterator[Office]:
    async with running_office(database) as running:
        yield running


@pytest.mark.parametrize("documents", ["delete", "keep"])
async def test_nothing_of_a_user_is_left_but_anonymous_accounts(office: Office, documents: str) -> None:
    before = office.places(CANARY)
    assert {"table corpus.originals", "table corpus.documents", "table chat.messages"} <= before
    assert "table chat.idempotency_keys" in before
    budget = {"scope": "user", "user": "bob.zeisig", "period": "day", "limit_usd": 1}
    assert (await office.call("ada", "PUT", "/v1/budgets", json=budget)).status_code == 200
    limit = {"scope": "user", "user": "bob.zeisig", "measure": "streams", "limit": 9}
    assert (await office.call("ada", "PUT", "/v1/admin/limits", json=limit)).status_code == 200
    assert {"table ledger.calls", "table ledger.budgets", "table chat.limits"} <= office.places("bob.zeisig")
    body = {"user": "bob.zeisig", "documents": documents}
    assert (await office.call("bob.zeisig", "POST", "/v1/erasures", json=body)).status_code == 403
    asked = await office.call("ada", "POST", "/v1/erasures", json=body)
    assert (asked.status_code, asked.json()["state"]) == (202, "running")
    await until_rows(office.database, RUNNING, [(0,)])
    assert (await office.call("bob.zeisig", "GET", "/v1/documents")).status_code == 401
    erasure = (await office.call("ada", "GET", f"/v1/erasures/{asked.json()['id']}")).json()
    assert (erasure["state"], erasure["erased_documents"], "user" in erasure) == ("done", 1, False)
    left = await asyncio.to_thread(office.places, CANARY)
    if documents == "delete":
        assert left == set()
    else:
        assert "table chat.messages" not in left
        owners = rows(office.database, f"SELECT owner FROM corpus.documents WHERE title = '{CANARY}'")  # noqa: S608 # names of our own
        assert owners == [(erasure["successor"],)]
    # The audit trail and its statistics in the planner follow their own rules; the name is nowhere else.
    named = await asyncio.to_thread(office.places, "bob.zeisig")
    assert named <= {"table chat.audit_events", "table pg_catalog.pg_statistic"}, named
    calls = rows(office.database, "SELECT user_id, input_tokens FROM ledger.calls WHERE org_id = 'acme' ORDER BY 1")
    assert calls == [("ada", 7), (erasure["successor"], 7)]
    exchanges = rows(office.database, "SELECT user_id FROM chat.exchanges WHERE org_id = 'acme' ORDER BY 1")
    assert exchanges == [("ada",), (erasure["successor"],)]
    # The others have lost nothing.
    for user, words in (("ada", "Adas words"), ("mallory", "Mallorys words")):
        assert {"table corpus.originals", "table chat.messages"} <= office.places(words)
        assert (await office.call(user, "GET", "/v1/conversations")).json()["conversations"] != []


async def test_nothing_of_an_organisation_is_left(office: Office) -> None:
    for user, body, field in (
        ("ada", {"organisation": "other"}, "organisation"),
        ("ada", {}, "user"),
        ("ada", {"user": "bob.zeisig", "organisation": "acme"}, "user"),
        ("ada", {"organisation": "acme", "documents": "keep"}, "documents"),
    ):
        response = await office.call(user, "POST", "/v1/erasures", json=body)
        assert response.status_code == 422, response.text
        assert [error["field"] for error in response.json()["errors"]] == [field]
    only_owner = await office.call("ada", "POST", "/v1/erasures", json={"user": "ada"})
    assert (only_owner.status_code, only_owner.json()["reason"]) == (409, "WRONG_STATE")
    unknown = await office.call("ada", "POST", "/v1/erasures", json={"user": "mallory"})
    assert (unknown.status_code, unknown.json()["reason"]) == (404, "USER_NOT_FOUND")
    assert (await office.call("ada", "POST", "/v1/erasures", json={"organisation": "acme"})).status_code == 202
    await until_rows(office.database, "SELECT count(*) FROM chat.erasures", [(0,)])
    assert (await office.call("ada", "GET", "/v1/documents")).status_code == 401
    for text in (CANARY, "Adas words"):
        assert await asyncio.to_thread(office.places, text) == set()
    # The costs of calls stay, without users; the audit trail follows its own rules.
    tables = rows(
        office.database,
        "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id'"
        " WHERE c.relkind = 'r' AND n.nspname IN ('chat', 'corpus', 'ledger')",
    )
    remaining = {
        table
        for (table,) in tables
        if rows(office.database, f"SELECT count(*) FROM {table} WHERE org_id = 'acme'") != [(0,)]  # noqa: S608 # names of our own
    }
    assert remaining <= {"ledger.calls", "chat.audit_events"}
    assert all(
        user.startswith("erased:")
        for (user,) in rows(office.database, "SELECT user_id FROM ledger.calls WHERE org_id = 'acme'")
    )
    assert {"table corpus.originals", "table chat.messages"} <= office.places("Mallorys words")


async def test_an_erasure_continues_after_the_retriever_was_away(office: Office) -> None:
    """A failed erasure is repeated from the start, possibly by another gateway; here in the next round."""
    body = {"user": "bob.zeisig"}
    erasures = office.gateway.services.erasures
    await office.call("ada", "POST", "/v1/erasures", json=body)
    with psycopg.connect(office.database.owner_dsn, autocommit=True) as connection:
        connection.execute("ALTER FUNCTION corpus.forget_user(text, text) RENAME TO away")
        await erasures.sweep()
        assert rows(office.database, RUNNING) == [(1,)]
        connection.execute("ALTER FUNCTION corpus.away(text, text) RENAME TO forget_user")
        connection.execute("UPDATE chat.erasures SET next_at = now()")
    await until_rows(office.database, RUNNING, [(0,)])
    assert await asyncio.to_thread(office.places, CANARY) == set()
