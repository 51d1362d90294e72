"""Operators: they manage organisations, see none of their data, and aren't members of any."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from typer.testing import CliRunner

from api_keys import bearer, key_for
from citewire_accounts.tenants.operators import OPERATOR_SCOPES, OperatorStore, make_operator_key
from citewire_cli.app import app
from citewire_kit.postgres import open_pool
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway, until_rows
from limit_windows import stop_limit_windows
from operator_commands import command

if TYPE_CHECKING:
    from databases import Database

CANARY = "canary-5d21e9"
ORGANISATIONS = "/v1/operator/organisations"
LOGGED = re.compile(r"level=|\{\"ts\": |(\S+ \S+ )?\[\w+ *\] ")


@dataclass
class Installation:
    """A gateway with an operator, and a member of `acme` who has asked a question."""

    gateway: Gateway
    database: Database
    operator: dict[str, str]
    member: dict[str, str]

    async def operate(self, method: str, path: str, **body: Any) -> httpx.Response:  # noqa: ANN401 # fields of any body
        return await self.gateway.http.request(method, path, json=body or None, headers=self.operator)


@pytest.fixture
async def here(database: Database) -> AsyncIterator[Installation]:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        operator = bearer(await operator_key(database))
        member = bearer((await key_for(database, "acme", "ada"))["key"])
        asked = {"question": f"Where is {CANARY}?", "stream": False}
        assert (await gateway.http.post("/v1/chat", json=asked, headers=member)).status_code == 200
        yield Installation(gateway, database, operator, member)


async def operator_key(database: Database, *, read_only: bool = False) -> str:
    key = make_operator_key()
    async with await open_pool(database.owner_dsn, max_size=1, name="test-operator") as pool:
        await OperatorStore(pool).add_key("test", key, OPERATOR_SCOPES[:1] if read_only else OPERATOR_SCOPES, None)
    return key.text


async def operations(here: Installation) -> list[tuple[str, str, bool]]:
    """(method, path with its parameters filled in, whether it is for operators) of each route that needs a caller."""
    document = (await here.gateway.http.get("/openapi.json")).json()
    return [
        (method.upper(), re.sub(r"{[^}]+}", "acme", path), {"operator": []} in operation["security"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation["security"]
    ]


async def test_operators_and_members_are_separate_on_every_route(here: Installation, subtests: pytest.Subtests) -> None:
    listed = await operations(here)
    assert sum(operators for *_, operators in listed) >= 14
    assert len(listed) > 80
    read_only = bearer(await operator_key(here.database, read_only=True))
    for method, path, operators in listed:
        with subtests.test(method=method, path=path):
            wrong, says = (
                (here.member, "needs an operator's key") if operators else (here.operator, "/v1/operator only")
            )
            refused = await here.gateway.http.request(method, path, content=b"{", headers=wrong)
            assert (refused.status_code, refused.json()["reason"]) == (403, "PERMISSION_DENIED"), refused.text
            assert says in refused.json()["detail"]
            assert CANARY not in refused.text
            assert path.startswith("/v1/operator/") == operators
            if operators and method != "GET":
                refused = await here.gateway.http.request(method, path, content=b"{", headers=read_only)
                assert (refused.status_code, refused.json()["scope"]) == (403, "manage")
    assert here.gateway.fakes.embedder.requests[1:] == [], "no question but the member's was asked"
    assert (await here.operate("GET", f"{ORGANISATIONS}/acme")).status_code == 200, "nothing was changed"
    await here.gateway.services.trail.flush()
    noted = rows(
        here.database, "SELECT org_id, count(*) FROM chat.audit_events WHERE outcome = 'refused' GROUP BY 1 ORDER BY 1"
    )
    assert [org for org, _ in noted] == ["?operators", "acme"], "refused callers are in the trail"


async def test_operators_see_no_names_of_an_organisations_data(here: Installation) -> None:
    for _ in range(2):
        await here.gateway.http.put(
            "/v1/profiles/x", json={"base": "grounded", "description": CANARY}, headers=here.member
        )
    user = f"{CANARY}-user"
    assert (
        await here.gateway.http.post("/v1/admin/users", json={"user": user}, headers=here.member)
    ).status_code == 201
    limit = {"scope": "user", "user": user, "measure": "streams", "limit": 9}
    assert (await here.gateway.http.put("/v1/admin/limits", json=limit, headers=here.member)).status_code == 200
    erased = await here.gateway.http.post("/v1/erasures", json={"user": user}, headers=here.member)
    assert erased.status_code == 202
    await here.gateway.services.trail.flush()
    seen = [path for method, path, operators in await operations(here) if operators and method == "GET"]
    assert len(seen) >= 7
    for path in (*seen, "/v1/operator/usage?group_by=day,model,purpose"):
        answer = await here.operate("GET", path)
        assert answer.status_code == (404 if path.endswith("/erasure") else 200), (path, answer.text)
        assert CANARY not in answer.text, path
        assert "ada" not in re.findall(r"\w+", answer.text), path
    for group in ("user", "key", "profile", "org"):
        assert (await here.operate("GET", f"/v1/operator/usage?group_by={group}")).status_code == 422


async def test_an_organisation_is_made_changed_suspended_and_resumed(here: Installation) -> None:
    made = await here.operate("POST", ORGANISATIONS, id="umbrella", plan="free", owner="eve")
    assert (made.status_code, made.headers["location"]) == (201, f"{ORGANISATIONS}/umbrella"), made.text
    shown = made.json()
    assert {name: shown[name] for name in ("id", "plan", "users", "keys", "suspended_at", "audit_days")} == {
        "id": "umbrella", "plan": "free", "users": 1, "keys": 0, "suspended_at": None, "audit_days": None,
    }  # fmt: skip
    assert rows(here.database, "SELECT user_id, roles FROM chat.users WHERE org_id = 'umbrella'") == [
        ("eve", ["owner"])
    ]
    again = await here.operate("POST", ORGANISATIONS, id="umbrella")
    assert (again.status_code, again.json()["reason"]) == (409, "WRONG_STATE")
    assert (await here.operate("POST", ORGANISATIONS, id="a b")).status_code == 422
    plan = await here.operate("PUT", f"{ORGANISATIONS}/acme/plan", plan="basic")
    assert (plan.status_code, plan.json()["plan"]) == (200, "basic")
    assert (await here.gateway.http.get("/v1/limits", headers=here.member)).json()["plan"] == "basic"
    days = await here.operate("PUT", f"{ORGANISATIONS}/acme/audit-days", days=90)
    assert (days.status_code, days.json()["audit_days"]) == (200, 90)
    suspended = await here.operate("POST", f"{ORGANISATIONS}/acme:suspend")
    assert suspended.json()["suspended_at"]
    assert (await here.operate("POST", f"{ORGANISATIONS}/acme:suspend")).json() == suspended.json(), (
        "the first moment stays"
    )
    refused = await here.gateway.http.get("/v1/profiles", headers=here.member)
    assert (refused.status_code, refused.json()["reason"]) == (403, "ORGANISATION_SUSPENDED")
    assert (await here.operate("POST", f"{ORGANISATIONS}/acme:resume")).json()["suspended_at"] is None
    assert (await here.gateway.http.get("/v1/profiles", headers=here.member)).status_code == 200
    for method, path, body in (
        ("GET", "", {}),
        ("PUT", "/plan", {"plan": "pro"}),
        ("POST", ":suspend", {}),
        ("DELETE", "", {}),
        ("GET", "/limits", {}),
        ("PUT", "/limits/requests", {"limit": 1}),
    ):
        for nobody in ("nobody", "a%20b", "x" * 200):
            missing = await here.operate(method, f"{ORGANISATIONS}/{nobody}{path}", **body)
            assert (missing.status_code, missing.json()["reason"]) == (404, "ORGANISATION_NOT_FOUND"), (method, path)
    assert rows(here.database, "SELECT count(*) FROM chat.orgs") == [(2,)]


async def test_organisations_are_listed_by_pages(here: Installation) -> None:
    for number in range(5):
        await here.operate("POST", ORGANISATIONS, id=f"Org-{number}")
    names, token = list[str](), ""
    while True:
        page = (await here.gateway.http.get(
            ORGANISATIONS, params={"page_size": 2, "q": "oRG", "page_token": token}, headers=here.operator
        )).json()  # fmt: skip
        names += [organisation["id"] for organisation in page["organisations"]]
        token = page["next_page_token"]
        if not token:
            break
    assert names == [f"Org-{number}" for number in range(5)]
    assert len((await here.operate("GET", ORGANISATIONS)).json()["organisations"]) == 6
    wrong = await here.operate("GET", f"{ORGANISATIONS}?page_token=nonsense")
    assert (wrong.status_code, wrong.json()["reason"]) == (422, "INVALID_PAGE_TOKEN")


async def test_an_organisations_limit_replaces_the_plans(here: Installation) -> None:
    limits = f"{ORGANISATIONS}/acme/limits"
    put = await here.operate("PUT", f"{limits}/requests", limit=123_456)
    assert put.status_code == 200, put.text
    assert [(limit["measure"], limit["limit"]) for limit in (await here.operate("GET", limits)).json()["limits"]] == [
        ("requests", 123_456)
    ]
    in_force = (await here.gateway.http.get("/v1/limits", headers=here.member)).json()["limits"]
    assert [limit["limit"] for limit in in_force if limit["name"] == "requests-org"] == [123_456]
    assert (await here.operate("DELETE", f"{limits}/requests")).status_code == 204
    assert (await here.operate("DELETE", f"{limits}/requests")).status_code == 404
    assert (await here.operate("PUT", f"{limits}/stored-bytes", limit=1)).status_code == 422
    plans = (await here.operate("GET", "/v1/operator/plans")).json()["plans"]
    assert [plan["plan"] for plan in plans] == ["free", "basic", "pro"]
    pro = {(limit["measure"], limit["scope"]): limit["limit"] for limit in plans[2]["limits"]}
    assert pro["requests", "org"] == 60_000


async def test_an_operators_changes_are_in_both_trails(here: Installation) -> None:
    await here.operate("PUT", f"{ORGANISATIONS}/acme/plan", plan="basic")
    await here.operate("PUT", f"{ORGANISATIONS}/acme/limits/streams", limit=5)
    await here.operate("GET", f"{ORGANISATIONS}/acme")
    await here.operate("PUT", f"{ORGANISATIONS}/nobody/plan", plan="basic")
    await here.gateway.services.trail.flush()
    own = (await here.operate("GET", "/v1/operator/audit")).json()["events"]
    assert [(event["action"], event["objects"], event["outcome"]) for event in own] == [
        ("organisation.plan", ["organisation:acme", "plan:basic"], "ok"),
        ("limit.set", ["limit:acme/streams"], "ok"),
        ("organisation.read", ["organisation:acme"], "ok"),
        ("organisation.plan", ["organisation:nobody"], "failed"),
    ]
    assert {(event["issuer"], event["user"], event["key_id"][:4], event["address"]) for event in own} == {
        ("operator", "", "opk_", "127.0.0.1")
    }
    of_members = (await here.gateway.http.get("/v1/admin/audit", headers=here.member)).json()["events"]
    theirs = [event for event in of_members if event["issuer"] == "operator"]
    assert [(event["action"], event["objects"]) for event in theirs] == [
        ("organisation.plan", ["organisation:acme", "plan:basic"]),
        ("limit.set", ["limit:acme/streams"]),
    ]
    assert {(event["address"], event["agent"]) for event in theirs} == {("", "")}, "operators' addresses are hidden"
    assert rows(here.database, "SELECT count(*) FROM chat.audit_events WHERE org_id = 'nobody'") == [(0,)]


async def test_an_organisation_is_erased(here: Installation) -> None:
    async def nothing_stored(_user_id: str, _successor: str, *, keep: bool) -> tuple[int, bool]:
        return 0, not keep

    erasures = replace(here.gateway.services.erasures, erase_documents=nothing_stored)
    begun = await here.operate("DELETE", f"{ORGANISATIONS}/acme")
    assert (begun.status_code, begun.json()["kind"], begun.json()["state"]) == (202, "organisation", "running")
    going_on = await here.operate("GET", f"{ORGANISATIONS}/acme/erasure")
    assert (going_on.status_code, going_on.json()["id"]) == (200, begun.json()["id"])
    await erasures.sweep()
    assert (await here.gateway.http.get("/v1/profiles", headers=here.member)).status_code == 401
    assert (await here.operate("GET", f"{ORGANISATIONS}/acme")).status_code == 404
    early = await here.operate("POST", ORGANISATIONS, id="acme")
    assert (early.status_code, "being erased" in early.json()["detail"]) == (409, True)
    with psycopg.connect(here.database.owner_dsn, autocommit=True) as connection:
        connection.execute("UPDATE chat.erasures SET created_at = created_at - interval '1 day', next_at = now()")
    await erasures.sweep()
    assert (await here.operate("GET", f"{ORGANISATIONS}/acme/erasure")).json()["reason"] == "ERASURE_NOT_FOUND"
    assert (await here.operate("POST", ORGANISATIONS, id="acme")).status_code == 201


async def test_only_the_schemas_owner_creates_operator_keys(here: Installation) -> None:
    refused = await asyncio.to_thread(command, here.database, "operator", "keys", "list", owner=False)
    assert (refused.returncode, "MIGRATE_DSN" in refused.stderr) == (2, True)
    with psycopg.connect(here.database.dsn("citewire_chat"), autocommit=True) as connection:
        for statement in ("SELECT * FROM chat.operator_keys", "DELETE FROM chat.operator_keys"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
        listing = b"SELECT count(*) FROM chat.list_organisations(''::bytea, '', '', 10)"
        assert connection.execute(listing).fetchone() == (0,), "not without an operator's key"
    made = await asyncio.to_thread(command, here.database, "operator", "keys", "create", "--expires", "1h", "--json")
    key = json.loads(made.stdout)
    assert re.fullmatch(r"cwo_[\w-]{43}", key["key"]), made.stderr
    headers = bearer(key["key"])
    assert (await here.gateway.http.get(ORGANISATIONS, headers=headers)).status_code == 200
    await here.gateway.services.authenticator.flush()
    listed = json.loads((await asyncio.to_thread(command, here.database, "operator", "keys", "list", "--json")).stdout)
    assert key["key"] not in json.dumps(listed)
    assert [bool(entry["last_used_at"]) for entry in listed["keys"]] == [False, True]
    with psycopg.connect(here.database.owner_dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE chat.operator_keys SET expires_at = now() - interval '1 s' WHERE expires_at IS NOT NULL"
        )
    expired = await here.gateway.http.get(ORGANISATIONS, headers=headers)
    assert (expired.status_code, expired.json()["reason"]) == (401, "API_KEY_EXPIRED")
    revoking = ("operator", "keys", "revoke", listed["keys"][0]["prefix"], "--json")
    assert json.loads((await asyncio.to_thread(command, here.database, *revoking)).stdout)["revoked_at"]
    revoked = await here.operate("GET", ORGANISATIONS)
    assert (revoked.status_code, revoked.json()["reason"]) == (401, "API_KEY_REVOKED")
    for unknown in ("cwo_" + "x" * 43, "cw_" + "x" * 43, "nonsense"):
        for path in (ORGANISATIONS, "/v1/documents"):
            assert (await here.gateway.http.get(path, headers=bearer(unknown))).status_code == 401
    noted = rows(
        here.database,
        "SELECT org_id, issuer, action FROM chat.audit_events WHERE action LIKE 'operator_key%' ORDER BY at",
    )
    assert noted == [
        ("?operators", "operator", "operator_key.create"),
        ("?operators", "operator", "operator_key.revoke"),
    ]


async def test_guesses_of_operators_keys_are_throttled(here: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_limit_windows(monkeypatch)
    for number in range(30):
        guess = await here.gateway.http.get(ORGANISATIONS, headers=bearer(f"cwo_{number:043d}"))
        assert (guess.status_code, guess.json()["reason"]) == (401, "API_KEY_INVALID")
    refused = await here.gateway.http.get(ORGANISATIONS, headers=bearer("cwo_" + "y" * 43))
    assert (refused.status_code, refused.json()["reason"]) == (429, "RATE_LIMITED")


async def test_without_authentication_nobody_is_an_operator(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="off") as gateway:
        for headers in ({}, bearer(await operator_key(database))):
            refused = await gateway.http.get(ORGANISATIONS, headers=headers)
            assert (refused.status_code, "CITEWIRE_AUTH" in refused.json()["detail"]) == (403, True)
            assert (await gateway.http.get("/v1/profiles", headers=headers)).status_code == 200
        await until_rows(database, "SELECT org_id FROM chat.orgs", [("local",)])


async def test_operators_commands(here: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITEWIRE_URL", here.gateway.url)
    monkeypatch.setenv("CITEWIRE_OPERATOR_KEY", here.operator["Authorization"].removeprefix("Bearer "))
    monkeypatch.setenv("CITEWIRE_API_KEY", "cw_of-a-member-which-is-not-sent")
    monkeypatch.setenv("COLUMNS", "200")

    async def run(*arguments: str, code: int = 0) -> str:
        done = await asyncio.to_thread(CliRunner().invoke, app, ["operator", *arguments])
        assert done.exit_code == code, (arguments, done.output)
        # The gateway logs there too, in the format that the last test of this process has set up.
        return "\n".join(line for line in done.stdout.splitlines() if not LOGGED.match(line))

    of = "organisations"
    assert json.loads(await run(of, "create", "umbrella", "--plan", "free", "--owner", "eve", "--json"))["users"] == 1
    assert "basic" in await run(of, "plan", "umbrella", "basic")
    assert "suspended" in await run(of, "suspend", "umbrella")
    assert "suspended" not in await run(of, "resume", "umbrella")
    assert json.loads(await run(of, "audit-days", "umbrella", "90", "--json"))["audit_days"] == 90
    assert [org["id"] for org in json.loads(await run(of, "list", "--json"))["organisations"]] == ["acme", "umbrella"]
    assert "umbrella" in await run(of, "list", "--q", "UMB")
    assert "1,000" in await run("limits", "set", "umbrella", "requests", "1000")
    assert "requests" in await run("limits", "list", "umbrella")
    await run("limits", "delete", "umbrella", "requests")
    await run("limits", "delete", "umbrella", "requests", code=5)
    assert "stored-bytes" in await run("plans")
    assert "Nothing was used" in await run("usage", "--org", "umbrella")
    assert "running" in await run(of, "erase", "umbrella", "--yes")
    assert "running" in await run(of, "erasure", "umbrella")
    await run(of, "show", "nobody", code=5)
    await here.gateway.services.trail.flush()
    assert "organisation.suspend" in await run("audit")
    monkeypatch.delenv("CITEWIRE_OPERATOR_KEY")
    await run("plans", code=2)
