"""Administration: who sees an organisation, who changes roles, and that changes apply at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import httpx
import pytest

from api_keys import bearer, key_for
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway
from operator_commands import command

if TYPE_CHECKING:
    from databases import Database


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as running:
        yield running


async def members(database: Database) -> dict[str, dict[str, str]]:
    """An owner, and two who begin as editors, each with a key."""
    return {user: bearer((await key_for(database, "acme", user))["key"]) for user in ("ada", "bob", "eve")}


async def give(gateway: Gateway, by: dict[str, str], user: str, role: str) -> httpx.Response:
    return await gateway.http.put(f"/v1/admin/users/{user}/role", json={"role": role}, headers=by)


async def test_a_new_role_applies_from_the_next_request(gateway: Gateway, database: Database) -> None:
    key = await members(database)
    listed = (await gateway.http.get("/v1/admin/users", headers=key["ada"])).json()["users"]
    assert [(user["user"], user["role"], user["keys"]) for user in listed] == [
        ("ada", "owner", 1),
        ("bob", "editor", 1),
        ("eve", "editor", 1),
    ]
    assert (await gateway.http.get("/v1/admin/users", headers=key["bob"])).status_code == 403
    changed = await give(gateway, key["ada"], "bob", "admin")
    assert (changed.status_code, changed.json()["role"]) == (200, "admin")
    assert (await gateway.http.get("/v1/admin/users", headers=key["bob"])).status_code == 200
    assert (await give(gateway, key["ada"], "bob", "reader")).status_code == 200
    assert (await gateway.http.get("/v1/admin/users", headers=key["bob"])).status_code == 403
    organisation = (await gateway.http.get("/v1/admin/organisation", headers=key["ada"])).json()
    assert {name: organisation[name] for name in ("id", "plan", "users", "keys")} == {
        "id": "acme",
        "plan": "pro",
        "users": 3,
        "keys": 3,
    }
    await gateway.services.trail.flush()
    noted = rows(database, "SELECT user_id, objects FROM chat.audit_events WHERE action = 'user.role' ORDER BY at")
    assert noted == [("ada", ["user:bob", "role:admin"]), ("ada", ["user:bob", "role:reader"])]


async def test_nobody_grants_more_than_their_own_role(gateway: Gateway, database: Database) -> None:
    key = await members(database)
    await give(gateway, key["ada"], "bob", "admin")
    for by, user, role, status in (
        ("eve", "eve", "admin", 403),
        ("bob", "bob", "owner", 403),
        ("bob", "ada", "reader", 403),
        ("bob", "eve", "owner", 403),
        ("bob", "eve", "admin", 200),
        ("ada", "nobody", "reader", 404),
        ("ada", "eve", "king", 422),
    ):
        assert (await give(gateway, key[by], user, role)).status_code == status, (by, user, role)
    roles = dict(rows(database, "SELECT user_id, roles[1] FROM chat.users WHERE org_id = 'acme'"))
    assert roles == {"ada": "owner", "bob": "admin", "eve": "admin"}


async def test_the_last_owner_cannot_step_back(gateway: Gateway, database: Database) -> None:
    key = await members(database)
    refused = await give(gateway, key["ada"], "ada", "admin")
    assert (refused.status_code, refused.json()["reason"]) == (409, "WRONG_STATE")
    assert (await give(gateway, key["ada"], "bob", "owner")).status_code == 200
    # Two owners who step back at once: one of them has to stay.
    answers = await asyncio.gather(*(give(gateway, key[user], user, "reader") for user in ("ada", "bob")))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    owners = rows(database, "SELECT count(*) FROM chat.users WHERE org_id = 'acme' AND 'owner' = ANY (roles)")
    assert owners == [(1,)]
    last = (
        command(database, "users", "role", "--org", "acme", "ada", "reader"),
        command(database, "users", "role", "--org", "acme", "bob", "reader"),
    )
    assert sorted(done.returncode for done in last) == [0, 1]  # one of them already is a reader


async def test_an_organisation_administers_only_itself(gateway: Gateway, database: Database) -> None:
    key = await members(database)
    mia = bearer((await key_for(database, "other", "mia"))["key"])
    assert (await give(gateway, mia, "bob", "reader")).status_code == 404
    assert [user["user"] for user in (await gateway.http.get("/v1/admin/users", headers=mia)).json()["users"]] == [
        "mia"
    ]
    assert (await gateway.http.get("/v1/admin/organisation", headers=mia)).json()["id"] == "other"
    assert (await give(gateway, key["ada"], "mia", "reader")).status_code == 404


async def test_operators_change_plans_and_roles(gateway: Gateway, database: Database) -> None:
    key = await members(database)
    assert (await gateway.http.get("/v1/limits", headers=key["ada"])).json()["plan"] == "pro"
    changed = command(database, "orgs", "plan", "acme", "basic", "--json")
    assert (changed.returncode, json.loads(changed.stdout)["plan"]) == (0, "basic"), changed.stderr
    assert (await gateway.http.get("/v1/limits", headers=key["ada"])).json()["plan"] == "basic"
    given = command(database, "users", "role", "--org", "acme", "bob", "owner", owner=False)
    assert given.returncode == 0, given.stderr
    listed = command(database, "users", "list", "--org", "acme", "--json", owner=False).stdout.splitlines()
    assert [(json.loads(line)["user"], json.loads(line)["role"]) for line in listed] == [
        ("ada", "owner"),
        ("bob", "owner"),
        ("eve", "editor"),
    ]
    assert [json.loads(line)["org"] for line in command(database, "orgs", "list", "--json").stdout.splitlines()] == [
        "acme"
    ]
    for wrong in (("orgs", "plan", "nobody", "pro"), ("users", "role", "--org", "acme", "nobody", "reader")):
        assert command(database, *wrong).returncode == 5
    noted = rows(database, "SELECT action, issuer, objects FROM chat.audit_events WHERE issuer <> '' ORDER BY at")
    assert noted == [
        ("organisation.plan", "operator", ["plan:basic"]),
        ("user.role", "operator", ["user:bob", "role:owner"]),
    ]
