"""Several saved providers of an owner and type, one of them active: saving, listing, activating, deleting, rotating."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from citewire.common.v1 import common_pb2

from callers import signed_channel
from citewire_accounts.tenants.provider_service import rotate
from citewire_accounts.tenants.providers import MOST_SAVED, ProviderStore
from citewire_gateway.clients.embedder import ProviderSealer
from citewire_kit.postgres import open_pool
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

Json = dict[str, Any]
QUESTION = {"question": "How much did revenue grow?"}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


def own(model: str, **more: object) -> Json:
    return {"provider": "openai-compatible", "model": model, "api_key": "sk-1", "api_base": "https://x.org", **more}


async def put(gateway: Gateway, path: str, body: Json) -> Json:
    response = await gateway.http.put(f"/v1/providers/{path}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def saved_providers(gateway: Gateway) -> dict[str, bool]:
    """The saved providers' names, and whether they are active."""
    listed = (await gateway.http.get("/v1/providers")).json()["providers"]
    return {f"{provider['type']}/{provider['scope']}/{provider['name']}": provider["active"] for provider in listed}


async def asked_model(gateway: Gateway) -> str:
    """The tenant's own model that a chat uses; "" if it uses the operator's."""
    await gateway.stream("/v1/chat", QUESTION)
    return gateway.fakes.generator.requests[-1].provider.model


async def test_one_of_several_is_active_until_another_is_activated(gateway: Gateway) -> None:
    first = await put(gateway, "chat", own("one", fallbacks=[{"model": "extractive"}]))
    assert (first["name"], first["active"]) == ("default", True)
    second = await put(gateway, "chat/work", own("two", fallbacks=[{"provider": "openai"}, {"model": "extractive"}]))
    assert (second["name"], second["active"], len(second["fallbacks"])) == ("work", False, 2)
    assert await saved_providers(gateway) == {"chat/user/default": True, "chat/user/work": False}
    assert await asked_model(gateway) == "one"

    activated = await gateway.http.post("/v1/providers/chat/work:activate")
    assert (activated.status_code, activated.json()["model"], activated.json()["active"]) == (200, "two", True)
    assert await asked_model(gateway) == "two"
    assert len(gateway.fakes.generator.requests[-1].fallbacks) == 2
    assert (await gateway.http.get("/v1/providers/chat")).json()["name"] == "work"
    shown = (await gateway.http.get("/v1/providers/chat/default")).json()
    assert (shown["active"], shown["model"], shown["fallbacks"]) == (False, "one", [{"model": "extractive"}])
    assert (shown["has_key"], shown["has_api_base"], shown["test"]["ok"]) == (True, True, True)
    again = await gateway.http.post("/v1/providers/chat/work:activate")
    assert again.json()["active"]
    assert await saved_providers(gateway) == {"chat/user/work": True, "chat/user/default": False}


async def test_a_saved_provider_is_tested_active_or_not(gateway: Gateway) -> None:
    await put(gateway, "chat", own("one"))
    await put(gateway, "chat/work", own("two"))
    for path, fakes in (("chat/default", gateway.fakes.generator), ("chat/work", gateway.fakes.generator)):
        refused = common_pb2.ProviderTest(tried=True, reason="PROVIDER_AUTH", text="It refuses the key.", status=401)
        fakes.sealing.test = refused
        tried = await gateway.http.post(f"/v1/providers/{path}:test")
        assert tried.status_code == 200
        expected = {"tried": True, "ok": False, "text": refused.text, "reason": "PROVIDER_AUTH", "status": 401}
        assert tried.json()["test"] == expected
        assert (await gateway.http.get(f"/v1/providers/{path}")).json()["test"] == expected, "the result must be stored"
        fakes.sealing.test = common_pb2.ProviderTest(tried=True, ok=True, text="The provider answered.", status=200)
        assert (await gateway.http.post(f"/v1/providers/{path}:test")).json()["test"]["ok"] is True
    assert await saved_providers(gateway) == {"chat/user/default": True, "chat/user/work": False}, (
        "nothing else has changed"
    )
    missing = await gateway.http.post("/v1/providers/chat/other:test")
    assert (missing.status_code, missing.json()["reason"]) == (404, "PROVIDER_NOT_FOUND")


