"""Documents are deleted after their organisation's retention time, with answers from them; no others are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import psycopg
import pytest

from citewire_accounts.tenants.retention import Retention
from citewire_retriever.store import documents
from gateway_process import rows, until_rows
from office import CANARY, Office, running_office

if TYPE_CHECKING:
    from databases import Database


@pytest.fixture
async def office(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    monkeypatch.setattr(documents, "_AT_ONCE", 1)  # so that there are several batches
    async with running_office(database) as running:
        yield running


async def sweep(office: Office) -> None:
    services = office.gateway.services
    await Retention(services.retention.pool, services.trail, services.eraser.erase_old).sweep()


async def test_old_documents_are_deleted_with_answers_from_them(office: Office) -> None:
    for title in ("second old", "renewed", "young"):
        article = {"type": "article", "title": title, "content": title}
        assert (await office.call("ada", "POST", "/v1/documents", json=article)).status_code == 202
    with psycopg.connect(office.database.owner_dsn, autocommit=True) as connection:
        connection.execute("UPDATE corpus.documents SET created_at = now() - interval '31 days' WHERE title <> 'young'")
        connection.execute(
            "UPDATE corpus.versions v SET created_at = d.created_at FROM corpus.documents d"
            " WHERE d.org_id = v.org_id AND d.document_id = v.document_id AND d.title NOT IN ('renewed', 'Adas words')"
        )
        [bobs] = connection.execute("SELECT document_id FROM corpus.documents WHERE owner = 'bob.zeisig'").fetchall()
        connection.execute(  # as if written from bob's document
            "UPDATE chat.messages SET details = jsonb_build_object('citations', jsonb_build_array(jsonb_build_object("
            "'document_id', %s::bigint))) WHERE role = 'assistant'",
            bobs,
        )
    await sweep(office)  # without a policy, nothing is deleted
    titles = "SELECT title FROM corpus.documents ORDER BY title"
    assert len(rows(office.database, titles)) == 6
    policy = await office.call("ada", "PUT", "/v1/admin/retention", json={"document_days": 30})
    assert policy.json() == {"conversation_days": None, "document_days": 30, "expired_document_days": None}
    await sweep(office)
    left = ["Adas words", "Mallorys words", "renewed", "young"]
    assert [title for (title,) in rows(office.database, titles)] == left
    places = office.places(CANARY)
    assert not {place for place in places if place.startswith("table corpus.")}
    told = (
        "SELECT count(*) FROM chat.messages WHERE org_id = 'acme' AND role = 'assistant' AND NOT details ? 'withheld'"
    )
    await until_rows(office.database, told, [(0,)])
    await office.gateway.services.trail.flush()
    events = await office.call("ada", "GET", "/v1/admin/audit", params={"action": "document.expire"})
    assert [event["objects"] for event in events.json()["events"]] == [["documents:2"]]


async def test_expired_documents_are_deleted_after_the_set_days(office: Office) -> None:
    for title, ended in (("long ago", "2020-01-31"), ("today", "2099-01-31"), ("for good", None)):
        article = {"type": "article", "title": title, "content": title, "valid_until": ended}
        assert (await office.call("ada", "POST", "/v1/documents", json=article)).status_code == 202
    titles = "SELECT title FROM corpus.documents WHERE title IN ('long ago', 'today', 'for good') ORDER BY title"
    await sweep(office)  # without a policy, nothing is deleted
    assert len(rows(office.database, titles)) == 3
    policy = await office.call("ada", "PUT", "/v1/admin/retention", json={"expired_document_days": 7})
    assert policy.json() == {"conversation_days": None, "document_days": None, "expired_document_days": 7}
    with psycopg.connect(office.database.owner_dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE corpus.documents SET valid_until = now() - interval '6 days 23 hours' WHERE title = 'today'"
        )
    await sweep(office)
    assert [title for (title,) in rows(office.database, titles)] == ["for good", "today"]


async def test_who_may_erase_by_age(office: Office) -> None:
    """The retriever erases nothing for a member, or without a number of days."""
    bob = await office.call("ada", "PUT", "/v1/admin/users/bob.zeisig/role", json={"role": "editor"})
    assert bob.is_success
    refused = await office.call("bob.zeisig", "PUT", "/v1/admin/retention", json={"document_days": 1})
    assert refused.status_code == 403
    assert (await office.call("ada", "GET", "/v1/admin/retention")).json()["document_days"] is None
