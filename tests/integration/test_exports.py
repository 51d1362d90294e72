"""A user's export has every row of every table that names the user, but no secrets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from api_keys import bearer, key_for
from citewire_kit import user_rows
from citewire_kit.canary import find_in_database
from gateway_process import rows
from office import Office, running_office

if TYPE_CHECKING:
    from databases import Database

BOB = "bob.zeisig"
WORDS = "Worte4711 von mir"
NOT_EXPORTED = {
    "corpus.document_values": "how often labels stand in the documents, which are exported",
    "chat.run_events": "answers again, for minutes: chat.messages has them",
    "corpus.accesses": "readers of documents, together: one by one they are corpus.access_readers",
    "pg_catalog.pg_statistic": "the planner's, of the tables themselves",
}
"""Tables that may name a user but aren't exported, and why."""


@pytest.fixture
async def office(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    monkeypatch.setattr(user_rows, "_PAGE", 2)  # so that everything has several pages
    async with running_office(database, WORDS) as running:
        yield running


async def lines(office: Office, who: str, of: str = BOB) -> list[dict[str, Any]]:
    response = await office.call(who, "GET", f"/v1/users/{of}/export")
    assert response.status_code == 200, response.text
    assert response.headers["cache-control"] == "no-store"
    read = [json.loads(line) for line in response.text.split("\n")[:-1]]
    assert (read[0]["kind"], read[0]["record"]["user"]) == ("export", of)
    assert read[-1] == {"kind": "end", "record": {"records": len(read) - 2}}
    return read[1:-1]


async def use_name_everywhere(office: Office) -> None:
    """Puts Bob's name into every table that can have it: by calls, or by SQL where a real provider would be needed."""

    async def call_api(user: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 # read loosely
        response = await office.call(user, method, path, json=body)
        assert response.is_success, (path, response.text)
        return response.json() if response.content else None

    key = (await call_api("ada", "POST", "/v1/keys", {"name": "k", "user": BOB}))["id"]
    await call_api("ada", "POST", "/v1/admin/groups", {"name": "birds"})
    await call_api("ada", "PUT", f"/v1/admin/groups/birds/members/{BOB}")
    for scope in ({"scope": "user", "user": BOB}, {"scope": "key", "key_id": key}):
        await call_api("ada", "PUT", "/v1/budgets", {**scope, "period": "day", "limit_usd": 1})
        await call_api("ada", "PUT", "/v1/admin/limits", {**scope, "measure": "streams", "limit": 9})
    grants = [{"subject": f"user:{BOB}", "access": "manage"}, {"subject": "user:ada", "access": "read"}]
    await call_api("ada", "PUT", "/v1/collections/shared/grants", {"grants": grants})
    readable = {"type": "article", "title": "t", "content": "c", "readers": [f"user:{BOB}", "user:ada"]}
    await call_api("ada", "POST", "/v1/documents", readable)
    await call_api("ada", "POST", f"/v1/admin/users/{BOB}:enable")
    with psycopg.connect(office.database.owner_dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO chat.sessions (org_id, session_id, user_id, id_hash, issuer, groups, sealed_tokens,"
            " fresh_until, expires_at) VALUES ('acme', 's1', %s, sha256('SecretCookie'), 'idp', '{}', 'SecretTokens',"
            " now(), now() + interval '1 hour')",
            (BOB,),
        )
        for table in ("providers", "saved_providers"):
            connection.execute(
                f"INSERT INTO chat.{table} (org_id, user_id, type, position, provider, model, sealed_key, updated_by)"  # noqa: S608 # names of our own
                " VALUES ('acme', %s, 'chat', 0, 'openai', 'm', 'SecretKey', %s)".encode(),
                (BOB, BOB),
            )
        connection.execute("INSERT INTO chat.groups (org_id, name, created_by) VALUES ('acme', 'own', %s)", (BOB,))
        connection.execute(
            "INSERT INTO chat.profiles (org_id, name, version, base, changes, created_by)"
            " VALUES ('acme', 'p', 1, 'documents', '{}', %s)",
            (BOB,),
        )
        connection.execute(
            "INSERT INTO chat.erasures (org_id, erasure_id, subject_kind, subject, successor, documents, requested_by,"
            " next_at) VALUES ('acme', gen_random_uuid(), 'user', %s, 'erased:1', 'keep', 'ada', 'infinity')",
            (BOB,),
        )
    await office.gateway.services.trail.flush()


async def test_every_row_that_names_a_user_is_exported_but_no_secret(office: Office) -> None:
    await use_name_everywhere(office)
    stored = {
        trace.place.removeprefix("table "): trace.count for trace in find_in_database(office.database.owner_dsn, BOB)
    }
    could = rows(
        office.database,
        "SELECT DISTINCT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition"
        " AND n.nspname IN ('chat', 'corpus', 'ledger') AND a.attname IN"
        " ('user_id', 'owner', 'created_by', 'updated_by', 'requested_by', 'subject', 'reader', 'readers', 'objects')",
    )
    assert {table for (table,) in could} <= stored.keys() | NOT_EXPORTED.keys(), (
        "fill these as well, or else the comparison doesn't cover them"
    )
    export = await lines(office, "ada")
    exported = Counter(line["kind"] for line in export)
    missing = {
        table: (count, exported[table])
        for table, count in stored.items()
        if table not in NOT_EXPORTED and exported[table] < count
    }
    assert missing == {}
    texts = [json.dumps(line) for line in export]
    assert len(set(texts)) == len(texts)
    # It only has rows of others if the user did something with them, or they with the user.
    keys = [line["record"]["key_id"] for line in export if line["kind"] == "chat.api_keys"]
    conversations = [line["record"]["conversation_id"] for line in export if line["kind"] == "chat.conversations"]
    documents = [
        f'"document_id": {line["record"]["document_id"]}' for line in export if line["kind"] == "corpus.documents"
    ]
    assert [text for text in texts if not any(name in text for name in (BOB, *keys, *conversations, *documents))] == []
    # The answers are there, with the question's words; secrets aren't, in any form.
    messages = [line["record"] for line in export if line["kind"] == "chat.messages"]
    assert [(message["role"], message["content"] == WORDS) for message in messages] == [
        ("user", True),
        ("assistant", False),
    ]
    whole = "\n".join(texts)
    for secret in ("SecretCookie", "SecretTokens", "SecretKey", office.headers[BOB]["Authorization"][7:]):
        assert secret not in whole
        assert secret.encode().hex() not in whole
    assert "\\\\x" not in whole


async def test_who_may_export_what(office: Office) -> None:
    """Users export their own data, admins that of all of the organisation; of other organisations nothing is shown."""
    for user in ("carol", "dora"):
        office.headers[user] = bearer((await key_for(office.database, "acme", user))["key"])
    assert (await office.call("ada", "PUT", "/v1/admin/users/carol/role", json={"role": "reader"})).is_success
    assert (await office.call("ada", "PUT", "/v1/admin/users/dora/role", json={"role": "admin"})).is_success
    limited = {"name": "l", "scopes": ["read", "chat", "write"]}
    key = (await office.call("dora", "POST", "/v1/keys", json=limited)).json()["key"]
    for who, headers in (("carol", office.headers["carol"]), ("an admin's key without the scope", bearer(key))):
        office.headers[who] = headers
        refused = await office.call(who, "GET", f"/v1/users/{BOB}/export")
        assert (refused.status_code, refused.json()["reason"]) == (403, "PERMISSION_DENIED"), who
    await office.gateway.services.trail.flush()  # both exports have the trail so far
    own, of_admin = await lines(office, BOB), await lines(office, "dora")
    kinds = {"corpus.documents", "corpus.versions", "chat.messages", "chat.users", "ledger.calls", "chat.api_keys"}
    assert kinds <= {line["kind"] for line in own} == {line["kind"] for line in of_admin}
    assert await lines(office, "mallory") == []
    assert {line["record"].get("org_id", "acme") for line in own} == {"acme"}
    malformed = await office.call("ada", "GET", "/v1/users/bob%20b/export")
    assert malformed.status_code == 422
    await office.gateway.services.trail.flush()
    noted = rows(
        office.database, "SELECT user_id, outcome, objects FROM chat.audit_events WHERE action = 'user.export'"
    )
    assert {("carol", "refused"), (BOB, "ok"), ("dora", "ok"), ("mallory", "ok")} <= {(u, how) for u, how, _ in noted}
    assert [f"user:{BOB}"] in [objects for _, _, objects in noted]


async def test_others_actions_on_a_user_are_exported_without_their_addresses(office: Office) -> None:
    assert (await office.call("ada", "POST", f"/v1/admin/users/{BOB}:enable")).is_success
    await office.gateway.services.trail.flush()
    events = [line["record"] for line in await lines(office, BOB) if line["kind"] == "chat.audit_events"]
    assert {event["action"] for event in events if event["user_id"] == "ada"} >= {"user.enable"}
    assert all(("address" in event) == (event["user_id"] == BOB) for event in events)


async def test_answers_from_documents_hidden_since_are_withheld_in_an_export(office: Office) -> None:
    def answers(export: list[dict[str, Any]]) -> list[bool]:
        messages = [line["record"] for line in export if line["kind"] == "chat.messages"]
        return ["withheld" in message["details"] for message in messages if message["role"] == "assistant"]

    with psycopg.connect(
        office.database.owner_dsn, autocommit=True
    ) as connection:  # as if answered from ada's document
        connection.execute(
            "UPDATE chat.messages SET details = jsonb_build_object('citations', jsonb_build_array(jsonb_build_object("
            "'document_id', (SELECT document_id FROM corpus.documents WHERE owner = 'ada')))) WHERE role = 'assistant'"
        )
    assert answers(await lines(office, BOB)) == [False]
    grants = {"grants": [{"subject": "user:ada", "access": "manage"}]}
    assert (await office.call("ada", "PUT", "/v1/collections/shared/grants", json=grants)).is_success
    assert answers(await lines(office, BOB)) == [True]
    assert answers(await lines(office, "ada")) == [False]


async def test_an_incomplete_export_is_refused_or_lacks_its_end(office: Office) -> None:
    with psycopg.connect(office.database.owner_dsn, autocommit=True) as connection:
        connection.execute("REVOKE SELECT ON chat.api_keys FROM citewire_chat")
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            await office.call(BOB, "GET", f"/v1/users/{BOB}/export")
        connection.execute("GRANT SELECT ON chat.api_keys TO citewire_chat")
        connection.execute("REVOKE SELECT ON corpus.collection_grants FROM citewire_corpus")
        refused = await office.call("ada", "GET", f"/v1/users/{BOB}/export")
        assert refused.status_code == 500, refused.text
