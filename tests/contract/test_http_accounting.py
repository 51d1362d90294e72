"""Usage and budgets over HTTP: who sees which usage, its sums, and requests over a spent budget."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from citewire_accounts.tenants.identity import IdentityStore, make_key
from citewire_kit.errors import ResourceExhausted
from citewire_kit.postgres import open_pool
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, frames_of, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

Json = dict[str, Any]
QUESTION = {"question": "How much did revenue grow?"}
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
SPENT = ResourceExhausted(
    "the organisation's budget of 5.00 USD a month is spent",
    reason="BUDGET_EXCEEDED",
    metadata={"budget": "org", "limit_usd": "5.00", "left_usd": "0.25", "resets_at": "2026-12-01T00:00:00Z"},
    retry_after=812.4,
)


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


def add_call(database: Database, **fields: object) -> None:
    """Writes a settled call, as a service would."""
    values: dict[str, object] = {
        "org_id": "local",
        "call_id": uuid4(),
        "user_id": "local",
        "process": "generator",
        "purpose": "generation",
        "provider": "anthropic",
        "model": "claude",
        "own": False,
        "state": "done",
        "input_tokens": 100,
        "output_tokens": 10,
        "estimated": False,
        "input_price": 3_000_000_000,
        "cached_input_price": 300_000_000,
        "cache_write_price": 3_750_000_000,
        "output_price": 15_000_000_000,
        "reserved_nano": 0,
        "cost_nano": 450_000,
        "started_at": NOON,
        "ended_at": NOON,
        "lease_until": NOON,
    } | fields
    names, marks = ", ".join(values), ", ".join(f"%({name})s" for name in values)
    with psycopg.connect(database.owner_dsn, autocommit=True) as connection:
        connection.execute(f"INSERT INTO ledger.calls ({names}) VALUES ({marks})".encode(), values)  # noqa: S608 # names of our own


async def usage(http: httpx.AsyncClient, **params: str) -> Json:
    response = await http.get("/v1/usage", params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def client(database: Database, gateway: Gateway, org: str, user: str) -> tuple[httpx.AsyncClient, str]:
    """A client with a key of its own, and the key's id; the first user of an organisation owns it."""
    pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
    store, key = IdentityStore(pool), make_key()
    await store.ensure_user(org, user, "pro")
    await store.add_key(org, user, "test", key)
    await pool.close()
    headers = {"Authorization": f"Bearer {key.text}"}
    return httpx.AsyncClient(base_url=gateway.url, headers=headers, trust_env=False, timeout=30), key.key_id


async def test_usage_is_separate_for_each_user_and_key(gateway: Gateway, database: Database) -> None:
    for user, key_id in (("ada", "key_1"), ("ada", "key_2"), ("bob", "key_3"), ("bob", "key_3")):
        add_call(database, user_id=user, key_id=key_id)
    grouped = await usage(gateway.http, group_by="user,key")
    assert [(row["user"], row["key"], row["calls"]) for row in grouped["rows"]] == [
        ("ada", "key_1", 1),
        ("ada", "key_2", 1),
        ("bob", "key_3", 2),
    ]


