"""Authentication: keys over HTTP, the keys commands, and row-level security between organisations."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest

from api_keys import bearer, key_for, keys
from citewire_accounts.tenants.identity import IdentityStore, make_key
from citewire_kit.postgres import open_pool
from citewire_kit.tenant import LOCAL_TENANT, Tenant
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway, until_rows

if TYPE_CHECKING:
    from databases import Database

QUESTION = {"question": "How much did revenue grow?"}
TABLES = (
    "orgs",
    "plans",
    "users",
    "api_keys",
    "conversations",
    "conversation_shares",
    "erasure_checks",
    "erasures",
    "feedback",
    "groups",
    "group_members",
    "messages",
    "exchanges",
    "idempotency_keys",
    "limits",
    "providers",
    "run_events",
    "saved_providers",
    "provider_rules",
    "profiles",
    "retention_policies",
    "sessions",
)


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as running:
        yield running


@pytest.fixture
def chat_role(database: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database.dsn("citewire_chat"), autocommit=True) as connection:
        yield connection


async def test_a_key_names_the_tenant_of_every_call(gateway: Gateway, database: Database) -> None:
    made = await key_for(database, "acme", "ada", "basic")
    response = await gateway.http.post("/v1/chat", json=QUESTION, headers=bearer(made["key"]))
    assert response.status_code == 200
    tenant = Tenant("acme", "ada", "basic", ("owner",), made["id"])
    assert gateway.fakes.embedder.tenants == [tenant]
    assert gateway.fakes.retriever.tenants == [tenant, tenant]  # the check for documents, and the search
    assert gateway.fakes.generator.tenants == [tenant]
    assert rows(database, "SELECT org_id, user_id FROM chat.exchanges") == [("acme", "ada")]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, "API_KEY_MISSING"),
        ("Bearer", "API_KEY_INVALID"),
        ("Bearer nonsense", "API_KEY_INVALID"),
        ("Basic cw_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "API_KEY_INVALID"),
        ("Bearer cw_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "API_KEY_INVALID"),
    ],
)
async def test_without_a_valid_key_the_body_is_not_checked(gateway: Gateway, header: str | None, reason: str) -> None:
    headers = {"Content-Type": "application/json"} | ({"Authorization": header} if header is not None else {})
    calls = [
        ("POST", "/v1/chat", b"{"),
        ("POST", "/api/chat/", b"{"),
        ("POST", "/api/chat/query", b"{"),
        ("POST", "/v1/search", b"{"),
        ("POST", "/v1/documents", b"{"),
        ("GET", "/v1/documents?page_size=x", b""),
        ("POST", "/v1/documents:batch", b"{"),
        ("PUT", "/v1/documents/1", b"{"),
        ("PATCH", "/v1/documents/1", b"{"),
        ("DELETE", "/v1/documents/1", b""),
        ("GET", "/v1/documents/1/content", b""),
        ("GET", "/v1/documents/1/events", b""),
        ("POST", "/v1/documents/1:retry", b""),
        ("GET", "/v1/chunks/1", b""),
        ("GET", "/v1/collections", b""),
        ("POST", "/v1/collections", b"{"),
        ("PATCH", "/v1/collections/x", b"{"),
        ("DELETE", "/v1/collections/x", b""),
        ("GET", "/v1/conversations", b""),
        ("GET", "/v1/conversations/x", b""),
        ("PATCH", "/v1/conversations/x", b"{"),
        ("DELETE", "/v1/conversations/x", b""),
        ("GET", "/v1/conversations/x/sharing", b""),
        ("PUT", "/v1/conversations/x/sharing", b"{"),
        ("GET", "/v1/profiles", b""),
    ]
    for method, path, content in calls:
        response = await gateway.http.request(method, path, content=content, headers=headers)
        assert response.status_code == 401, (method, path, response.text)
        assert response.json()["reason"] == reason
        challenge = response.headers["www-authenticate"]
        assert challenge.startswith('Bearer realm="citewire"')
        assert ('error="invalid_token"' in challenge) == (reason != "API_KEY_MISSING")
    assert gateway.fakes.embedder.requests == []


async def test_health_and_the_api_document_need_no_key(gateway: Gateway) -> None:
    for path in ("/livez", "/readyz", "/openapi.json", "/docs"):
        assert (await gateway.http.get(path)).status_code == 200, path


async def test_a_revoked_key_stops_working_at_once(gateway: Gateway, database: Database) -> None:
    made = await key_for(database, "acme", "ada")
    headers = bearer(made["key"])
    assert (await gateway.http.get("/v1/profiles", headers=headers)).status_code == 200
    done = await asyncio.to_thread(keys, database, "revoke", made["id"], "--json")
    assert json.loads(done.stdout)["revoked_at"]
    response = await gateway.http.get("/v1/profiles", headers=headers)
    assert (response.status_code, response.json()["reason"]) == (401, "API_KEY_REVOKED")


async def test_the_last_use_is_not_written_with_each_request(gateway: Gateway, database: Database) -> None:
    made = await key_for(database, "acme", "ada")
    assert rows(database, "SELECT last_used_at FROM chat.api_keys") == [(None,)]
    for _ in range(3):
        await gateway.http.get("/v1/profiles", headers=bearer(made["key"]))
    assert rows(database, "SELECT last_used_at FROM chat.api_keys") == [(None,)]
    await gateway.services.authenticator.flush()
    assert rows(database, "SELECT last_used_at > now() - interval '1 minute' FROM chat.api_keys") == [(True,)]


async def test_one_organisation_sees_nothing_of_another(gateway: Gateway, database: Database) -> None:
    ada, bob = [bearer((await key_for(database, org, "user"))["key"]) for org in ("acme", "other")]
    asked = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False}, headers=ada)
    path = f"/v1/conversations/{asked.json()['conversation_id']}"
    assert (await gateway.http.get(path, headers=ada)).status_code == 200
    for method, body in (("GET", None), ("PATCH", {"title": "x"}), ("DELETE", None)):
        response = await gateway.http.request(method, path, json=body, headers=bob)
        assert (response.status_code, response.json()["reason"]) == (404, "CONVERSATION_NOT_FOUND")
    continued = {**QUESTION, "conversation_id": asked.json()["conversation_id"]}
    assert (await gateway.http.post("/v1/chat", json=continued, headers=bob)).status_code == 404
    assert (await gateway.http.get("/v1/conversations", headers=bob)).json()["conversations"] == []
    document = {"type": "article", "title": "x", "content": "x"}
    stored = await gateway.http.post("/v1/documents", json=document, headers=ada | {"Idempotency-Key": "k"})
    assert (await gateway.http.get(stored.headers["location"], headers=bob)).status_code == 404
    # The same Idempotency-Key of another organisation is another key.
    again = await gateway.http.post("/v1/documents", json=document, headers=bob | {"Idempotency-Key": "k"})
    assert again.json()["id"] != stored.json()["id"]


async def test_another_user_of_the_organisation_sees_no_conversation_either(
    gateway: Gateway, database: Database
) -> None:
    ada, bob = [bearer((await key_for(database, "acme", user))["key"]) for user in ("ada", "bob")]
    asked = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False}, headers=ada)
    path = f"/v1/conversations/{asked.json()['conversation_id']}"
    assert (await gateway.http.get(path, headers=bob)).status_code == 404
    assert (await gateway.http.get("/v1/conversations", headers=bob)).json()["conversations"] == []


def test_every_table_has_row_level_security(database: Database, chat_role: psycopg.Connection) -> None:
    tables = rows(
        database,
        "SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity, pg_get_userbyid(c.relowner), "
        "(SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'tenant'), "
        "(SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] "
        " WHERE i.indrelid = c.oid AND i.indisprimary) "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'chat' AND c.relkind IN ('r', 'p') "
        "AND c.relname NOT IN ('schema_migrations', 'audit_blocks', 'audit_events', 'audit_policies', 'operator_keys') "
        "ORDER BY 1",
    )
    assert [row[0] for row in tables] == sorted(TABLES)
    for name, secured, forced, owner, policies, first_key_column in tables:
        assert (secured, forced, policies, first_key_column) == (True, True, 1, "org_id"), name
        assert owner != "citewire_chat"
    role = rows(database, "SELECT rolcanlogin, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = 'citewire_chat'")
    assert role == [(True, False, False)]


async def test_the_role_sees_and_writes_only_its_tenants_rows(
    gateway: Gateway, database: Database, chat_role: psycopg.Connection
) -> None:
    for org in ("acme", "other"):
        key = (await key_for(database, org, "user"))["key"]
        asked = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False}, headers=bearer(key))
        sharing = f"/v1/conversations/{asked.json()['conversation_id']}/sharing"
        shared = await gateway.http.put(sharing, json={"organisation": True}, headers=bearer(key))
        assert shared.status_code == 200
        answer = f"/v1/conversations/{asked.json()['conversation_id']}/answers/{asked.json()['exchange_id']}"
        rated = await gateway.http.put(f"{answer}/feedback", json={"rating": "up"}, headers=bearer(key))
        assert rated.status_code == 200
        own = {"provider": "openai", "api_key": "sk-canary"}
        assert (await gateway.http.put("/v1/providers/chat", json=own, headers=bearer(key))).status_code == 200
        assert (await gateway.http.put("/v1/providers/chat/spare", json=own, headers=bearer(key))).status_code == 200
        rule = {"require_own": False}
        assert (await gateway.http.patch("/v1/providers", json=rule, headers=bearer(key))).status_code == 200
        profile = {"base": "grounded"}
        assert (await gateway.http.put("/v1/profiles/mine", json=profile, headers=bearer(key))).status_code == 200
        document = {"type": "article", "title": "x", "content": "x"}
        await gateway.http.post("/v1/documents", json=document, headers=bearer(key) | {"Idempotency-Key": "k"})
        group = {"name": "legal"}
        assert (await gateway.http.post("/v1/admin/groups", json=group, headers=bearer(key))).status_code == 201
        joined = await gateway.http.put("/v1/admin/groups/legal/members/user", headers=bearer(key))
        assert joined.status_code == 200
        response = await gateway.http.put("/v1/admin/retention", json={"conversation_days": 30}, headers=bearer(key))
        assert response.status_code == 200, response.text
        limit = {"scope": "user", "user": "user", "measure": "streams", "limit": 9}
        assert (await gateway.http.put("/v1/admin/limits", json=limit, headers=bearer(key))).status_code == 200
        with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO chat.sessions "
                "(org_id, session_id, user_id, id_hash, issuer, groups, sealed_tokens, fresh_until, expires_at) "
                "VALUES (%(org)s::text, 's', 'user', sha256(convert_to(%(org)s::text, 'UTF8')), 'default', '{}', '', "
                "now(), now())",
                {"org": org},
            )
            connection.execute(
                "INSERT INTO chat.erasures "
                "(org_id, erasure_id, subject_kind, subject, successor, documents, requested_by, next_at) "
                "VALUES (%(org)s::text, gen_random_uuid(), 'user', 'bob', 'erased:1', 'keep', 'user', 'infinity')",
                {"org": org},
            )
            connection.execute(
                "INSERT INTO chat.run_events "
                "(org_id, exchange_id, first_sequence, last_sequence, user_id, codec, payload) "
                "SELECT org_id, exchange_id, 1, 1, user_id, 1, '[]' FROM chat.exchanges WHERE org_id = %(org)s LIMIT 1",
                {"org": org},
            )
    for table in TABLES:
        count = f"SELECT count(*) FROM chat.{table}"  # noqa: S608 # names of our own tables, no input
        everything = rows(database, count)[0][0]
        assert everything >= 2, table
        assert chat_role.execute(count.encode()).fetchone() == (0,), f"{table} without a tenant"
        with chat_role.transaction():
            chat_role.execute(
                "SELECT set_config('citewire.org_id', 'acme', true), set_config('citewire.user_id', 'user', true)"
            )
            assert chat_role.execute(count.encode()).fetchone() == (everything // 2,), table
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        _insert_for_another_tenant(chat_role)


def _insert_for_another_tenant(chat_role: psycopg.Connection) -> None:
    with chat_role.transaction():
        chat_role.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        chat_role.execute(
            "INSERT INTO chat.exchanges (org_id, exchange_id, user_id, profile, dialect, request_id, lease_until) "
            "VALUES ('other', gen_random_uuid(), 'u', 'p', 'd', 'r', now())"
        )


def test_the_lookup_returns_only_the_owner_of_a_key(database: Database, chat_role: psycopg.Connection) -> None:
    made = json.loads(keys(database, "create", "--org", "acme", "--user", "ada", "--json").stdout)
    hashed = "sha256(convert_to(%s, 'UTF8'))"
    row = chat_role.execute(f"SELECT * FROM chat.authenticate({hashed})".encode(), (made["key"],)).fetchone()  # noqa: S608 # names of our own tables, no input
    assert row == ("acme", "ada", "pro", ["owner"], False, made["id"])
    assert chat_role.execute("SELECT * FROM chat.authenticate(''::bytea)").fetchall() == []
    stored = rows(database, "SELECT key_hash, prefix FROM chat.api_keys")[0]
    assert len(stored[0]) == 32
    assert stored[1] == made["key"][:11] == made["prefix"]
    # Nobody but the gateway's role may ask.
    public = rows(
        database,
        "SELECT has_function_privilege('public', 'chat.authenticate(bytea)', 'execute'), "
        "has_function_privilege('public', 'chat.sweep(integer)', 'execute'), "
        "has_function_privilege('public', 'chat.touch_api_keys(bytea[], timestamptz[])', 'execute')",
    )
    assert public == [(False, False, False)]


def test_keys_are_created_listed_and_revoked(database: Database) -> None:
    made = keys(database, "create", "--org", "acme", "--user", "ada", "--name", "laptop")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("cw_")
    assert len(made.stdout.strip()) == 46
    other = json.loads(keys(database, "create", "--org", "other", "--user", "bob", "--json").stdout)
    listed = keys(database, "list", "--json")
    assert made.stdout.strip() not in listed.stdout
    entries = json.loads(listed.stdout)["keys"]
    assert [(entry["org"], entry["user"], entry["name"]) for entry in entries] == [
        ("acme", "ada", "laptop"),
        ("other", "bob", "key"),
    ]
    assert set(entries[0]) == {
        "id", "org", "user", "name", "prefix", "created_at", "revoked_at", "last_used_at", "scopes", "expires_at",
        "previous_until", "groups",
    }  # fmt: skip
    only = json.loads(keys(database, "list", "--org", "acme", "--json").stdout)["keys"]
    assert [entry["org"] for entry in only] == ["acme"]
    assert "laptop" in keys(database, "list").stdout
    assert json.loads(keys(database, "revoke", entries[0]["prefix"], "--json").stdout)["id"] == entries[0]["id"]
    missing = keys(database, "revoke", "key_nonsense")
    assert (missing.returncode, "key_nonsense" in missing.stderr) == (5, True)
    assert keys(database, "revoke", other["id"]).returncode == 0


def test_the_application_role_manages_one_organisation_at_a_time(database: Database) -> None:
    made = json.loads(keys(database, "create", "--org", "acme", "--user", "ada", "--json", owner=False).stdout)
    assert keys(database, "list", owner=False).returncode == 2
    listed = keys(database, "list", "--org", "acme", "--json", owner=False)
    assert [entry["id"] for entry in json.loads(listed.stdout)["keys"]] == [made["id"]]
    assert keys(database, "revoke", made["id"], "--org", "other", owner=False).returncode == 5
    assert keys(database, "revoke", made["id"], "--org", "acme", owner=False).returncode == 0


def test_the_plan_stays_unless_another_is_named(database: Database) -> None:
    create = ("create", "--org", "acme", "--user", "ada", "--json")
    assert json.loads(keys(database, *create, "--plan", "free").stdout)["plan"] == "free"
    assert json.loads(keys(database, *create).stdout)["plan"] == "free"
    assert json.loads(keys(database, *create, "--plan", "basic").stdout)["plan"] == "basic"
    assert json.loads(keys(database, "create", "--org", "new", "--user", "x", "--json").stdout)["plan"] == "pro"


def test_bad_names_are_refused(database: Database) -> None:
    for arguments in (["--org", "a b"], ["--user", "ü"], ["--name", ""], ["--name", "x" * 101]):
        done = keys(database, "create", *arguments)
        assert done.returncode == 1, arguments
        assert arguments[0] in done.stderr
    assert rows(database, "SELECT count(*) FROM chat.orgs") == [(0,)]


def test_without_a_database_the_command_says_which_variable_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "citewire_gateway", "keys", "list"],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "CITEWIRE_GATEWAY_MIGRATE_DSN" in done.stderr


async def test_the_functions_work_for_an_owner_without_superuser_rights(database: Database) -> None:
    """In production the owner may not be a superuser, and FORCE ROW LEVEL SECURITY applies to owners."""
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA chat CASCADE")
        connection.execute("DROP ROLE IF EXISTS plain_owner")
        connection.execute("CREATE ROLE plain_owner LOGIN NOSUPERUSER NOBYPASSRLS")
        name = connection.execute("SELECT quote_ident(current_database())").fetchone()
        assert name is not None
        connection.execute(f"GRANT CREATE ON DATABASE {name[0]} TO plain_owner".encode())
    try:
        migrated = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "citewire_gateway", "migrate"],
            env={"CITEWIRE_GATEWAY_MIGRATE_DSN": database.dsn("plain_owner")},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert migrated.returncode == 0, migrated.stderr
        pool = await open_pool(database.dsn("citewire_chat"), name="test")
        try:
            store, key = IdentityStore(pool), make_key()
            await store.ensure_user("acme", "ada", None)
            await store.add_key("acme", "ada", "k", key)
            match = await store.find(key.hash)
            assert match is not None
            assert match.caller.tenant == Tenant("acme", "ada", "pro", ("owner",), key.key_id)
            insert = (
                "INSERT INTO chat.exchanges (org_id, exchange_id, user_id, profile, dialect, request_id, lease_until) "
                "SELECT 'acme', gen_random_uuid(), 'ada', 'documents', 'native', 'r', now() - interval '1 s' "
                "RETURNING 1"
            )
            assert rows(database, insert) == [(1,)]
            async with pool.connection() as connection:
                swept = await (await connection.execute("SELECT * FROM chat.sweep(10)")).fetchone()
            assert swept == (1, 0)
        finally:
            await pool.close()
    finally:
        with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
            connection.execute("DROP OWNED BY plain_owner CASCADE")
            connection.execute("DROP ROLE plain_owner")


async def test_with_auth_off_everyone_is_the_local_tenant(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="off") as gateway:
        for headers in ({}, bearer("nonsense"), {"Authorization": "Basic x"}):
            assert (await gateway.http.post("/v1/chat", json=QUESTION, headers=headers)).status_code == 200
        assert set(fakes.generator.tenants) == {LOCAL_TENANT}
        query = "SELECT org_id, plan FROM chat.plans"
        await until_rows(database, query, [("local", "pro")])
        assert rows(database, "SELECT user_id, roles FROM chat.users") == [("local", ["owner"])]


async def test_auth_off_stays_on_loopback(database: Database) -> None:
    with pytest.raises(ValueError, match="loopback"):
        async with running_fakes() as fakes, running_gateway(database, fakes, auth="off", host="192.0.2.1"):
            pass


async def test_a_key_may_come_in_anthropics_header(gateway: Gateway, database: Database) -> None:
    made = await key_for(database, "acme", "ada", "basic")
    asked = await gateway.http.post("/v1/chat", json=QUESTION, headers={"x-api-key": made["key"]})
    assert asked.status_code == 200
    tenant = gateway.fakes.generator.tenants[-1]
    assert tenant is not None
    assert tenant.org_id == "acme"
    wrong = await gateway.http.post("/v1/chat", json=QUESTION, headers={"x-api-key": "cw_nonsense"})
    assert wrong.json()["reason"] == "API_KEY_INVALID"
