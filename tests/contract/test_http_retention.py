"""Conversations are deleted with all their data when their organisation's retention period ends, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import psycopg
import pytest

from api_keys import bearer, key_for
from citewire_accounts.tenants.retention import Retention
from citewire_kit import canary
from citewire_kit.postgres import open_pool
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

CANARY = "Rotkehlchen5511"
NO_POLICY = {"conversation_days": None, "document_days": None, "expired_document_days": None}
PATH = "/v1/admin/retention"


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as running:
        yield running


async def sweep(gateway: Gateway, database: Database) -> None:
    pool = await open_pool(database.dsn("citewire_chat"), name="sweep")
    try:
        await Retention(pool, gateway.services.trail, gateway.services.eraser.erase_old).sweep()
    finally:
        await pool.close()


async def test_old_conversations_are_deleted_and_others_stay(gateway: Gateway, database: Database) -> None:
    ada = bearer((await key_for(database, "acme", "ada"))["key"])
    other = bearer((await key_for(database, "other", "mallory"))["key"])
    titles = ("old", "running", "young", "foreign")
    for title in titles:
        headers = (other if title == "foreign" else ada) | {"Idempotency-Key": f"k-{title}"}
        body = {"question": f"{title} {CANARY if title == 'old' else ''}", "stream": False}
        assert (await gateway.http.post("/v1/chat", json=body, headers=headers)).status_code == 200
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE chat.conversations SET updated_at = now() - interval '31 days' WHERE title NOT LIKE 'young%'"
        )
        connection.execute(
            "UPDATE chat.idempotency_keys SET created_at = now() - interval '31 days' WHERE key = 'k-old'"
        )
        connection.execute(
            b"UPDATE chat.exchanges SET state = 'running', ended_at = NULL, lease_until = now() + interval '1 hour'"
            b" WHERE conversation_id = (SELECT conversation_id FROM chat.conversations WHERE title LIKE 'running%')"
        )
    await sweep(gateway, database)  # without a policy nothing is deleted
    assert len(rows(database, "SELECT FROM chat.conversations")) == 4
    assert (await gateway.http.get(PATH, headers=ada)).json() == NO_POLICY
    assert (await gateway.http.put(PATH, json={"conversation_days": 30}, headers=ada)).status_code == 200
    assert (await gateway.http.get(PATH, headers=other)).json() == NO_POLICY
    assert "table chat.messages" in {trace.place for trace in canary.find_in_database(database.owner_dsn, CANARY)}
    await sweep(gateway, database)
    left = rows(database, "SELECT title FROM chat.conversations ORDER BY 1")
    assert [title.split()[0] for (title,) in left] == ["foreign", "running", "young"]
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
    assert list(canary.find_in_database(database.owner_dsn, CANARY)) == []
    # The chats' costs are still recorded.
    assert len(rows(database, "SELECT FROM chat.exchanges WHERE org_id = 'acme'")) == 3
    await gateway.services.trail.flush()
    params = {"action": "conversation.expire"}
    events = (await gateway.http.get("/v1/admin/audit", params=params, headers=ada)).json()["events"]
    assert [event["objects"] for event in events] == [["conversations:1"]]
    # Without the policy, nothing more is deleted.
    assert (await gateway.http.put(PATH, json={"conversation_days": None}, headers=ada)).status_code == 200
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("UPDATE chat.conversations SET updated_at = now() - interval '9 years'")
    await sweep(gateway, database)
    assert len(rows(database, "SELECT FROM chat.conversations")) == 3


async def test_only_admins_set_a_valid_retention_period(gateway: Gateway, database: Database) -> None:
    ada = bearer((await key_for(database, "acme", "ada"))["key"])
    bob = bearer((await key_for(database, "acme", "bob"))["key"])
    await gateway.http.put("/v1/admin/users/bob/role", json={"role": "editor"}, headers=ada)
    assert (await gateway.http.get(PATH, headers=bob)).status_code == 403
    assert (await gateway.http.put(PATH, json={"conversation_days": 30}, headers=bob)).status_code == 403
    for days in (0, -1, 36_501, "30", 1.5, True):
        refused = await gateway.http.put(PATH, json={"conversation_days": days}, headers=ada)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "conversation_days")
        assert (await gateway.http.put(PATH, json={"document_days": days}, headers=ada)).status_code == 422
    for body, days in (({"document_days": 365}, (None, 365, None)), ({"conversation_days": 9}, (9, 365, None))):
        changed = await gateway.http.put(PATH, json=body, headers=ada)
        assert tuple(changed.json().values()) == days
    assert (await gateway.http.put(PATH, json={}, headers=ada)).status_code == 422
    await gateway.services.trail.flush()
    events = (await gateway.http.get("/v1/admin/audit", params={"action": "retention.set"}, headers=ada)).json()
    assert {event["user"] for event in events["events"]} == {"ada", "bob"}
    assert "refused" in {event["outcome"] for event in events["events"]}


async def test_a_gateway_of_the_previous_version_keeps_the_documents_period(
    gateway: Gateway, database: Database
) -> None:
    ada = bearer((await key_for(database, "acme", "ada"))["key"])
    await gateway.http.put(PATH, json={"conversation_days": 30, "document_days": 60}, headers=ada)
    drop = "DELETE FROM chat.retention_policies WHERE org_id = %s"  # its statement to keep conversations
    with psycopg.connect(database.dsn("citewire_chat")) as connection:
        connection.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        connection.execute(drop, ["acme"])
    policy = await gateway.http.get(PATH, headers=ada)
    assert policy.json() == NO_POLICY | {"document_days": 60}
    await gateway.http.put(PATH, json={"document_days": None}, headers=ada)
    with psycopg.connect(database.dsn("citewire_chat")) as connection:
        connection.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        assert connection.execute(drop, ["acme"]).rowcount == 1
    await gateway.http.put(PATH, json={"document_days": 60}, headers=ada)
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("SELECT set_config('citewire.org_id', 'acme', false)")
        connection.execute("DELETE FROM chat.orgs WHERE org_id = 'acme'")
    assert rows(database, "SELECT FROM chat.retention_policies") == []