async def test_saving_replaces_the_provider_of_that_name(gateway: Gateway) -> None:
    await put(gateway, "chat/a", own("a1", fallbacks=[{"model": "extractive"}] * 3))
    assert await asked_model(gateway) == ""
    assert (await put(gateway, "chat/a", own("a2")))["fallbacks"] == []
    assert (await put(gateway, "chat/b?activate=true", own("b1")))["active"]
    assert await asked_model(gateway) == "b1"
    assert (await put(gateway, "chat/b", own("b2")))["active"]  # it stays active, although the request doesn't say so
    assert (await put(gateway, "chat", own("b3")))["name"] == "b"  # the route without a name is the active one's
    assert (await put(gateway, "chat/a?activate=true", own("a3")))["active"]
    assert await asked_model(gateway) == "a3"
    assert await saved_providers(gateway) == {"chat/user/a": True, "chat/user/b": False}
    assert (await gateway.http.get("/v1/providers/chat/b")).json()["model"] == "b3"


async def test_types_and_owners_are_separate(gateway: Gateway) -> None:
    gateway.fakes.embedder.own_space = gateway.fakes.retriever.space
    await put(gateway, "chat/x?scope=org&activate=true", own("org-x"))
    await put(gateway, "chat/x", own("user-x"))
    await put(gateway, "embedding/x?activate=true", own("embed-x"))
    assert await asked_model(gateway) == "org-x"  # the user's isn't active, so the organisation's counts
    assert (await gateway.http.post("/v1/providers/chat/x:activate")).json()["scope"] == "user"
    assert await asked_model(gateway) == "user-x"
    assert await saved_providers(gateway) == {"chat/user/x": True, "chat/org/x": True, "embedding/user/x": True}
    page = (await gateway.http.get("/v1/providers", params={"q": "user-x", "page_size": 1})).json()
    assert ([provider["model"] for provider in page["providers"]], page["next_page_token"]) == (["user-x"], "")


async def test_a_caller_returns_to_the_servers_provider(gateway: Gateway) -> None:
    await put(gateway, "chat/x?scope=org&activate=true", own("org-x"))
    await put(gateway, "chat/work?activate=true", own("mine", fallbacks=[{"model": "extractive"}]))
    assert await asked_model(gateway) == "mine"
    stopped = await gateway.http.post("/v1/providers/chat:deactivate")
    assert (stopped.status_code, stopped.json()["name"], stopped.json()["active"]) == (200, "work", False)
    assert await asked_model(gateway) == "org-x"
    assert (await gateway.http.post("/v1/providers/chat:deactivate?scope=org")).json()["name"] == "x"
    assert await asked_model(gateway) == ""
    # The provider and its key are still stored, and it can be activated again.
    assert (await gateway.http.post("/v1/providers/chat/work:activate")).json()["fallbacks"] == [
        {"model": "extractive"}
    ]
    assert await asked_model(gateway) == "mine"
    nothing = await gateway.http.post("/v1/providers/rerank:deactivate")
    assert (nothing.status_code, nothing.json()["reason"]) == (404, "PROVIDER_NOT_FOUND")


async def test_deleting_activates_nothing(gateway: Gateway) -> None:
    for name in ("a", "b", "c"):
        await put(gateway, f"chat/{name}?activate=true", own(name))
    assert (await gateway.http.delete("/v1/providers/chat/a")).status_code == 204
    assert await saved_providers(gateway) == {"chat/user/c": True, "chat/user/b": False}
    assert (await gateway.http.delete("/v1/providers/chat")).status_code == 204
    assert await saved_providers(gateway) == {"chat/user/b": False}
    assert await asked_model(gateway) == ""
    assert (await gateway.http.get("/v1/providers/chat")).status_code == 404
    assert (await gateway.http.delete("/v1/providers/chat/b")).status_code == 204
    for response in (
        await gateway.http.delete("/v1/providers/chat/b"),
        await gateway.http.get("/v1/providers/chat/b"),
        await gateway.http.post("/v1/providers/chat/b:activate"),
    ):
        assert (response.status_code, response.json()["reason"]) == (404, "PROVIDER_NOT_FOUND")