async def test_usage_adds_up_by_every_group(gateway: Gateway, database: Database) -> None:
    add_call(database, profile="library")
    add_call(database, profile="library", purpose="decision", cost_nano=50_000, input_tokens=20, output_tokens=1)
    add_call(database, purpose="question_embedding", provider="openai", model="small", output_tokens=0, cost_nano=2_000)
    add_call(database, purpose="rerank", provider="cohere", model="rerank", output_tokens=0, own=True, cost_nano=1_000)
    add_call(database, started_at=NOON - timedelta(days=1), ended_at=NOON - timedelta(days=1), estimated=True)
    add_call(database, state="open", ended_at=None, output_tokens=7, estimated=True, cost_nano=0)
    add_call(database, started_at=NOON - timedelta(days=40), ended_at=NOON)
    add_call(database, org_id="other")
    everything = await usage(gateway.http, group_by="")
    assert everything["total"] == everything["rows"][0]
    assert everything["total"] == {
        "calls": 6,
        "open_calls": 1,
        "estimated_calls": 1,
        "unpriced_calls": 0,
        "input_tokens": 420,
        "cached_input_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 21,
        "embedding_tokens": 100,
        "prompt_tokens": 220,
        "completion_tokens": 21,
        "cost_usd": 0.000953,
        "own_cost_usd": 0.000001,
    }
    today, yesterday = NOON.date().isoformat(), (NOON - timedelta(days=1)).date().isoformat()
    by_day = await usage(gateway.http)
    assert by_day["group_by"] == ["day", "model"]
    assert [(row["day"], row["provider"], row["model"], row["calls"]) for row in by_day["rows"]] == [
        (yesterday, "anthropic", "claude", 1),
        (today, "anthropic", "claude", 3),
        (today, "cohere", "rerank", 1),
        (today, "openai", "small", 1),
    ]
    grouped = await usage(gateway.http, group_by="purpose,profile,user,org", **{"from": today, "to": today})
    assert {(row["purpose"], row["profile"]): row["calls"] for row in grouped["rows"]} == {
        ("decision", "library"): 1,
        ("generation", "library"): 1,
        ("generation", ""): 1,
        ("question_embedding", ""): 1,
        ("rerank", ""): 1,
    }
    assert {(row["org"], row["user"]) for row in grouped["rows"]} == {("local", "local")}
    assert (await usage(gateway.http, to=yesterday))["total"]["calls"] == 1
    assert (await usage(gateway.http, **{"from": (NOON + timedelta(hours=1)).isoformat()[:19]}))["rows"] == []


async def test_usage_as_csv(gateway: Gateway, database: Database) -> None:
    add_call(database, model="=1+1,\"x\"", input_price=None, cached_input_price=None, cache_write_price=None,
             output_price=None, cost_nano=0)  # fmt: skip
    asked = await gateway.http.get("/v1/usage?group_by=model,day", headers={"Accept": "text/csv"})
    assert asked.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in asked.headers["content-disposition"]
    (row,) = csv.DictReader(io.StringIO(asked.text))
    assert list(row)[:4] == ["provider", "model", "day", "calls"]
    assert (row["model"], row["unpriced_calls"], row["cost_usd"]) == ('\'=1+1,"x"', "1", "0.000000000")
    same = await gateway.http.get("/v1/usage?group_by=model,day&format=csv")
    assert same.text == asked.text
    shown = await gateway.http.get("/v1/usage?format=json", headers={"Accept": "text/csv"})
    assert shown.json()["rows"][0]["model"].startswith("=1+1")


async def test_usage_of_chats_counts_what_ran_in_the_services(gateway: Gateway, database: Database) -> None:
    response = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False})
    assert response.status_code == 200, response.text
    spent = response.json()["usage"]
    ((exchange,),) = rows(database, "SELECT exchange_id FROM chat.exchanges")
    add_call(database, exchange_id=exchange, profile="documents")
    add_call(database, exchange_id=exchange, purpose="question_embedding", own=True, cost_nano=2_000)
    result = await usage(gateway.http, source="exchanges", group_by="profile,model")
    (row,) = result["rows"]
    assert (row["profile"], row["exchanges"], row["unfinished_exchanges"]) == ("documents", 1, 0)
    assert row["model"] == response.json()["model"]
    for name in ("embedding_tokens", "prompt_tokens", "completion_tokens"):
        assert row[name] == spent[name]
    assert (row["cost_usd"], row["own_cost_usd"]) == (0.000452, 0.000002)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ("from=yesterday", "from"),
        ("to=2026-02-30", "to"),
        ("from=2026-02-02&to=2026-02-01", "from"),
        ("from=2020-01-01&to=2026-01-01", "from"),
        ("group_by=month", "group_by"),
        ("group_by=day,day", "group_by"),
        ("source=exchanges&group_by=purpose", "group_by"),
        ("source=exchanges&group_by=key", "group_by"),
        ("source=chats", "source"),
        ("format=xml", "format"),
    ],
)
async def test_a_wrong_parameter_is_named(gateway: Gateway, params: str, field: str) -> None:
    response = await gateway.http.get(f"/v1/usage?{params}")
    assert response.status_code == 422, response.text
    assert [error["field"] for error in response.json()["errors"]] == [field]


