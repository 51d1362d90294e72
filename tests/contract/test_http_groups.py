"""Users before their first login, users who are disabled, and the organisation's own groups."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from api_keys import bearer, key_for, keys
from citewire_accounts.tenants import groups as group_limits
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway
from operator_commands import command

if TYPE_CHECKING:
    from databases import Database

Headers = dict[str, str]


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as running:
        yield running


@pytest.fixture
async def ada(gateway: Gateway, database: Database) -> Headers:
    """The organisation's owner."""
    del gateway
    return bearer((await key_for(database, "acme", "ada"))["key"])


async def key_of(gateway: Gateway, by: Headers, **body: object) -> Headers:
    made = await gateway.http.post("/v1/keys", json=body, headers=by)
    assert made.status_code == 201, made.text
    return bearer(made.json()["key"])


async def groups_of(gateway: Gateway, headers: Headers) -> list[str]:
    """The groups that a request of this key sends to the services."""
    answer = await gateway.http.get("/v1/auth/session", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["groups"]


async def put(gateway: Gateway, by: Headers, group: str, user: str) -> httpx.Response:
    return await gateway.http.put(f"/v1/admin/groups/{quote(group)}/members/{user}", headers=by)


async def fill(gateway: Gateway, by: Headers, **members: str) -> None:
    """Creates groups and their users."""
    for group, users in members.items():
        assert (await gateway.http.post("/v1/admin/groups", json={"name": group}, headers=by)).status_code == 201
        for user in users.split():
            made = await gateway.http.post("/v1/admin/users", json={"user": user}, headers=by)
            assert made.status_code in (201, 409)
            assert (await put(gateway, by, group, user)).status_code == 200


async def test_a_user_is_created_disabled_and_enabled(gateway: Gateway, ada: Headers, database: Database) -> None:
    made = await gateway.http.post("/v1/admin/users", json={"user": "bob", "role": "editor"}, headers=ada)
    assert (made.status_code, made.headers["location"]) == (201, "/v1/admin/users/bob")
    assert {name: made.json()[name] for name in ("user", "role", "disabled", "keys")} == {
        "user": "bob",
        "role": "editor",
        "disabled": False,
        "keys": 0,
    }
    again = await gateway.http.post("/v1/admin/users", json={"user": "bob"}, headers=ada)
    assert (again.status_code, again.json()["reason"]) == (409, "WRONG_STATE")
    bob = await key_of(gateway, ada, user="bob")
    assert (await gateway.http.get("/v1/documents", headers=bob)).status_code == 200
    disabled = await gateway.http.post("/v1/admin/users/bob:disable", headers=ada)
    assert (disabled.status_code, disabled.json()["disabled"]) == (200, True)
    refused = await gateway.http.get("/v1/documents", headers=bob)
    assert (refused.status_code, refused.json()["reason"]) == (403, "USER_DISABLED")
    # A gateway of the previous release authenticates like this, and doesn't know about disabled users.
    states = rows(database, "SELECT k.state FROM chat.api_keys a, chat.find_key(a.key_hash) k WHERE a.user_id = 'bob'")
    assert states == [("revoked",)]
    assert (await gateway.http.post("/v1/admin/users/bob:enable", headers=ada)).json()["disabled"] is False
    assert (await gateway.http.get("/v1/documents", headers=bob)).status_code == 200
    await gateway.services.trail.flush()
    noted = rows(database, "SELECT action, objects FROM chat.audit_events WHERE action LIKE 'user.%' ORDER BY at")
    assert noted == [
        ("user.create", ["user:bob", "role:editor"]),
        ("user.create", ["user:bob", "role:reader"]),
        ("user.disable", ["user:bob"]),
        ("user.enable", ["user:bob"]),
    ]


async def test_who_may_disable_whom(gateway: Gateway, ada: Headers, database: Database) -> None:
    mia = bearer((await key_for(database, "other", "mia"))["key"])
    people = {"bob": "admin", "eve": "admin", "tom": "editor"}
    for user, role in people.items():
        await gateway.http.post("/v1/admin/users", json={"user": user, "role": role}, headers=ada)
    key = {"ada": ada, "mia": mia} | {user: await key_of(gateway, ada, user=user) for user in people}
    for by, user, status in (
        ("tom", "eve", 403),
        ("bob", "ada", 403),
        ("mia", "bob", 404),
        ("ada", "nobody", 404),
        ("ada", "ada", 409),  # the last owner
        ("bob", "eve", 200),
        ("eve", "tom", 403),  # a disabled user disables nobody
    ):
        answer = await gateway.http.post(f"/v1/admin/users/{user}:disable", headers=key[by])
        assert answer.status_code == status, (by, user)
    for by, role, status in (
        ("bob", "owner", 403),
        ("bob", "admin", 201),
        ("tom", "reader", 403),
        ("ada", "king", 422),
    ):
        body = {"user": f"new-{by}", "role": role}
        assert (await gateway.http.post("/v1/admin/users", json=body, headers=key[by])).status_code == status
    assert (await gateway.http.post("/v1/admin/users", json={"user": "a b"}, headers=ada)).status_code == 422
    # A disabled owner doesn't count as a remaining one.
    await gateway.http.put("/v1/admin/users/bob/role", json={"role": "owner"}, headers=ada)
    assert (await gateway.http.post("/v1/admin/users/ada:disable", headers=key["bob"])).status_code == 200
    stepped_back = await gateway.http.put("/v1/admin/users/bob/role", json={"role": "reader"}, headers=key["bob"])
    assert (stepped_back.status_code, stepped_back.json()["reason"]) == (409, "WRONG_STATE")


async def test_a_group_applies_from_the_next_request(gateway: Gateway, ada: Headers, database: Database) -> None:
    await fill(gateway, ada, legal="bob", Führung="bob ada")
    bob = await key_of(gateway, ada, user="bob")
    assert await groups_of(gateway, bob) == ["Führung", "legal"]
    listed = (await gateway.http.get("/v1/admin/groups", headers=ada)).json()["groups"]
    assert [(group["name"], group["users"], group["created_by"]) for group in listed] == [
        ("Führung", 2, "ada"),
        ("legal", 1, "ada"),
    ]
    shown = (await gateway.http.get("/v1/admin/users/bob", headers=ada)).json()
    assert (shown["groups"], shown["provider_groups"]) == (["Führung", "legal"], [])
    page = (await gateway.http.get("/v1/admin/groups/F%C3%BChrung/members?page_size=1", headers=ada)).json()
    assert page["users"] == ["ada"]
    rest = {"page_size": 1, "page_token": page["next_page_token"]}
    assert (await gateway.http.get("/v1/admin/groups/Führung/members", params=rest, headers=ada)).json() == {
        "users": ["bob"],
        "next_page_token": "",
    }
    assert (await gateway.http.delete("/v1/admin/groups/legal/members/bob", headers=ada)).status_code == 204
    assert await groups_of(gateway, bob) == ["Führung"]
    assert (await gateway.http.delete("/v1/admin/groups/Führung", headers=ada)).status_code == 204
    assert await groups_of(gateway, bob) == []
    await gateway.services.trail.flush()
    noted = rows(database, "SELECT action, objects FROM chat.audit_events WHERE action LIKE 'group.%e' ORDER BY at")
    assert noted == [
        ("group.create", ["group:legal"]),
        ("group.create", ["group:Führung"]),
        ("group.remove", ["group:legal/bob", "user:bob"]),
        ("group.delete", ["group:Führung"]),
    ]


async def test_groups_belong_to_the_organisation_and_its_admins_manage_them(
    gateway: Gateway, ada: Headers, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(gateway, ada, legal="bob")
    mia = bearer((await key_for(database, "other", "mia"))["key"])
    bob = await key_of(gateway, ada, user="bob")
    for by, status in ((bob, 403), (mia, 404)):
        assert (await put(gateway, by, "legal", "bob")).status_code == status
        assert (await gateway.http.get("/v1/admin/groups/legal/members", headers=by)).status_code == status
        assert (await gateway.http.delete("/v1/admin/groups/legal", headers=by)).status_code == status
    assert (await gateway.http.get("/v1/admin/groups", headers=mia)).json()["groups"] == []
    assert (await put(gateway, ada, "legal", "mia")).status_code == 404
    assert (await put(gateway, ada, "nobody", "bob")).status_code == 404
    assert (await gateway.http.delete("/v1/admin/groups/legal/members/ada", headers=ada)).status_code == 404
    for name in ("", "a" * 201, "a/b", " a", "a\nb", "a\u202e", 7):
        answer = await gateway.http.post("/v1/admin/groups", json={"name": name}, headers=ada)
        assert answer.status_code == 422, name
        assert answer.json()["errors"][0]["field"] == "name"
    assert (await gateway.http.post("/v1/admin/groups", json={"name": "legal"}, headers=ada)).status_code == 409
    monkeypatch.setattr(group_limits, "MAX_GROUPS_OF_ORG", 3)
    monkeypatch.setattr(group_limits, "MAX_GROUPS_OF_USER", 2)
    answers = await asyncio.gather(
        *(gateway.http.post("/v1/admin/groups", json={"name": f"g{number}"}, headers=ada) for number in range(6))
    )
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409, 409, 409]
    names = [group["name"] for group in (await gateway.http.get("/v1/admin/groups", headers=ada)).json()["groups"]]
    joined = await asyncio.gather(*(put(gateway, ada, name, "bob") for name in names if name != "legal"))
    assert sorted(answer.status_code for answer in joined) == [200, 409]


async def test_a_keys_groups_stay_within_those_of_its_maker(gateway: Gateway, ada: Headers) -> None:
    await fill(gateway, ada, legal="bob ada", sales="ada", board="")
    await gateway.http.post("/v1/admin/users", json={"user": "importer"}, headers=ada)
    service = await key_of(gateway, ada, user="importer", groups=["sales", "legal"], scopes=["read", "admin"])
    assert await groups_of(gateway, service) == ["legal", "sales"]
    for by, groups in ((ada, ["board"]), (service, ["board"]), (service, ["sales", "board"])):
        refused = await gateway.http.post("/v1/keys", json={"groups": groups}, headers=by)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "groups")
        assert "board" in refused.json()["errors"][0]["message"]
    none = await key_of(gateway, ada, groups=[])
    assert await groups_of(gateway, none) == []
    # A key made with a key of few groups has no more than those, even if the request names none.
    await put(gateway, ada, "board", "importer")
    child = await key_of(gateway, service, scopes=["read"])
    assert await groups_of(gateway, child) == ["legal", "sales"]
    assert await groups_of(gateway, await key_of(gateway, service, groups=["sales"], scopes=["read"])) == ["sales"]
    assert await groups_of(gateway, await key_of(gateway, none)) == []
    # The maker leaves a group and rejoins it, and is then disabled.
    await gateway.http.delete("/v1/admin/groups/sales/members/ada", headers=ada)
    assert await groups_of(gateway, service) == await groups_of(gateway, child) == ["legal"]
    await put(gateway, ada, "sales", "ada")
    assert await groups_of(gateway, child) == ["legal", "sales"]
    await gateway.http.post("/v1/admin/users", json={"user": "zoe", "role": "owner"}, headers=ada)
    zoe = await key_of(gateway, ada, user="zoe")
    assert (await gateway.http.post("/v1/admin/users/ada:disable", headers=zoe)).status_code == 200
    assert await groups_of(gateway, service) == await groups_of(gateway, child) == []


