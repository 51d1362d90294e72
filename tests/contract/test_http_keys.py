"""API keys over HTTP and by the keys commands: scopes, expiry, rotation with overlap, and who may create which keys."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from api_keys import bearer, keys
from citewire_accounts.tenants.identity import IdentityStore, make_key
from citewire_kit.postgres import open_pool
from citewire_kit.tenant import Tenant
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

QUESTION = {"question": "How much did revenue grow?", "stream": False}
ARTICLE = {"type": "article", "title": "x", "content": "x"}
CALLS: dict[str, list[tuple[str, str, Any]]] = {
    "read": [
        ("GET", "/v1/documents", None),
        ("GET", "/v1/usage", None),
        ("POST", "/v1/search", {"query": "revenue"}),
    ],
    "chat": [("POST", "/v1/chat", QUESTION), ("POST", "/api/rag-chat", {"question": "hi"})],
    "write": [("POST", "/v1/documents", ARTICLE), ("DELETE", "/v1/providers/chat", None)],
    "admin": [
        ("PUT", "/v1/budgets", {"period": "day", "limit_usd": 1}),
        ("PUT", "/v1/profiles/mine", {"base": "grounded"}),
        ("GET", "/v1/keys", None),
        ("POST", "/v1/keys", {}),
    ],
}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as running:
        yield running


async def key_of(database: Database, org: str, user: str) -> dict[str, Any]:
    """A new key with all scopes, made without running the command."""
    pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
    store, key = IdentityStore(pool), make_key()
    await store.ensure_user(org, user, "pro")
    await store.add_key(org, user, "first", key)
    await pool.close()
    return {"key": key.text, "id": key.key_id}


async def make_key_with(gateway: Gateway, key: str, **body: object) -> dict[str, Any]:
    response = await gateway.http.post("/v1/keys", json=body, headers=bearer(key))
    assert response.status_code == 201, response.text
    assert response.headers["cache-control"] == "no-store"
    return response.json()


async def status_of(gateway: Gateway, key: str) -> tuple[int, str]:
    response = await gateway.http.get("/v1/documents", headers=bearer(key))
    return response.status_code, response.json().get("reason", "")


def let_time_pass(database: Database, hours: int) -> None:
    """Moves all times of keys into the past."""
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE chat.api_keys SET expires_at = expires_at - %(past)s, previous_until = previous_until - %(past)s",
            {"past": timedelta(hours=hours)},
        )


@pytest.mark.parametrize("scope", CALLS)
async def test_a_key_may_do_only_what_its_scopes_allow(gateway: Gateway, database: Database, scope: str) -> None:
    owner = (await key_of(database, "acme", "ada"))["key"]
    limited = (await make_key_with(gateway, owner, scopes=[scope]))["key"]
    for needed, calls in CALLS.items():
        for method, path, body in calls:
            response = await gateway.http.request(method, path, json=body, headers=bearer(limited))
            refused = response.status_code == 403 and response.json()["reason"] == "SCOPE_MISSING"
            assert refused == (needed != scope), (method, path, response.text)
            if refused:
                assert response.json()["scope"] == needed
                assert f"needs the scope {needed}" in response.json()["detail"]
    assert await status_of(gateway, owner) == (200, "")


async def test_services_see_no_role_above_what_the_scopes_need(gateway: Gateway, database: Database) -> None:
    owner = (await key_of(database, "acme", "ada"))["key"]
    for scopes, role in ((["chat"], "reader"), (["chat", "write"], "editor"), (["chat", "admin"], "owner")):
        made = await make_key_with(gateway, owner, scopes=scopes)
        gateway.fakes.generator.tenants.clear()
        assert (await gateway.http.post("/v1/chat", json=QUESTION, headers=bearer(made["key"]))).status_code == 200
        assert gateway.fakes.generator.tenants == [Tenant("acme", "ada", "pro", (role,), made["id"])]


async def test_an_expired_key_says_so(gateway: Gateway, database: Database) -> None:
    owner = (await key_of(database, "acme", "ada"))["key"]
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    made = await make_key_with(gateway, owner, expires_at=tomorrow)
    assert await status_of(gateway, made["key"]) == (200, "")
    let_time_pass(database, 25)
    assert await status_of(gateway, made["key"]) == (401, "API_KEY_EXPIRED")
    assert await status_of(gateway, owner) == (200, "")


async def test_a_rotated_key_works_until_the_overlap_is_over(gateway: Gateway, database: Database) -> None:
    first = await key_of(database, "acme", "ada")
    path = f"/v1/keys/{first['id']}:rotate"
    response = await gateway.http.post(path, json={"overlap_seconds": 7200}, headers=bearer(first["key"]))
    second = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert second["id"] == first["id"], "budgets and usage must carry on"
    assert second["key"] != first["key"]
    assert await status_of(gateway, first["key"]) == await status_of(gateway, second["key"]) == (200, "")
    let_time_pass(database, 1)
    assert await status_of(gateway, first["key"]) == (200, "")
    let_time_pass(database, 2)
    assert await status_of(gateway, first["key"]) == (401, "API_KEY_EXPIRED")
    assert await status_of(gateway, second["key"]) == (200, "")
    # Without overlap the old secret ends at once; with it, only the last one before still works.
    third = (await gateway.http.post(path, json={"overlap_seconds": 0}, headers=bearer(second["key"]))).json()
    assert await status_of(gateway, second["key"]) == (401, "API_KEY_EXPIRED")
    assert await status_of(gateway, first["key"]) == (401, "API_KEY_INVALID")
    assert (await gateway.http.delete(f"/v1/keys/{first['id']}", headers=bearer(third["key"]))).status_code == 204
    assert await status_of(gateway, third["key"]) == (401, "API_KEY_REVOKED")


async def test_a_rotation_never_prolongs_an_old_secret(gateway: Gateway, database: Database) -> None:
    owner = (await key_of(database, "acme", "ada"))["key"]
    now = datetime.now(UTC)
    made = await make_key_with(gateway, owner, expires_at=(now + timedelta(hours=2)).isoformat())
    body = {"overlap_seconds": 86_400, "expires_at": (now + timedelta(days=30)).isoformat()}
    path = f"/v1/keys/{made['id']}:rotate"
    rotated = (await gateway.http.post(path, json=body, headers=bearer(owner))).json()
    let_time_pass(database, 3)
    assert await status_of(gateway, made["key"]) == (401, "API_KEY_EXPIRED")
    assert await status_of(gateway, rotated["key"]) == (200, "")
    let_time_pass(database, 24 * 30)
    response = await gateway.http.post(path, json={}, headers=bearer(owner))
    assert (response.status_code, response.json()["reason"]) == (409, "WRONG_STATE")


async def test_a_key_grants_no_more_than_it_has(gateway: Gateway, database: Database) -> None:
    owner = (await key_of(database, "acme", "ada"))["key"]
    soon = datetime.now(UTC) + timedelta(hours=1)
    short = (await make_key_with(gateway, owner, scopes=["read", "admin"], expires_at=soon.isoformat()))["key"]
    later = (soon + timedelta(hours=1)).isoformat()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"scopes": ["chat"], "expires_at": soon.isoformat()}, "scopes"),
        ({"scopes": ["read"]}, "expires_at"),
        ({"scopes": ["read"], "expires_at": later}, "expires_at"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["read", "read"]}, "scopes"),
        ({"scopes": ["root"]}, "scopes.0"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
    ]
    for body, field in refused:
        response = await gateway.http.post("/v1/keys", json=body, headers=bearer(short))
        assert response.status_code == 422, (body, response.text)
        assert response.json()["errors"][0]["field"] == field, body
    whole = (await gateway.http.get("/v1/keys", headers=bearer(owner))).json()["keys"][0]
    response = await gateway.http.post(f"/v1/keys/{whole['id']}:rotate", json={}, headers=bearer(short))
    assert response.status_code == 422, "its secret would give the caller more than they have"


async def test_members_have_their_own_keys_and_admins_those_of_lesser_roles(
    gateway: Gateway, database: Database
) -> None:
    ada, bob, eve = [await key_of(database, "acme", user) for user in ("ada", "bob", "eve")]
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute("UPDATE chat.users SET roles = '{admin}' WHERE user_id = 'bob'")
    other = await key_of(database, "other", "ada")

    async def status(method: str, path: str, who: dict[str, Any], **body: object) -> int:
        given = body if method == "POST" else None
        return (await gateway.http.request(method, path, headers=bearer(who["key"]), json=given)).status_code

    assert await status("GET", f"/v1/keys/{ada['id']}", eve) == 404
    assert await status("DELETE", f"/v1/keys/{ada['id']}", eve) == 404
    assert await status("POST", f"/v1/keys/{ada['id']}:rotate", eve) == 404
    assert await status("GET", "/v1/keys?scope=org", eve) == 403
    assert await status("GET", "/v1/keys?user=ada", eve) == 403
    assert await status("POST", "/v1/keys", eve, user="ada") == 403
    # Bob is an admin: he manages keys for Eve, but not for the owner Ada or users of another organisation.
    assert await status("POST", "/v1/keys", bob, user="eve") == 201
    assert await status("POST", "/v1/keys", bob, user="ada") == 403
    assert await status("POST", "/v1/keys", bob, user="nobody") == 422
    assert await status("POST", f"/v1/keys/{ada['id']}:rotate", bob) == 403
    assert await status("GET", f"/v1/keys/{other['id']}", bob) == 404
    listed = (await gateway.http.get("/v1/keys?scope=org", headers=bearer(bob["key"]))).json()["keys"]
    assert [key["user"] for key in listed] == ["ada", "bob", "eve", "eve"]
    assert not any({"key", "key_hash", "hash"} & key.keys() for key in listed)
    own = (await gateway.http.get("/v1/keys", headers=bearer(eve["key"]))).json()["keys"]
    assert {key["id"] for key in own} == {key["id"] for key in listed if key["user"] == "eve"}
    assert await status("DELETE", f"/v1/keys/{eve['id']}", bob) == 204
    assert await status_of(gateway, eve["key"]) == (401, "API_KEY_REVOKED")


async def test_a_user_has_at_most_a_hundred_valid_keys(gateway: Gateway, database: Database) -> None:
    owner = (await key_of(database, "acme", "ada"))["key"]
    made = [await make_key_with(gateway, owner) for _ in range(99)]
    response = await gateway.http.post("/v1/keys", json={}, headers=bearer(owner))
    assert (response.status_code, response.json()["reason"]) == (409, "WRONG_STATE")
    await gateway.http.delete(f"/v1/keys/{made[0]['id']}", headers=bearer(owner))
    await make_key_with(gateway, owner)


def test_the_commands_support_scopes_expiry_and_rotation(database: Database) -> None:
    create = ("create", "--org", "acme", "--user", "ada")
    made = json.loads(keys(database, *create, "--scopes", "chat,read", "--expires", "90d", "--json").stdout)
    assert made["scopes"] == ["read", "chat"]
    expires = datetime.fromisoformat(made["expires_at"])
    assert abs(expires - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=1)
    assert "read,chat" in keys(database, "list").stdout
    assert json.loads(keys(database, *create, "--expires", "2999-01-31", "--json").stdout)["expires_at"].startswith(
        "2999"
    )
    rotated = keys(database, "rotate", made["id"], "--overlap", "2h", "--json")
    again = json.loads(rotated.stdout)
    assert (again["id"], again["scopes"]) == (made["id"], ["read", "chat"])
    assert again["key"] != made["key"]
    until = datetime.fromisoformat(again["previous_until"])
    assert abs(until - datetime.now(UTC) - timedelta(hours=2)) < timedelta(minutes=1)
    assert keys(database, "rotate", "key_nonsense").returncode == 5
    for arguments, named in (
        (("--scopes", "read,root"), "read, chat, write, admin"),
        (("--scopes", ""), "read, chat, write, admin"),
        (("--expires", "soon"), "2027-06-30"),
        (("--expires", "2020-01-01"), "2027-06-30"),
        (("--expires", "0d"), "90d"),
    ):
        refused = keys(database, *create, *arguments)
        assert refused.returncode == 1, arguments
        assert arguments[0] in refused.stderr
        assert named in refused.stderr
    refused = keys(database, "rotate", made["id"], "--overlap", "-1")
    assert refused.returncode != 0


async def test_the_previous_version_refuses_keys_with_scopes(gateway: Gateway, database: Database) -> None:
    """While both versions run, the previous one calls `chat.authenticate`, which doesn't know scopes."""
    owner = await key_of(database, "acme", "ada")
    limited = await make_key_with(gateway, owner["key"], scopes=["read"])
    asked = "SELECT revoked FROM chat.authenticate(sha256(convert_to(%s, 'UTF8')))"
    with psycopg.connect(database.dsn("citewire_chat"), autocommit=True) as connection:

        def revoked(key: str) -> object:
            return connection.execute(asked.encode(), (key,)).fetchall()

        assert revoked(owner["key"]) == [(False,)]
        assert revoked(limited["key"]) == [(True,)]
        path = f"/v1/keys/{owner['id']}:rotate"
        new = (await gateway.http.post(path, json={"overlap_seconds": 3600}, headers=bearer(owner["key"]))).json()
        assert revoked(owner["key"]) == revoked(new["key"]) == [(False,)]
        let_time_pass(database, 2)
        assert revoked(owner["key"]) == [(True,)]
        # Keys that it creates may do everything.
        connection.execute("SELECT set_config('citewire.org_id', 'acme', false)")
        connection.execute(
            "INSERT INTO chat.api_keys (org_id, key_id, user_id, name, key_hash, prefix) "
            "VALUES ('acme', 'key_old', 'ada', 'old', sha256('old'), 'cw_old')"
        )
    assert rows(database, "SELECT scopes, expires_at FROM chat.api_keys WHERE key_id = 'key_old'") == [
        (["read", "chat", "write", "admin"], None)
    ]