@pytest.mark.parametrize("name", ["Work", "-a", "a" * 65, "a:b", "a b", "%0a", "a%0a", "ä"])
async def test_a_wrong_name_is_refused(gateway: Gateway, name: str) -> None:
    response = await gateway.http.put(f"/v1/providers/chat/{name}", json=own("m"))
    assert response.status_code == 422, response.text
    assert [error["field"] for error in response.json()["errors"]] == ["name"]


async def test_at_most_twenty_providers_are_saved(gateway: Gateway) -> None:
    body = own("m", test=False)
    for number in range(MOST_SAVED):
        await put(gateway, f"chat/p{number}?activate={'true' if number == 3 else 'false'}", body)
    refused = await gateway.http.put("/v1/providers/chat/one-more", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "name")
    await put(gateway, "chat/p7", body)
    await put(gateway, "chat", body)


async def test_simultaneous_changes_leave_one_active(gateway: Gateway, database: Database) -> None:
    names = ("a", "b", "c", "d")
    await asyncio.gather(*(put(gateway, f"chat/{name}?activate=true", own(name)) for name in names))
    await asyncio.gather(*(gateway.http.post(f"/v1/providers/chat/{name}:activate") for name in names * 2))
    active = rows(database, "SELECT name FROM chat.providers")
    waiting = rows(database, "SELECT name FROM chat.saved_providers")
    assert sorted([*active, *waiting]) == [("a",), ("b",), ("c",), ("d",)]
    assert len(active) == 1


async def test_a_rotation_includes_inactive_providers(gateway: Gateway, database: Database) -> None:
    await put(gateway, "chat/a", own("a", fallbacks=[{"provider": "openai", "api_key": "sk-2"}]))
    await put(gateway, "chat/b?activate=true", own("b"))
    pool = await open_pool(database.dsn("citewire_chat"), max_size=1, name="test")
    channels = [signed_channel(gateway.fakes.target(name)) for name in ("embedder", "generator")]
    before = rows(database, "SELECT name, position, sealed_key FROM chat.saved_providers ORDER BY 1, 2")
    gateway.fakes.generator.sealing.master_key = gateway.fakes.embedder.sealing.master_key = "k2"
    try:
        rotation = await rotate(ProviderStore(pool), ProviderSealer(*channels, seconds=10))
    finally:
        for channel in channels:
            await channel.close(None)
        await pool.close()
    assert (rotation.wrapped, rotation.failed, rotation.gone) == (3, 0, 0)
    after = rows(database, "SELECT name, position, sealed_key FROM chat.saved_providers ORDER BY 1, 2")
    assert [row[:2] for row in after] == [row[:2] for row in before] == [("a", 0), ("a", 1)]
    assert all(old[2] != new[2] for old, new in zip(before, after, strict=True))


def test_both_tables_have_the_same_columns(database: Database) -> None:
    columns = rows(
        database,
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
        "WHERE table_schema = 'chat' AND table_name IN ('providers', 'saved_providers') ORDER BY ordinal_position",
    )
    active, waiting = ([row[1:] for row in columns if row[0] == name] for name in ("providers", "saved_providers"))
    assert len(active) > 10
    assert active == waiting  # rows move between the tables unchanged


def test_the_previous_version_reads_and_writes_the_active_provider(database: Database) -> None:
    """Its literal statements: it still serves after the migration."""
    with psycopg.connect(database.dsn("citewire_chat")) as connection:
        connection.execute("SELECT set_config('citewire.org_id', 'acme', true)")
        for model in ("one", "two"):
            connection.execute(
                """INSERT INTO chat.providers
                       (org_id, user_id, type, position, provider, model, dimensions, sealed_api_base, sealed_key,
                        has_key, has_api_base, test, updated_by)
                   VALUES ('acme', '', 'chat', 0, 'openai', %s, 0, '', 'x', true, false, NULL, 'ada')
                   ON CONFLICT (org_id, user_id, type, position) DO UPDATE SET model = excluded.model""",
                (model,),
            )
        assert connection.execute("SELECT model, name FROM chat.providers").fetchall() == [("two", "default")]
        sealed = connection.execute("SELECT org_id, user_id, type, position FROM chat.sealed_providers()").fetchall()
        assert sealed == [("acme", "", "chat", 0)]