async def test_rotating_a_key_gives_no_groups_of_others(gateway: Gateway, ada: Headers) -> None:
    await fill(gateway, ada, legal="ada")
    await gateway.http.post("/v1/admin/users", json={"user": "bob", "role": "admin"}, headers=ada)
    await gateway.http.post("/v1/admin/users", json={"user": "importer"}, headers=ada)
    made = await gateway.http.post("/v1/keys", json={"user": "importer", "groups": ["legal"]}, headers=ada)
    path = f"/v1/keys/{made.json()['id']}:rotate"
    bob = await key_of(gateway, ada, user="bob")
    refused = await gateway.http.post(path, json={}, headers=bob)
    assert refused.status_code == 422
    assert "legal" in refused.json()["errors"][0]["message"]
    rotated = await gateway.http.post(path, json={}, headers=ada)
    assert rotated.json()["groups"] == ["legal"]
    assert await groups_of(gateway, bearer(rotated.json()["key"])) == ["legal"]


async def test_a_key_of_few_groups_rotates_none_of_all(gateway: Gateway, ada: Headers) -> None:
    await fill(gateway, ada, legal="bob")
    bob = await key_of(gateway, ada, user="bob")
    assert await groups_of(gateway, bob) == ["legal"]
    limited = await key_of(gateway, bob, groups=[])
    listed = (await gateway.http.get("/v1/keys", headers=limited)).json()["keys"]
    whole, own = (next(key["id"] for key in listed if key.get("groups") == groups) for groups in (None, list[str]()))
    refused = await gateway.http.post(f"/v1/keys/{whole}:rotate", json={}, headers=limited)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "key_id")
    assert await groups_of(gateway, bob) == ["legal"]
    for key, by, groups in ((own, limited, []), (whole, bob, ["legal"])):
        rotated = await gateway.http.post(f"/v1/keys/{key}:rotate", json={}, headers=by)
        assert await groups_of(gateway, bearer(rotated.json()["key"])) == groups