async def test_members_see_their_own_and_admins_all_of_their_organisation(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        owner, _ = await client(database, gateway, "acme", "ana")
        member, _ = await client(database, gateway, "acme", "bob")
        other, _ = await client(database, gateway, "other", "ana")
        for org, user in (("acme", "ana"), ("acme", "bob"), ("acme", "bob"), ("other", "ana")):
            add_call(database, org_id=org, user_id=user)
        seen = await usage(owner, group_by="user")
        assert seen["scope"] == "org"
        assert [(row["user"], row["calls"]) for row in seen["rows"]] == [("ana", 1), ("bob", 2)]
        seen = await usage(member, group_by="user")
        assert seen["scope"] == "user"
        assert [(row["user"], row["calls"]) for row in seen["rows"]] == [("bob", 2)]
        assert (await usage(member, source="exchanges"))["rows"] == []
        assert (await usage(other))["total"]["calls"] == 1
        body = {"period": "day", "limit_usd": 1}
        for refused in (
            await member.get("/v1/budgets"),
            await member.put("/v1/budgets", json=body),
            await member.delete("/v1/budgets?period=day"),
        ):
            assert (refused.status_code, refused.json()["reason"]) == (403, "PERMISSION_DENIED")
        for entry in (owner, member, other):
            await entry.aclose()


async def test_budgets_are_set_read_changed_and_deleted(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        owner, key_id = await client(database, gateway, "acme", "ana")
        stranger, foreign_key = await client(database, gateway, "other", "eve")
        now = datetime.now(UTC)
        add_call(database, org_id="acme", key_id=key_id, started_at=now, ended_at=now)
        add_call(database, org_id="acme", started_at=now, ended_at=now)
        made = await owner.put("/v1/budgets", json={"period": "month", "limit_usd": 5})
        assert made.status_code == 200, made.text
        budget = made.json()
        assert (budget["scope"], budget["limit_usd"], budget["spent_usd"]) == ("org", 5.0, 0.0009)
        assert (budget["left_usd"], budget["reserved_usd"], budget["updated_by"]) == (4.9991, 0.0, "ana")
        assert budget["period_start"] < budget["updated_at"] < budget["resets_at"]
        own = {"scope": "key", "key_id": key_id, "period": "day", "limit_usd": 0.0001}
        keyed = (await owner.put("/v1/budgets", json=own)).json()
        assert (keyed["key_id"], keyed["spent_usd"], keyed["left_usd"]) == (key_id, 0.00045, 0.0)
        assert (await owner.put("/v1/budgets", json={**own, "limit_usd": 2})).json()["left_usd"] == 1.99955
        listed = (await owner.get("/v1/budgets")).json()["budgets"]
        assert [(element["scope"], element["period"]) for element in listed] == [("org", "month"), ("key", "day")]
        assert (await stranger.get("/v1/budgets")).json() == {"budgets": [], "next_page_token": ""}
        refused = await owner.put("/v1/budgets", json={**own, "key_id": foreign_key})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "key_id")
        assert (await stranger.delete("/v1/budgets?period=month")).status_code == 404
        assert (await owner.delete("/v1/budgets?period=month")).status_code == 204
        gone = await owner.delete("/v1/budgets?period=month")
        assert (gone.status_code, gone.json()["reason"]) == (404, "BUDGET_NOT_FOUND")
        assert (await owner.delete(f"/v1/budgets?scope=key&key_id={key_id}&period=day")).status_code == 204
        for entry in (owner, stranger):
            await entry.aclose()


async def test_users_have_usage_and_budgets_of_their_own(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        owner, key_id = await client(database, gateway, "acme", "ana")
        member, members_key = await client(database, gateway, "acme", "bob")
        now = datetime.now(UTC)
        for user, key, times in (("ana", key_id, 1), ("bob", members_key, 2), ("bob", "", 3)):
            for _ in range(times):
                add_call(database, org_id="acme", user_id=user, key_id=key, started_at=now, ended_at=now)

        async def calls(http: httpx.AsyncClient, **params: str) -> int:
            return (await usage(http, **params))["total"]["calls"]

        assert await calls(owner) == 6
        assert await calls(owner, user="bob") == await calls(member) == await calls(member, user="bob") == 5
        assert await calls(owner, key_id=members_key) == await calls(member, key_id=members_key) == 2
        assert await calls(owner, user="ana", key_id=members_key) == await calls(member, key_id=key_id) == 0
        refused = await member.get("/v1/usage?user=ana")
        assert (refused.status_code, refused.json()["reason"]) == (403, "PERMISSION_DENIED")
        assert (await owner.get("/v1/usage?key_id=k&source=exchanges")).status_code == 422
        body = {"scope": "user", "user": "bob", "period": "month", "limit_usd": 3}
        made = await owner.put("/v1/budgets", json=body)
        assert made.status_code == 200, made.text
        shown = {name: made.json()[name] for name in ("scope", "user", "limit_usd", "spent_usd")}
        assert shown == {"scope": "user", "user": "bob", "limit_usd": 3.0, "spent_usd": 0.00225}
        assert "key_id" not in made.json()
        await owner.put("/v1/budgets", json={"period": "month", "limit_usd": 9})
        listed = (await owner.get("/v1/budgets")).json()["budgets"]
        assert [(entry["scope"], entry["limit_usd"]) for entry in listed] == [("org", 9.0), ("user", 3.0)]
        unknown = await owner.put("/v1/budgets", json={**body, "user": "nobody"})
        assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "user")
        assert (await member.put("/v1/budgets", json=body)).status_code == 403
        # The organisation's budget stays.
        assert (await owner.delete("/v1/budgets?scope=user&user=bob&period=month")).status_code == 204
        assert [entry["scope"] for entry in (await owner.get("/v1/budgets")).json()["budgets"]] == ["org"]
        for entry in (owner, member):
            await entry.aclose()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"period": "day", "limit_usd": 1, "scope": "user"}, "user"),
        ({"period": "day", "limit_usd": 1, "user": "ada"}, "user"),
        ({"period": "day", "limit_usd": 1, "scope": "user", "user": "ada", "key_id": "key_1"}, "key_id"),
        ({"period": "day"}, "limit_usd"),
        ({"period": "day", "limit_usd": -1}, "limit_usd"),
        ({"period": "day", "limit_usd": True}, "limit_usd"),
        ({"period": "day", "limit_usd": 2e9}, "limit_usd"),
        ({"period": "year", "limit_usd": 1}, "period"),
        ({"period": "day", "limit_usd": 1, "scope": "key"}, "key_id"),
        ({"period": "day", "limit_usd": 1, "key_id": "key_1"}, "key_id"),
        ({"period": "day", "limit_usd": 1, "usd": 1}, "usd"),
    ],
)
async def test_a_wrong_budget_names_its_field(gateway: Gateway, body: Json, field: str) -> None:
    response = await gateway.http.put("/v1/budgets", json=body)
    assert response.status_code == 422, response.text
    assert any(error["field"].startswith(field) for error in response.json()["errors"]), response.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat", {}),
        ("/v1/chat", {"stream": False}),
        ("/v1/chat", {"profile": "library"}),
        ("/api/chat/", {}),
        ("/api/chat/query", {}),
    ],
)
async def test_a_spent_budget_is_402_before_any_frame(gateway: Gateway, path: str, body: Json) -> None:
    async def refuse(_request: object) -> AsyncGenerator[Any, None]:
        raise SPENT
        yield  # pragma: no cover # makes it a stream

    gateway.fakes.generator.script = refuse
    check_spent(await gateway.http.post(path, json={**QUESTION, **body}))


def check_spent(response: httpx.Response) -> None:
    assert response.status_code == 402, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["retry-after"] == "813"
    problem = response.json()
    assert (problem["reason"], problem["title"]) == ("BUDGET_EXCEEDED", "A budget is used up")
    assert (problem["budget"], problem["limit_usd"], problem["left_usd"]) == ("org", 5.0, 0.25)
    assert problem["resets_at"] == "2026-12-01T00:00:00Z"


async def test_a_budget_spent_mid_stream_ends_the_stream_with_an_error(gateway: Gateway) -> None:
    script = gateway.fakes.generator.script

    async def begin_and_refuse(request: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401 # a message
        async for message in script(request):
            if message.HasField("completed"):
                raise SPENT
            yield message

    gateway.fakes.generator.script = begin_and_refuse
    frames = frames_of((await gateway.http.post("/v1/chat", json=QUESTION)).text)
    assert [frame.event for frame in frames[-2:]] == ["error", "done"]
    assert "budget" in frames[-2].data["text"]