async def test_groups_of_a_key_reach_the_services(gateway: Gateway, ada: Headers) -> None:
    await fill(gateway, ada, 法務="ada")
    headers = await key_of(gateway, ada, groups=["法務"])
    assert (await gateway.http.post("/v1/search", json={"query": "x"}, headers=headers)).status_code == 200
    tenant = gateway.fakes.embedder.tenants[-1]
    assert tenant is not None
    assert tenant.groups == ("法務",)


async def test_operators_manage_users_and_groups(gateway: Gateway, ada: Headers, database: Database) -> None:
    def run(*arguments: str) -> list[dict[str, Any]]:
        done = command(database, *arguments, "--org", "acme", "--json", owner=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    assert run("users", "create", "bob", "--role", "admin")[0]["role"] == "admin"
    run("groups", "create", "legal")
    assert run("groups", "add", "legal", "bob")[0]["users"] == 1
    assert run("groups", "members", "legal") == [{"user": "bob"}]
    assert run("users", "disable", "bob")[0]["disabled"] is True
    assert run("users", "enable", "bob")[0]["disabled"] is False
    assert run("groups", "list")[0]["group"] == "legal"
    assert run("groups", "remove", "legal", "bob")[0]["users"] == 0
    assert run("groups", "delete", "legal") == []
    for code, wrong in (
        (5, ("users", "disable", "nobody")),
        (5, ("groups", "delete", "nobody")),
        (5, ("groups", "add", "nobody", "bob")),
        (1, ("users", "create", "bob")),
        (1, ("users", "disable", "ada")),
        (1, ("users", "create", "a b")),
    ):
        assert command(database, *wrong, "--org", "acme", owner=False).returncode == code, wrong
    noted = rows(
        database,
        "SELECT action, objects FROM chat.audit_events WHERE issuer = 'operator' ORDER BY at",
    )
    assert [action for action, _ in noted] == [
        "user.create",
        "group.create",
        "group.add",
        "user.disable",
        "user.enable",
        "group.remove",
        "group.delete",
    ]
    assert noted[2][1] == ["group:legal/bob", "user:bob"]
    # The operator may name any group, as a provider's groups aren't known here.
    arguments = ("create", "--org", "acme", "--user", "bob", "--group", "/from/keycloak", "--json")
    made = json.loads(keys(database, *arguments).stdout)
    assert made["groups"] == ["/from/keycloak"]
    assert await groups_of(gateway, bearer(made["key"])) == ["/from/keycloak"]
    child = await key_of(gateway, bearer(made["key"]))
    assert await groups_of(gateway, child) == ["/from/keycloak"]
